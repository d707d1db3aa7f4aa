"""Record the effect of a planted cause by kernel timestamps and times, independently of iolab.

Usage: python -m benches.harness.planted_probe INTERFACE [--sent] [--flight], inside the port's namespace
   or: python -m benches.harness.planted_probe --pid PID

Records until its input closes, then prints JSON. For an interface: the data packets that it received, their bytes from
the IP header on, first and last timestamp, the longest time between two of them, and the packets that the probe itself
missed; with --sent also the data that it sent; with --flight also the maximum of unacknowledged data of one TCP
connection. For a process: the fractions of the time in which its busiest thread ran and waited for a CPU, and the time
for which the process was stopped.
"""

import errno
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

SO_RCVBUFFORCE, SO_TIMESTAMPNS, SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING, PACKET_OUTGOING = (
    33,
    35,
    263,
    6,
    23,
    4,
)
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
HEAD_BYTES, IPV6_BYTES, KEPT_BYTES = 14, 40, 96
DATA_BYTES = 100
"""Minimum packet size with data; shorter packets are acknowledgements or neighbour solicitations [bytes]."""
IPV4_FRAGMENT_OFFSET = 0x1FFF
TCP, ACK = 6, 0x10
NS_PER_S = 1_000_000_000
LOOK_S, LONGEST_WAIT_S = 0.02, 10.0
SLICE_NS = 10_000_000
"""Data is summed over slices of this length, because readers of two ports do not begin at the same time."""
STOPPED = frozenset("Tt")


def main() -> None:
    """Record, and print the result."""
    if sys.argv[1] == "--pid":
        found = Process(int(sys.argv[2])).looked_at()
    else:
        found = Port(sys.argv[1], sent="--sent" in sys.argv, flight="--flight" in sys.argv).counted()
    print(json.dumps(found), flush=True)


class Port:
    """Packets of one interface."""

    def __init__(self, interface: str, *, sent: bool, flight: bool) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        if not sent and not flight:
            self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        for _ in range(int(LONGEST_WAIT_S / LOOK_S)):
            with suppress(OSError):  # the interface does not exist yet
                self._socket.bind((interface, ETH_P_ALL))
                break
            time.sleep(LOOK_S)
        self._ready_ns = time.time_ns()
        self._slices: dict[int, list[int]] = {}
        self._sent: dict[tuple[bytes, ...], int] = {}
        self._acknowledged: dict[tuple[bytes, ...], int] = {}
        self._flight = flight
        self._flight_bytes = 0

    def counted(self) -> dict[str, Any]:
        """Count until the input closes: received data, and the bytes in flight of sent data."""
        print("ready", flush=True)
        packets = octets = short_bytes = first_ns = last_ns = silent_ns = 0
        short_ns = (0, 0)
        for head, ancillary, outgoing in self._packets():
            size = length_of(head)
            if self._flight:
                self._follow(head, size, outgoing=outgoing)
            seconds, rest = struct.unpack("qq", ancillary)
            at_ns = seconds * NS_PER_S + rest
            slice_ = self._slices.setdefault(at_ns // SLICE_NS, [0, 0, 0])
            slice_[outgoing] += data_of(head, size)
            if outgoing:
                continue
            slice_[2] += size
            if size < DATA_BYTES:
                short_bytes, short_ns = short_bytes + size, (short_ns[0] or at_ns, at_ns)
                continue
            silent_ns = max(silent_ns, at_ns - last_ns) if last_ns else 0
            first_ns, last_ns = first_ns or at_ns, at_ns
            packets, octets = packets + 1, octets + size
        _, missed = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        return {
            "packets": packets,
            "bytes": octets,
            "ready_ns": self._ready_ns,
            "slices": sorted((number * SLICE_NS, *sums) for number, sums in self._slices.items()),
            "short_bytes": short_bytes,
            "short_span_ns": short_ns[1] - short_ns[0],
            "first_ns": first_ns,
            "last_ns": last_ns,
            "silent_ns": silent_ns,
            "flight_bytes": self._flight_bytes,
            "missed": missed,
        }

    def _packets(self) -> Iterator[tuple[bytes, bytes, bool]]:
        while True:
            readable, _, _ = select.select([self._socket, sys.stdin], [], [])
            if self._socket in readable:
                try:
                    head, ancillary, _, address = self._socket.recvmsg(
                        KEPT_BYTES, 64, socket.MSG_TRUNC | socket.MSG_DONTWAIT
                    )
                except OSError as error:
                    if error.errno != errno.ENETDOWN:
                        raise
                    continue  # the port went down, and is read again when it is up
                yield head, ancillary[0][2], address[2] == PACKET_OUTGOING
            elif sys.stdin in readable:
                return

    def _follow(self, head: bytes, size: int, *, outgoing: bool) -> None:
        """Track the sent sequence number of each connection, and compare it with the acknowledgements."""
        if (found := tcp_of(head, size)) is None:
            return
        connection, end, acknowledged, _ = found
        if not outgoing:
            self._acknowledged[connection[1], connection[0], connection[3], connection[2]] = acknowledged
            return
        known = self._sent.get(connection, end)
        self._sent[connection] = end if (end - known) % (1 << 32) < 1 << 31 else known
        if connection in self._acknowledged:
            ahead = (self._sent[connection] - self._acknowledged[connection]) % (1 << 32)
            self._flight_bytes = max(self._flight_bytes, ahead if ahead < 1 << 31 else 0)


class Process:
    """Threads of one process."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")

    def looked_at(self) -> dict[str, float]:
        """Sample until the input closes or the process ends."""
        print("ready", flush=True)
        begin_ns = time.monotonic_ns()
        first, last = self._times(), {}
        end_ns, stopped_ns = begin_ns, 0
        while not select.select([sys.stdin], [], [], LOOK_S)[0]:
            now_ns, found = time.monotonic_ns(), self._times()
            if not found:
                break
            if all(state in STOPPED for _, _, state in found.values()):
                stopped_ns += now_ns - end_ns
            last, end_ns = found, now_ns
        spent = [
            (run_ns - first.get(tid, (0, 0, ""))[0], wait_ns - first.get(tid, (0, 0, ""))[1])
            for tid, (run_ns, wait_ns, _) in last.items()
        ]
        run_ns, wait_ns = max(spent, default=(0, 0))
        span_ns = max(1, end_ns - begin_ns)
        return {"run_ratio": run_ns / span_ns, "wait_ratio": wait_ns / span_ns, "stopped_ns": stopped_ns}

    def _times(self) -> dict[int, tuple[int, int, str]]:
        """Return the run and wait time of each thread [ns], and its state."""
        found: dict[int, tuple[int, int, str]] = {}
        try:
            for task in self._tasks.iterdir():
                run_ns, wait_ns, _ = map(int, (task / "schedstat").read_text().split())
                state = (task / "stat").read_text().rpartition(") ")[2][0]
                found[int(task.name)] = run_ns, wait_ns, state
        except OSError:
            return {}
        return found


def length_of(frame: bytes) -> int:
    """Return the length of an IP packet by its header; 0 if it is not an IP packet."""
    kind = int.from_bytes(frame[12:14], "big")
    if kind == ETH_P_IP:
        return int.from_bytes(frame[HEAD_BYTES + 2 : HEAD_BYTES + 4], "big")
    if kind == ETH_P_IPV6:
        return IPV6_BYTES + int.from_bytes(frame[HEAD_BYTES + 4 : HEAD_BYTES + 6], "big")
    return 0


def tcp_of(frame: bytes, size: int) -> tuple[tuple[bytes, bytes, bytes, bytes], int, int, int] | None:
    """Return a TCP packet's connection, next sequence number, acknowledgement number and payload bytes.

    None: the packet is not TCP, or acknowledges nothing.
    """
    if int.from_bytes(frame[12:14], "big") == ETH_P_IP:
        if frame[HEAD_BYTES + 9] != TCP:
            return None
        ip_bytes = (frame[HEAD_BYTES] & 0x0F) * 4
        ends = frame[HEAD_BYTES + 12 : HEAD_BYTES + 16], frame[HEAD_BYTES + 16 : HEAD_BYTES + 20]
    else:
        if not size or frame[HEAD_BYTES + 6] != TCP:
            return None
        ip_bytes = IPV6_BYTES
        ends = frame[HEAD_BYTES + 8 : HEAD_BYTES + 24], frame[HEAD_BYTES + 24 : HEAD_BYTES + 40]
    tcp = frame[HEAD_BYTES + ip_bytes :]
    if len(tcp) < 20 or not tcp[13] & ACK:
        return None
    data_bytes = size - ip_bytes - (tcp[12] >> 4) * 4
    sequence, acknowledged = int.from_bytes(tcp[4:8], "big"), int.from_bytes(tcp[8:12], "big")
    return (*ends, tcp[0:2], tcp[2:4]), (sequence + data_bytes) % (1 << 32), acknowledged, data_bytes


def data_of(frame: bytes, size: int) -> int:
    """Return the payload bytes of a packet, over all its segments; 0 without payload.

    TCP headers are excluded. Other transport headers are included, because only the first fragment of a datagram has
    one.
    """
    if size < DATA_BYTES:
        return 0
    found = tcp_of(frame, size)
    return size if found is None else found[3]


if __name__ == "__main__":
    main()
