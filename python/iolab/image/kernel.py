"""A distribution's kernel, taken apart: the uncompressed kernel, modules in the order of loading, what they offer.

Bytes and texts in, bytes and names out; reads no files. Formats: Linux, x86/boot.rst and kbuild/modules.rst.
"""

import lzma
import struct
import subprocess
import zlib
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from iolab.errors import UnsupportedError
from iolab.registry.kernel_modules import FEATURE_MODULES


def extract_vmlinux(image: bytes) -> bytes:
    """Return the ELF file inside a bzImage: QEMU starts it by PVH in half the time that unpacking it in a guest takes.

    Raises:
        UnsupportedError: it is no bzImage, or packed in a way that is not known here.
    """
    if image.startswith(ELF_MAGIC):
        return image
    if image[HEADER_AT : HEADER_AT + len(HEADER_MAGIC)] != HEADER_MAGIC:
        raise UnsupportedError(
            f"reading the kernel: neither an ELF file nor a bzImage; it begins with {image[:4].hex()}"
        )
    offset, length = struct.unpack_from("<II", image, PAYLOAD_AT)
    begin = (image[SETUP_SECTORS_AT] + 1) * SECTOR_BYTES + offset
    payload = image[begin : begin + length]
    kernel = decompress(payload[:-SIZE_FIELD_BYTES], "the kernel")
    size = struct.unpack("<I", payload[-SIZE_FIELD_BYTES:])[0] if len(payload) == length else -1
    if not kernel.startswith(ELF_MAGIC) or len(kernel) != size:
        raise UnsupportedError(
            f"unpacking the kernel: {len(kernel)} bytes instead of {size}, beginning with {kernel[:4].hex()}; "
            "the package is damaged: remove it and build again"
        )
    return kernel


def is_static_program(program: bytes) -> bool:
    """Tell whether this is an ELF program that needs no loader (ELF-64, little-endian: no header PT_INTERP)."""
    if len(program) < ELF_HEADER_BYTES or not program.startswith(ELF_MAGIC + b"\x02\x01"):
        return False
    (table,) = struct.unpack_from("<Q", program, 0x20)
    size, count = struct.unpack_from("<HH", program, 0x36)
    if table + size * count > len(program):
        return False
    kinds = [struct.unpack_from("<I", program, table + size * number)[0] for number in range(count)]
    return PT_LOAD in kinds and PT_INTERP not in kinds


def decompress(data: bytes, what: str) -> bytes:
    """Return what a kernel build has packed with xz, zstd, lz4 or gzip; other data as it is if it is an ELF file.

    Raises:
        UnsupportedError: damaged, or packed otherwise.
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
        raise UnsupportedError(f"unpacking {what}: {error}") from error
    raise UnsupportedError(
        f"unpacking {what}: it begins with {data[:4].hex()}; known are xz, gzip, zstd, lz4: take another package"
    )


def load_order(dependencies: str, builtin: Collection[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the files to load for the wanted modules, each after what it depends on.

    `dependencies` is the text of modules.dep, `builtin` the names of what is in the kernel already.

    Raises:
        UnsupportedError: a module is neither.
    """
    needed_by = dict(_read_dependencies(dependencies))
    files = {module_name(path): path for path in needed_by}
    ordered: dict[str, None] = {}
    for name in map(_plain, wanted):
        if name in files:
            # modules.dep names everything a module needs, the last first.
            ordered |= dict.fromkeys([*reversed(needed_by[files[name]]), files[name]])
        elif name not in builtin:
            raise UnsupportedError(
                f"choosing kernel modules: this kernel has no {name}; take another kernel package"
            )
    return tuple(ordered)


def _read_dependencies(text: str) -> Iterable[tuple[str, list[str]]]:
    for line in text.splitlines():
        path, _, needs = line.partition(":")
        yield path, needs.split()


def offered_features(modules: Collection[str]) -> tuple[str, ...]:
    """Return the features whose module is there, sorted."""
    return tuple(sorted(name for name, module in FEATURE_MODULES.items() if _plain(module) in modules))


def module_names(text: str) -> frozenset[str]:
    """Return the names of the modules in modules.dep or modules.builtin."""
    return frozenset(module_name(line.partition(":")[0]) for line in text.splitlines() if line)


def module_name(path: str) -> str:
    """Return the name of the module in a file."""
    return _plain(PurePosixPath(path).name.partition(".ko")[0])


def _plain(name: str) -> str:
    return name.replace("-", "_")


ELF_HEADER_BYTES = 64
PT_LOAD, PT_INTERP = 1, 3
ELF_MAGIC = b"\x7fELF"
XZ_MAGIC = b"\xfd7zXZ\0"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_MAGIC = b"\x02\x21\x4c\x18"
"""Of the format that kernels use, which lz4 calls legacy."""
HEADER_MAGIC = b"HdrS"
HEADER_AT = 0x202
SETUP_SECTORS_AT = 0x1F1
SECTOR_BYTES = 512
PAYLOAD_AT = 0x248
"""Where a bzImage tells offset and length of its packed kernel (boot protocol 2.08)."""
SIZE_FIELD_BYTES = 4
"""The payload ends with its unpacked size."""
