"""Frames of an interface with the kernel's stamps: a ring that the kernel fills, and that is read when all is over.

AF_PACKET with TPACKET_V2 (packet(7), PACKET_RX_RING): no program runs beside what is measured. The stamps are the
kernel's own: of a frame that leaves an interface when it is given to it, of one that arrives when the stack gets it.
"""

import ctypes
import mmap
import socket
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from benches.harness.programs import entered

SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, PACKET_STATISTICS = 263, 5, 10, 6
SO_ATTACH_FILTER, SO_TIMESTAMPNS = 26, 35
TPACKET_V2, ETH_P_ALL = 1, 3
BLOCK_BYTES = 192 * 1024
SLOT_BYTES, SHORT_SLOT_BYTES = 192, 128
"""For a frame's first bytes, and for its stamp alone."""
KEPT = 1
"""The frame was received by a ring of its own, not copied."""
SETTLE_S = 0.02
"""The last frames may be under way."""
UDP_64 = (46, 17)
"""Frames of 64 B of UDP."""


class Seen(NamedTuple):
    """A frame that was recorded."""

    at_ns: int
    """Its stamp [ns, since 1970]."""
    length: int
    """Of the frame without FCS [bytes]."""
    head: bytes
    """Its first bytes."""


class Ring:
    """Records every frame of an interface, of both directions; or the IPv4 packets of one length and protocol.

    Of these only the stamps are kept. The kernel then stamps a frame when the device has it, not when another CPU comes
    to handle it.
    """

    def __init__(
        self, netns: str, interface: str, frames: int = 1 << 20, only: tuple[int, int] | None = None
    ) -> None:
        with entered(netns):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._slot_bytes = SLOT_BYTES
        if only is not None:
            self._slot_bytes = SHORT_SLOT_BYTES
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            attach(self._socket, *only)
        blocks = -(-frames * self._slot_bytes // BLOCK_BYTES)
        self._frames = blocks * BLOCK_BYTES // self._slot_bytes
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, struct.pack("i", TPACKET_V2))
        ring = struct.pack("IIII", BLOCK_BYTES, blocks, self._slot_bytes, self._frames)
        self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
        self._memory = mmap.mmap(self._socket.fileno(), blocks * BLOCK_BYTES, mmap.MAP_SHARED | 0x8000)
        self._socket.bind((interface, ETH_P_ALL))

    def stop(self) -> list[Seen]:
        """Stop; return the frames in their order.

        Raises:
            OSError: some did not fit.
        """
        lost, found = self._read()
        if lost:
            raise OSError(f"the recorder lost {lost} frames")
        return found

    def stamps_ns(self) -> list[int]:
        """Stop; return the stamps of all frames, and print how many did not fit."""
        time.sleep(SETTLE_S)
        lost, found = self._read()
        if lost:
            print(f"  the capture lost {lost} of {len(found)} frames: not judged right", flush=True)
        return [one.at_ns for one in found]

    def _read(self) -> tuple[int, list[Seen]]:
        _, lost = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        found = list(self._frames_seen())
        self._memory.close()
        self._socket.close()
        return lost, found

    def _frames_seen(self) -> Iterator[Seen]:
        """Yield the frames of the ring (linux/if_packet.h: tpacket2_hdr)."""
        for place in range(0, self._frames * self._slot_bytes, self._slot_bytes):
            status, length, kept, mac, _, sec, nsec = struct.unpack_from("IIIHHII", self._memory, place)
            if not status & KEPT:
                return
            begin = place + mac
            yield Seen(sec * 10**9 + nsec, length, self._memory[begin : begin + min(kept, 96)])


def attach(sock: socket.socket, ip_bytes: int, protocol: int) -> None:
    """Let a socket take the first 14 bytes of IPv4 packets of a length and protocol, and nothing else."""
    wanted = (
        (0x28, 0, 0, 12), (0x15, 0, 5, 0x0800),    # IPv4,
        (0x28, 0, 0, 16), (0x15, 0, 3, ip_bytes),  # of this length,
        (0x30, 0, 0, 23), (0x15, 0, 1, protocol),  # and of this protocol
        (0x06, 0, 0, 14), (0x06, 0, 0, 0),
    )  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in wanted))
    attached = struct.pack("HxxxxxxQ", len(wanted), ctypes.addressof(program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
