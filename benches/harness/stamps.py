"""When frames arrive at an interface, by the kernel's stamps: what benches of pacing judge senders by.

Usage: python -m benches.harness.stamps INTERFACE [IP_BYTES PROTOCOL]; absent: 46 17, frames of 64 B of UDP. It says
"ready", lets the kernel fill a ring (AF_PACKET, TPACKET_V2) that nobody reads meanwhile until a line comes, and prints
the stamp of each frame with an IPv4 packet of this length and protocol [ns, realtime] and how many were lost.
"""

import ctypes
import mmap
import socket
import struct
import sys
import time
from collections.abc import Iterator

IP_BYTES, UDP = 46, 17
"""Of a frame of 64 B with its checksum."""
BLOCK_BYTES, BLOCKS, SLOT_BYTES = 1 << 20, 128, 128
"""128 MiB hold a million stamps."""
SETTLE_S = 0.02
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, TPACKET_V2 = 263, 5, 6, 10, 1
SO_ATTACH_FILTER, SO_TIMESTAMPNS, ETH_P_ALL = 26, 35, 3


def accepting(ip_bytes: int, protocol: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return a filter for packets of a length and protocol: their first 14 bytes."""
    return (
        (0x28, 0, 0, 12), (0x15, 0, 5, 0x0800),    # IPv4,
        (0x28, 0, 0, 16), (0x15, 0, 3, ip_bytes),  # of this length,
        (0x30, 0, 0, 23), (0x15, 0, 1, protocol),  # and of this protocol
        (0x06, 0, 0, 14), (0x06, 0, 0, 0),
    )  # fmt: skip


def main() -> None:
    """Capture on an interface."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        # The kernel then stamps a frame when the device has it, not when another CPU comes to handle it.
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        wanted = accepting(*(map(int, sys.argv[2:4]) if len(sys.argv) > 2 else (IP_BYTES, UDP)))
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in wanted))
        attached = struct.pack("HxxxxxxQ", len(wanted), ctypes.addressof(program))
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
        request = struct.pack("4I", BLOCK_BYTES, BLOCKS, SLOT_BYTES, BLOCK_BYTES * BLOCKS // SLOT_BYTES)
        sock.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        with mmap.mmap(sock.fileno(), BLOCK_BYTES * BLOCKS) as memory:
            sock.bind((sys.argv[1], ETH_P_ALL))
            print("ready", flush=True)
            sys.stdin.readline()
            time.sleep(SETTLE_S)  # the last frames may be under way
            lost = struct.unpack("2I", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
            print("\n".join(map(str, stamps(memory))))
            print("lost", lost)


def stamps(memory: mmap.mmap) -> Iterator[int]:
    """Yield the stamps of a ring in order (linux/if_packet.h: tpacket2_hdr)."""
    for at in range(0, BLOCK_BYTES * BLOCKS, SLOT_BYTES):
        status, _, _, _, seconds, nanoseconds = struct.unpack_from("6I", memory, at)
        if not status & 1:
            return
        yield seconds * 1_000_000_000 + nanoseconds


if __name__ == "__main__":
    main()
