"""The two layers an image is made of: a kernel with its modules, and a root file system; both from Debian packages.

Fills the folder it is given; where that lies, and whether it is needed, is decided by build.py.
"""

import gzip
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from iolab.errors import UnsupportedError
from iolab.image.cache import Image
from iolab.image.kernel import decompress, extract_vmlinux, load_order, module_names, offered_features
from iolab.image.packages import Archive, Distribution, list_installed, package_version, unpack
from iolab.image.programs import pipe, run
from iolab.image.recipe import Flavour, Recipe

VMLINUX = "vmlinux"
MODULES = "modules.squashfs"
EARLY = "early"
"""Folder of the modules of the first stage, named in the order of loading."""
KERNEL = "kernel.json"
ROOT = "root.squashfs"
XEN = "xen"
PACKAGES = "packages.txt"

SQUASH = ("-comp", "zstd", "-Xcompression-level", "3", "-no-progress", "-quiet", "-no-recovery")
"""Level 3 packs the root in 2 s to 90 MB; the default, 15, takes 30 s for 79 MB."""
SCRATCH = "size=4g"
"""Upper bound of the memory that holds the root while its packages unpack; 0.3 to 0.9 GB are used."""
UNWANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
ON_SCRATCH = 'mount -t tmpfs -o "$1" iolab "$2" && export TMPDIR="$2" && shift 2 && exec "$@"'
FOLDERS = tuple(f"{base}{name}" for base in ("", "usr/", "usr/local/") for name in ("bin", "sbin"))
"""Where programs are looked for."""
TIDY = (
    'cd "$1" && rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/resolv.conf etc/hostname etc/machine-id '
    "etc/ssh/ssh_host_* && mkdir -p lib/modules"
)
"""Nothing of the machine that builds stays in the image."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What a kernel layer says of itself: the content of kernel.json."""

    release: str
    """As uname -r."""
    package: str
    """Debian package of the kernel, name=version."""
    version: str
    """Of that package."""
    features: tuple[str, ...]
    """What it can make, named as in a host's facts."""


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
            "packing modules",
        )
    version = package_version(package)
    facts = KernelFacts(release, f"{name}={version}", version, features)
    (folder / KERNEL).write_bytes(_ADAPTER.dump_json(facts, indent=1) + b"\n")


def read_kernel(folder: Path) -> KernelFacts:
    """Return what a kernel layer says of itself."""
    return _ADAPTER.validate_json((folder / KERNEL).read_bytes())


def _arrange_modules(tree: Path, modules: Path, early: Sequence[str], folder: Path) -> tuple[str, ...]:
    release = modules.name
    base = tree if modules.is_relative_to(tree / "lib") else tree / "usr"
    run(["depmod", "-b", base, release], "listing the kernel's modules")
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
        pipe(first, second, f"building the root of the guest image {flavour.name}", log)
    log.unlink()
    status = run(["unsquashfs", "-cat", folder / ROOT, "var/lib/dpkg/status"], "reading what was installed")
    installed = sorted([*list_installed(status), *outside])
    (folder / PACKAGES).write_text("".join(f"{line}\n" for line in installed), encoding="utf-8")


def programs_in(image: Image) -> frozenset[str] | None:
    """Return the names of the programs in an image's root; None: they cannot be listed here."""
    try:
        listed = run(["unsquashfs", "-l", image.root, *FOLDERS], "listing the programs of a guest image")
    except UnsupportedError:
        return None
    return frozenset(line.rpartition("/")[2] for line in listed.splitlines())


def _bootstrap(
    archive: Archive, distribution: Distribution, packages: Sequence[str], scratch: Path
) -> list[str | Path]:
    """Return the command that writes a root file system to its output, as a tar archive."""
    rooted = os.geteuid() == 0
    # In memory, and in name spaces that take everything with them when they end.
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
        f"choosing packages: {package} depends on {', '.join(names) or 'nothing'}; "
        f"wanted: a package whose name begins with {beginning}"
    )


_ADAPTER = TypeAdapter(KernelFacts)
