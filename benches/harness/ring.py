"""Record frames of an interface with kernel timestamps: a ring that the kernel fills, read at the end.

Uses AF_PACKET with TPACKET_V2 (packet(7), PACKET_RX_RING): no other program runs during the measurement. The kernel
stamps a sent frame when the frame is passed to the interface, and a received frame when the stack gets the frame.
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
"""Slot sizes: for a frame's first bytes, and for its timestamp alone."""
KEPT = 1
"""The frame was received by a separate ring, not copied."""
SETTLE_S = 0.02
"""Wait for the last frames in transit."""
UDP_64 = (46, 17)
"""UDP frames of 64 B."""


class Seen(NamedTuple):
    """A recorded frame."""

    at_ns: int
    """Timestamp [ns, since 1970]."""
    length: int
    """Length of the frame without FCS [bytes]."""
    head: bytes
    """First bytes."""


class Ring:
    """Record every frame of an interface in both directions, or the IPv4 packets of one length and protocol.

    For selected packets, only the timestamps are kept, and a socket option makes the kernel stamp a frame when the
    device receives it, not when another CPU processes it.
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
        """Stop; return the frames in order.

        Raises:
            OSError: some frames did not fit.
        """
        lost, found = self._read()
        if lost:
            raise OSError(f"the recorder lost {lost} frames")
        return found

    def stamps_ns(self) -> list[int]:
        """Stop; return the timestamps of all frames, and print the number of frames that did not fit."""
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
    """Attach a filter to a socket that passes only the first 14 bytes of IPv4 packets with a length and protocol."""
    wanted = (
        (0x28, 0, 0, 12), (0x15, 0, 5, 0x0800),    # IPv4,
        (0x28, 0, 0, 16), (0x15, 0, 3, ip_bytes),  # of this length,
        (0x30, 0, 0, 23), (0x15, 0, 1, protocol),  # and of this protocol
        (0x06, 0, 0, 14), (0x06, 0, 0, 0),
    )  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in wanted))
    attached = struct.pack("HxxxxxxQ", len(wanted), ctypes.addressof(program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
