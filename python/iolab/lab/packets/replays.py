"""A recording as it is sent again: which frames, with which tags and addresses. Pure."""

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_network

from iolab.errors import InputError, Problem
from iolab.experiment.model.packets import Packets
from iolab.experiment.model.recordings import Moved, Replay
from iolab.frozen import frozen
from iolab.units import NS_PER_S

ADDRESSES = 12
"""Of Ethernet, before the type [bytes]."""
TAGS = (0x8100, 0x88A8)
IPV4, IPV6, ICMP_V6 = 0x0800, 0x86DD, 58
NEIGHBOURS = range(133, 138)
"""Types of ICMPv6 that are about neighbours and routers."""
LEAST_BYTES, CHECKSUM_BYTES = 60, 4
"""Of a frame without checksum, and the checksum."""
ENTRY = struct.Struct("<QH")
"""Before each frame, for the agent: its time [ns] and its length [bytes]."""


@frozen
class Sent:
    """What is sent of a recording."""

    entries: bytes
    """All frames as the agent takes them (contract, traffic.record)."""
    frames: int
    """How many."""
    skipped: int
    """Frames that are left out: no IP, or about neighbours."""
    sizes: tuple[tuple[int, int], ...]
    """Frame size with checksum [bytes], and how many have it."""
    span_ns: int
    """From the first to the last [ns]."""

    @property
    def fps(self) -> float:
        """Return the mean rate as recorded [frames/s]; 0: all at once, or one frame alone."""
        return (self.frames - 1) / (self.span_ns / NS_PER_S) if self.span_ns else 0.0


def sent_of(measure: Packets, vlan: int | None = None) -> Sent:
    """Return what a measure sends of its recording, on a link with a tag.

    Raises:
        InputError: nothing is left of it.
    """
    assert measure.replay is not None
    return _sent(measure.replay, vlan)


@lru_cache(maxsize=2)
def _sent(replay: Replay, vlan: int | None) -> Sent:
    tag = b"" if vlan is None or replay.tags == "recorded" else struct.pack(">HH", TAGS[0], vlan)
    moves = [_mover(move) for move in replay.move]
    entries, sizes, times, skipped = bytearray(), Counter[int](), list[int](), 0
    for frame in replay.recording.frames:
        data = frame.bytes
        at = ADDRESSES
        kind = int.from_bytes(data[at : at + 2])
        while kind in TAGS and at < ADDRESSES + 8:
            at += 4
            kind = int.from_bytes(data[at : at + 2])
        if replay.others == "skip" and _is_other(data, at + 2, kind):
            skipped += 1
            continue
        if moves and kind in (IPV4, IPV6):
            data = _moved(data, at + 2, kind, moves)
        if replay.tags == "lab":
            data = data[:ADDRESSES] + tag + data[at:]
        data = data.ljust(LEAST_BYTES, b"\0")
        times.append(frame.time_ns)
        entries += ENTRY.pack(frame.time_ns - times[0], len(data)) + data
        sizes[len(data) + CHECKSUM_BYTES] += 1
    if not times:
        seen, allowed = (
            f"{skipped} frames that are no IP, or about neighbours",
            "a recording with frames of IP",
        )
        advice = "others: send sends them as they are"
        raise InputError([Problem("measure", "choosing the frames of a recording", seen, allowed, advice)])
    return Sent(bytes(entries), len(times), skipped, tuple(sorted(sizes.items())), times[-1] - times[0])


def _is_other(data: bytes, ip: int, kind: int) -> bool:
    if kind == IPV6:
        return data[ip + 6 : ip + 7] == bytes([ICMP_V6]) and data[ip + 40 : ip + 41] in _NEIGHBOURS
    return kind != IPV4


_NEIGHBOURS = {bytes([kind]) for kind in NEIGHBOURS}

Mover = Callable[[bytes], bytes | None]
"""An address to the one that it becomes; None: it is not of the network."""


def _mover(move: Moved) -> Mover:
    before, after = ip_network(move.src), ip_network(move.dst)
    length = before.max_prefixlen // 8
    mask = int(before.netmask)
    first, other = int(before.network_address), int(after.network_address)

    def moved(address: bytes) -> bytes | None:
        value = int.from_bytes(address)
        if len(address) != length or value & mask != first:
            return None
        return (value & ~mask & (1 << 8 * length) - 1 | other).to_bytes(length)

    return moved


def _moved(data: bytes, ip: int, kind: int, moves: Sequence[Mover]) -> bytes:
    places = [(ip + 12, 4), (ip + 16, 4)] if kind == IPV4 else [(ip + 8, 16), (ip + 24, 16)]
    changed = bytearray(data)
    for at, length in places:
        address = data[at : at + length]
        changed[at : at + length] = next((new for move in moves if (new := move(address))), address)
    return bytes(changed)


def check_replay(measure: Packets) -> None:
    """Check that a recording goes together with the other keys of its measure.

    Raises:
        InputError: it does not.
    """
    replay = measure.replay
    if replay is None:
        return
    wrong = {
        "direction: both-ways": measure.direction == "both-ways",
        "spacing: gap-frames": measure.spacing == "gap-frames",
        f"senders: {measure.senders}": measure.senders not in (1, "auto"),
        "flow_rules": measure.flow_rules is not None,
        "tunnel": measure.tunnel is not None,
        f"flows: {measure.flows}": measure.flows > 1,
        f"protocol: {measure.protocol}": measure.protocol != "udp",
        f"loops: {replay.loops}, with kind: {measure.kind}": bool(replay.loops) and measure.kind != "latency",
    }
    seen = [key for key, is_wrong in wrong.items() if is_wrong]
    if seen:
        allowed = "a recording says itself what is sent: one way, by one sender, over and over until the end"
        raise InputError([Problem("measure", "sending a recording", ", ".join(seen), allowed)])
    for move in replay.move:
        before, after = ip_network(move.src), ip_network(move.dst)
        if (before.version, before.prefixlen) != (after.version, after.prefixlen):
            seen_move, allowed = f"{move.src} to {move.dst}", "networks of one family and length"
            raise InputError([Problem("measure", "moving addresses of a recording", seen_move, allowed)])
