"""Build the two layers of an image from Debian packages: a kernel with its modules, and a root file system.

The functions fill a given folder; build.py decides where this folder is and whether the layer is needed. The kernel
package is split into the uncompressed kernel, modules in load order, and kernel features. Formats: Linux, x86/boot.rst
and kbuild/modules.rst.
"""

import gzip
import lzma
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter

from iolab.errors import UnsupportedError
from iolab.image.cache import Image
from iolab.image.packages import Archive, Distribution, list_installed, package_version, unpack
from iolab.image.programs import pipe, run
from iolab.image.recipe import Flavour, Recipe
from iolab.locale import Phrase, Text
from iolab.registry.images import FEATURE_MODULES

VMLINUX = "vmlinux"
MODULES = "modules.squashfs"
EARLY = "early"
"""Folder of the initrd's modules, numbered in load order."""
KERNEL = "kernel.json"
ROOT = "root.squashfs"
XEN = "xen"
PACKAGES = "packages.txt"
SQUASH = ("-comp", "zstd", "-Xcompression-level", "3", "-no-progress", "-quiet", "-no-recovery")
"""Compressor options: level 3 packs the root in 2 s to 90 MB; the default, 15, takes 30 s for 79 MB."""
SCRATCH = "size=4g"
"""Size limit of the tmpfs in which the root's packages are unpacked; 0.3 to 0.9 GB are used."""
UNWANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
ON_SCRATCH = 'mount -t tmpfs -o "$1" iolab "$2" && export TMPDIR="$2" && shift 2 && exec "$@"'
FOLDERS = tuple(f"{base}{name}" for base in ("", "usr/", "usr/local/") for name in ("bin", "sbin"))
"""Folders of programs."""
TIDY = (
    'cd "$1" && rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/resolv.conf etc/hostname etc/machine-id '
    "etc/ssh/ssh_host_* && mkdir -p lib/modules"
)
"""Script that removes traces of the build machine from the image."""
ELF_HEADER_BYTES = 64
PT_LOAD, PT_INTERP = 1, 3
ELF_MAGIC = b"\x7fELF"
XZ_MAGIC = b"\xfd7zXZ\0"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_MAGIC = b"\x02\x21\x4c\x18"
"""Magic number of lz4's legacy format, which kernels use."""
HEADER_MAGIC = b"HdrS"
HEADER_AT = 0x202
SETUP_SECTORS_AT = 0x1F1
SECTOR_BYTES = 512
PAYLOAD_AT = 0x248
"""Offset of the payload offset and length in a bzImage (boot protocol 2.08)."""
SIZE_FIELD_BYTES = 4
"""Length of the uncompressed size at the end of the payload."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Description of a kernel layer: the content of kernel.json."""

    release: str
    """Kernel release, as printed by `uname -r`."""
    package: str
    """Debian package of the kernel, name=version."""
    version: str
    """Version of the kernel's package."""
    features: tuple[str, ...]
    """Features of the kernel, named as in host facts."""


def build_kernel(
    archive: Archive, recipe: Recipe, flavour: Flavour, distribution: Distribution, folder: Path
) -> None:
    """Fill a folder with a kernel layer."""
    wanted = flavour.kernel or recipe.kernel_package
    suite = f"{distribution.suite}-backports" if flavour.backports else None
    name = _only(archive.depends(wanted, suite), "linux-image-", wanted)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        tree = Path(work)
        (package,) = archive.download([name], tree)
        unpack(package, tree)
        (boot,) = tree.glob("boot/vmlinuz-*")
        release = boot.name.removeprefix("vmlinuz-")
        modules = next(tree.glob(f"**/modules/{release}"))
        (folder / VMLINUX).write_bytes(extract_vmlinux(boot.read_bytes()))
        features = _arrange_modules(tree, modules, recipe.early_modules, folder)
        run(
            ["mksquashfs", modules.parent, folder / MODULES, *SQUASH, "-noappend", "-all-root"],
            Phrase("image.packing-modules"),
        )
    version = package_version(package)
    facts = KernelFacts(release, f"{name}={version}", version, features)
    (folder / KERNEL).write_bytes(_ADAPTER.dump_json(facts, indent=1) + b"\n")


def read_kernel(folder: Path) -> KernelFacts:
    """Return the description of a kernel layer."""
    return _ADAPTER.validate_json((folder / KERNEL).read_bytes())


def _arrange_modules(tree: Path, modules: Path, early: Sequence[str], folder: Path) -> tuple[str, ...]:
    release = modules.name
    base = tree if modules.is_relative_to(tree / "lib") else tree / "usr"
    run(["depmod", "-b", base, release], Phrase("image.listing-modules"))
    for link in ("build", "source"):
        (modules / link).unlink(missing_ok=True)
    dependencies = (modules / "modules.dep").read_text(encoding="utf-8")
    builtin = module_names((modules / "modules.builtin").read_text(encoding="utf-8"))
    (folder / EARLY).mkdir()
    for number, path in enumerate(load_order(dependencies, builtin, early)):
        content = decompress((modules / path).read_bytes(), path)
        (folder / EARLY / f"{number:02}-{Path(path).name.partition('.ko')[0]}.ko").write_bytes(content)
    return offered_features(builtin | module_names(dependencies))


def build_root(archive: Archive, distribution: Distribution, flavour: Flavour, folder: Path) -> None:
    """Fill a folder with a root layer."""
    packages = list(flavour.packages)
    outside: list[str] = []
    if flavour.xen is not None:
        needs = archive.depends(flavour.xen)
        packages.append(_only(needs, "xen-utils-", flavour.xen))
        outside.append(_add_hypervisor(archive, _only(needs, "xen-hypervisor-4", flavour.xen), folder))
    log = folder / "log"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        first = _bootstrap(archive, distribution, packages, Path(scratch))
        second: list[str | Path] = ["mksquashfs", "-", folder / ROOT, "-tar", *SQUASH, "-noappend"]
        pipe(first, second, Phrase("image.building-root", flavour=flavour.name), log)
    log.unlink()
    status = run(
        ["unsquashfs", "-cat", folder / ROOT, "var/lib/dpkg/status"], Phrase("image.reading-packages")
    )
    installed = sorted([*list_installed(status), *outside])
    (folder / PACKAGES).write_text("".join(f"{line}\n" for line in installed), encoding="utf-8")


def programs_in(image: Image) -> frozenset[str] | None:
    """Return the names of the programs in an image's root; None if they cannot be listed on this host."""
    try:
        listed = run(["unsquashfs", "-l", image.root, *FOLDERS], Phrase("image.listing-programs"))
    except UnsupportedError:
        return None
    return frozenset(line.rpartition("/")[2] for line in listed.splitlines())


def _bootstrap(
    archive: Archive, distribution: Distribution, packages: Sequence[str], scratch: Path
) -> list[str | Path]:
    """Return the command that writes a root file system to its output as a tar archive."""
    rooted = os.geteuid() == 0
    # The root is built in memory, in namespaces: all mounts and processes disappear with them.
    on_scratch = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    on_scratch += ["sh", "-c", ON_SCRATCH, "sh", SCRATCH, str(scratch)]
    return [
        *(on_scratch if rooted else []),
        "mmdebstrap",
        f"--mode={'root' if rooted else 'unshare'}",
        "--variant=essential",
        "--format=tar",
        f"--architectures={distribution.architecture}",
        "--aptopt=APT::Install-Recommends=false",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in UNWANTED),
        f"--include={','.join(packages)}",
        f"--customize-hook={TIDY}",
        distribution.suite,
        "-",
        archive.sources_list,
    ]


def _add_hypervisor(archive: Archive, name: str, folder: Path) -> str:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        (package,) = archive.download([name], Path(work))
        unpack(package, Path(work))
        packed = next(path for path in Path(work).glob("boot/xen-*.gz") if not path.is_symlink())
        with gzip.open(packed) as source, (folder / XEN).open("wb") as target:
            shutil.copyfileobj(source, target)
        return f"{name}={package_version(package)}"


def _only(names: Sequence[str], beginning: str, package: str) -> str:
    for name in names:
        if name.startswith(beginning) and not name.endswith("-common"):
            return name
    raise UnsupportedError(
        Phrase(
            "image.no-such-dependency",
            package=package,
            packages=", ".join(names) or Phrase("image.nothing"),
            wanted=beginning,
        )
    )


def extract_vmlinux(image: bytes) -> bytes:
    """Return the ELF file inside a bzImage; QEMU boots this file through PVH in half the time that a guest needs to
    unpack the image.

    Raises:
        UnsupportedError: the image is not a bzImage, or uses an unknown compression.
    """
    if image.startswith(ELF_MAGIC):
        return image
    if image[HEADER_AT : HEADER_AT + len(HEADER_MAGIC)] != HEADER_MAGIC:
        raise UnsupportedError(Phrase("image.not-a-kernel", hex=image[:4].hex()))
    offset, length = struct.unpack_from("<II", image, PAYLOAD_AT)
    begin = (image[SETUP_SECTORS_AT] + 1) * SECTOR_BYTES + offset
    payload = image[begin : begin + length]
    kernel = decompress(payload[:-SIZE_FIELD_BYTES], Phrase("image.the-kernel"))
    size = struct.unpack("<I", payload[-SIZE_FIELD_BYTES:])[0] if len(payload) == length else -1
    if not kernel.startswith(ELF_MAGIC) or len(kernel) != size:
        raise UnsupportedError(
            Phrase("image.kernel-damaged", size=len(kernel), expected=size, hex=kernel[:4].hex())
        )
    return kernel


def is_static_program(program: bytes) -> bool:
    """Whether this is an ELF program without a dynamic loader (ELF-64, little-endian, no PT_INTERP header)."""
    if len(program) < ELF_HEADER_BYTES or not program.startswith(ELF_MAGIC + b"\x02\x01"):
        return False
    (table,) = struct.unpack_from("<Q", program, 0x20)
    size, count = struct.unpack_from("<HH", program, 0x36)
    if table + size * count > len(program):
        return False
    kinds = [struct.unpack_from("<I", program, table + size * number)[0] for number in range(count)]
    return PT_LOAD in kinds and PT_INTERP not in kinds


def decompress(data: bytes, what: Text) -> bytes:
    """Decompress xz, zstd, lz4 or gzip data; return ELF files unchanged.

    Raises:
        UnsupportedError: the data is damaged, or has a different format.
    """
    try:
        if data.startswith(ELF_MAGIC):
            return data
        if data.startswith(XZ_MAGIC):
            return lzma.decompress(data)
        if data.startswith(GZIP_MAGIC):
            return zlib.decompress(data, wbits=zlib.MAX_WBITS | 16)
        if data.startswith(ZSTD_MAGIC):
            return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout
        if data.startswith(LZ4_MAGIC):
            return subprocess.run(["lz4", "-dcq"], input=data, capture_output=True, check=True).stdout
    except (lzma.LZMAError, zlib.error, OSError, subprocess.CalledProcessError) as error:
        unpacking = Phrase("image.unpacking", what=what)
        raise UnsupportedError(Phrase("errors.failed-with-reason", what=unpacking, reason=error)) from error
    raise UnsupportedError(Phrase("image.compression-unknown", what=what, hex=data[:4].hex()))


def load_order(dependencies: str, builtin: Collection[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the module files to load, each after its dependencies.

    `dependencies` is the text of modules.dep, `builtin` the names of built-in modules.

    Raises:
        UnsupportedError: a module is neither in `dependencies` nor in `builtin`.
    """
    needed_by = dict(_read_dependencies(dependencies))
    files = {module_name(path): path for path in needed_by}
    ordered: dict[str, None] = {}
    for name in map(_plain, wanted):
        if name in files:
            # modules.dep lists all dependencies of a module, the first to load last.
            ordered |= dict.fromkeys([*reversed(needed_by[files[name]]), files[name]])
        elif name not in builtin:
            raise UnsupportedError(Phrase("image.kernel-without-module", module=name))
    return tuple(ordered)


def _read_dependencies(text: str) -> Iterable[tuple[str, list[str]]]:
    for line in text.splitlines():
        path, _, needs = line.partition(":")
        yield path, needs.split()


def offered_features(modules: Collection[str]) -> tuple[str, ...]:
    """Return the features whose module is available, sorted."""
    return tuple(sorted(name for name, module in FEATURE_MODULES.items() if _plain(module) in modules))


def module_names(text: str) -> frozenset[str]:
    """Return the names of the modules in modules.dep or modules.builtin."""
    return frozenset(module_name(line.partition(":")[0]) for line in text.splitlines() if line)


def module_name(path: str) -> str:
    """Return the module name of a file."""
    return _plain(PurePosixPath(path).name.partition(".ko")[0])


def _plain(name: str) -> str:
    return name.replace("-", "_")


_ADAPTER = TypeAdapter(KernelFacts)
