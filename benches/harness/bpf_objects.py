"""List iolab's BPF programs and maps in the kernel, by bpf(2)."""

import os
import struct
from collections.abc import Iterator
from ctypes import CDLL, addressof, c_char, create_string_buffer

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
PROG_NEXT, MAP_NEXT, PROG_FD, MAP_FD, INFO = 11, 12, 13, 14, 15
OURS = b"iolab"
ARRIVALS_BYTES = 266_240
"""Size of the map for the frame timestamps of a tap; maps have no name that identifies their owner."""
BINS_BYTES = 4 << 20
"""Size of the map in which a watch bins frames."""
INFO_BYTES = 128

LIBC = CDLL(None, use_errno=True)


def _call(command: int, attributes: bytes) -> tuple[int, bytes]:
    held = create_string_buffer(attributes.ljust(64, b"\0"), 64)
    return LIBC.syscall(SYS_BPF, command, held, 64), held.raw


def _ids(next_of: int) -> Iterator[int]:
    number = 0
    while True:
        result, said = _call(next_of, struct.pack("II", number, 0))
        if result < 0:
            return
        number = struct.unpack_from("I", said, 4)[0]
        yield number


def _info(by_id: int, number: int) -> bytes:
    fd, _ = _call(by_id, struct.pack("I", number))
    if fd < 0:
        return bytes(INFO_BYTES)
    room = (c_char * INFO_BYTES)()
    _call(INFO, struct.pack("IIQ", fd, INFO_BYTES, addressof(room)))
    os.close(fd)
    return room.raw


def ours() -> str:
    """Return iolab's programs and the maps of emulated links and watches, in words."""
    names = [_info(PROG_FD, number)[64:80].rstrip(b"\0") for number in _ids(PROG_NEXT)]
    sizes = [struct.unpack_from("I", _info(MAP_FD, number), 12)[0] for number in _ids(MAP_NEXT)]
    programs = sorted(name.decode() for name in names if name.startswith(OURS))
    return f"{programs}, {sizes.count(ARRIVALS_BYTES)} maps of arrivals, {sizes.count(BINS_BYTES)} of bins"


if __name__ == "__main__":
    print(ours())
