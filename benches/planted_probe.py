"""Count the IP packets at one port by the kernel's own time stamps; iolab has no part in it.

Usage: python benches/planted_probe.py INTERFACE, inside the port's namespace. Counts until its input closes, then
prints JSON: packets, bytes from the IP header on, first and last stamp, and the packets that the probe itself missed.
"""

import json
import select
import socket
import struct
import sys

SO_TIMESTAMPNS, SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING = 35, 263, 6, 4
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
HEAD_BYTES = 14
IPV4_FRAGMENT_OFFSET = 0x1FFF
NS_PER_S = 1_000_000_000


def main() -> None:
    """Count what the port receives of data: IP packets of 100 bytes and more, so that no acknowledgement counts."""
    probe = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    probe.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    probe.bind((sys.argv[1], ETH_P_ALL))
    print("ready", flush=True)
    packets = octets = datagrams = first_ns = last_ns = 0
    while True:
        readable, _, _ = select.select([probe, sys.stdin], [], [])
        if probe in readable:
            head, ancillary, _, address = probe.recvmsg(96, 64, socket.MSG_TRUNC | socket.MSG_DONTWAIT)
            size = length_of(head) if address[2] != PACKET_OUTGOING else 0
            if size >= 100:
                seconds, rest = struct.unpack("qq", ancillary[0][2])
                last_ns = seconds * NS_PER_S + rest
                first_ns = first_ns or last_ns
                packets, octets = packets + 1, octets + size
                datagrams += is_first(head)
        elif sys.stdin in readable:
            break
    _, missed = struct.unpack("II", probe.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    counted = {
        "packets": packets,
        "bytes": octets,
        "datagrams": datagrams,
        "first_ns": first_ns,
        "last_ns": last_ns,
    }
    print(json.dumps(counted | {"missed": missed}), flush=True)


def length_of(frame: bytes) -> int:
    """Return the bytes of an IP packet by its own header; 0: it is none."""
    kind = int.from_bytes(frame[12:14], "big")
    if kind == ETH_P_IP:
        return int.from_bytes(frame[HEAD_BYTES + 2 : HEAD_BYTES + 4], "big")
    if kind == ETH_P_IPV6:
        return 40 + int.from_bytes(frame[HEAD_BYTES + 4 : HEAD_BYTES + 6], "big")
    return 0


def is_first(frame: bytes) -> bool:
    """Whether a packet is no later fragment of a datagram."""
    if int.from_bytes(frame[12:14], "big") != ETH_P_IP:
        return True
    return not int.from_bytes(frame[HEAD_BYTES + 6 : HEAD_BYTES + 8], "big") & IPV4_FRAGMENT_OFFSET


if __name__ == "__main__":
    main()
