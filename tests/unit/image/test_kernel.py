"""Kernel images: the compressed kernel inside a bzImage, the order of modules, their features."""

import gzip
import lzma
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iolab.errors import UnsupportedError
from iolab.image.layers import extract_vmlinux, is_static_program, load_order, module_names, offered_features

KERNEL = b"\x7fELF" + bytes(range(256)) * 20
DEPENDENCIES = """\
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/net/8021q/8021q.ko: kernel/net/802/mrp.ko
kernel/net/802/mrp.ko:
kernel/drivers/block/xen-blkfront.ko:
"""


def bz_image(payload: bytes, setup_sectors: int = 3, offset: int = 64) -> bytes:
    """Return a bzImage as described by the boot protocol."""
    image = bytearray((setup_sectors + 1) * 512 + offset)
    image[0x1F1] = setup_sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, offset, len(payload))
    return bytes(image) + payload


@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress])
def test_kernel_is_extracted_from_a_bzimage(compress: Callable[[bytes], bytes]) -> None:
    """Read offset and size from the header, for any compression."""
    payload = compress(KERNEL) + struct.pack("<I", len(KERNEL))
    assert extract_vmlinux(bz_image(payload)) == KERNEL


def test_uncompressed_kernel_is_used_unchanged() -> None:
    """Accept the ELF file that some distributions ship."""
    assert extract_vmlinux(KERNEL) == KERNEL


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (b"", "neither an ELF file nor a bzImage"),
        (b"MZ" + bytes(600), "neither an ELF file nor a bzImage"),
        (bz_image(b"\x89LZO" + bytes(40)), "supported formats are xz, gzip, zstd and lz4"),
        (bz_image(lzma.compress(KERNEL)[:100] + bytes(4)), "unpacking the kernel"),
        (bz_image(lzma.compress(KERNEL) + struct.pack("<I", 7)), "instead of 7"),
        (bz_image(lzma.compress(b"no ELF") + struct.pack("<I", 6)), "damaged"),
    ],
)
def test_damaged_kernel_image_is_refused(image: bytes, told: str) -> None:
    """Name the invalid contents."""
    with pytest.raises(UnsupportedError, match=told):
        extract_vmlinux(image)


def test_only_statically_linked_programs_are_accepted_as_first_process() -> None:
    """Check programs of this computer: Python needs a loader, busybox or ldconfig does not."""
    assert not is_static_program(Path(sys.executable).resolve().read_bytes())
    assert not is_static_program(b"\x7fELF\x02\x01" + b"\xff" * 100)
    assert not is_static_program(b"#!/bin/sh\n")
    assert is_static_program(Path("/sbin/ldconfig").read_bytes())


def test_modules_are_ordered_after_their_dependencies() -> None:
    """List each file once, in loading order, without built-in modules."""
    order = load_order(DEPENDENCIES, {"squashfs"}, ["virtio", "virtio_blk", "squashfs", "xen_blkfront"])
    assert order == (
        "kernel/drivers/virtio/virtio_ring.ko",
        "kernel/drivers/virtio/virtio.ko",
        "kernel/drivers/block/virtio_blk.ko.xz",
        "kernel/drivers/block/xen-blkfront.ko",
    )


def test_kernel_without_a_required_module_is_refused() -> None:
    """Report it at build time, because the guest would not find its root."""
    with pytest.raises(UnsupportedError, match="no overlay"):
        load_order(DEPENDENCIES, set(), ["overlay"])


def test_image_offers_only_the_features_whose_module_exists() -> None:
    """Use the feature names of host facts."""
    assert offered_features(module_names(DEPENDENCIES)) == ("link:vlan",)
