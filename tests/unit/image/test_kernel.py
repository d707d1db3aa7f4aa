"""Taking a kernel apart: the packed kernel inside a bzImage, the order of modules, what they offer."""

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
    """Return a bzImage as the boot protocol describes it."""
    image = bytearray((setup_sectors + 1) * 512 + offset)
    image[0x1F1] = setup_sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, offset, len(payload))
    return bytes(image) + payload


@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress])
def test_the_kernel_is_found_in_a_bz_image(compress: Callable[[bytes], bytes]) -> None:
    """Its place and size are read from the header, whatever it is packed with."""
    payload = compress(KERNEL) + struct.pack("<I", len(KERNEL))
    assert extract_vmlinux(bz_image(payload)) == KERNEL


def test_an_uncompressed_kernel_is_taken_as_it_is() -> None:
    """Some distributions ship the ELF file itself."""
    assert extract_vmlinux(KERNEL) == KERNEL


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (b"", "neither an ELF file nor a bzImage"),
        (b"MZ" + bytes(600), "neither an ELF file nor a bzImage"),
        (bz_image(b"\x89LZO" + bytes(40)), "known are xz, gzip, zstd, lz4"),
        (bz_image(lzma.compress(KERNEL)[:100] + bytes(4)), "unpacking the kernel"),
        (bz_image(lzma.compress(KERNEL) + struct.pack("<I", 7)), "instead of 7"),
        (bz_image(lzma.compress(b"no ELF") + struct.pack("<I", 6)), "damaged"),
    ],
)
def test_a_damaged_kernel_is_refused(image: bytes, told: str) -> None:
    """Whatever is in the file, the complaint says what was seen."""
    with pytest.raises(UnsupportedError, match=told):
        extract_vmlinux(image)


def test_a_program_that_needs_libraries_is_no_first_process() -> None:
    """Judged by the programs of this computer: Python needs a loader, busybox or ldconfig does not."""
    assert not is_static_program(Path(sys.executable).resolve().read_bytes())
    assert not is_static_program(b"\x7fELF\x02\x01" + b"\xff" * 100)
    assert not is_static_program(b"#!/bin/sh\n")
    assert is_static_program(Path("/sbin/ldconfig").read_bytes())


def test_a_module_comes_after_what_it_needs() -> None:
    """Each file once, in an order that can be loaded; what is built in is left out."""
    order = load_order(DEPENDENCIES, {"squashfs"}, ["virtio", "virtio_blk", "squashfs", "xen_blkfront"])
    assert order == (
        "kernel/drivers/virtio/virtio_ring.ko",
        "kernel/drivers/virtio/virtio.ko",
        "kernel/drivers/block/virtio_blk.ko.xz",
        "kernel/drivers/block/xen-blkfront.ko",
    )


def test_a_kernel_without_a_wanted_module_is_refused() -> None:
    """The guest would not find its root; better said while building."""
    with pytest.raises(UnsupportedError, match="no overlay"):
        load_order(DEPENDENCIES, set(), ["overlay"])


def test_features_are_those_whose_module_is_there() -> None:
    """They are named as a host's facts name them."""
    assert offered_features(module_names(DEPENDENCIES)) == ("link:vlan",)
