"""Generated and replayed frames: sizes, link capacities, rates in frames/s and bits/s. Pure."""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_network

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.packets import Packets
from iolab.experiment.model.recordings import Moved, Replay
from iolab.frozen import frozen
from iolab.lab.links.overlays import mtu_of
from iolab.lab.packets.placement import Way, check_senders
from iolab.locale import Phrase
from iolab.units import ETHERNET_HEADER_BYTES, NS_PER_S, split_frame_rate

IMIX = ((64, 7), (594, 4), (1518, 1))
"""The simple IMIX: frame size [bytes], weight."""
IP_BYTES = {4: 20, 6: 40}
TRANSPORT_BYTES = {"udp": 8, "tcp": 20, "icmp": 8}
TUNNEL_BYTES = {"vxlan": 8 + 8 + ETHERNET_HEADER_BYTES, "gre": 4}
"""Size of tunnel headers; for VXLAN, including the UDP header before and the Ethernet header after the VXLAN header
[bytes]."""
STAMP_BYTES, CHECKSUM_BYTES = 18, 4
LINE_OVERHEAD_BYTES = 20
"""Preamble with delimiter (8) and minimum gap between frames (12) on the line (IEEE 802.3)."""
FRAME_BYTES, TAG_BYTES = ETHERNET_HEADER_BYTES + CHECKSUM_BYTES, 4
"""Bytes of a frame beyond the MTU: header and checksum, and a VLAN tag, which Linux does not include in the MTU."""
Sizes = tuple[tuple[int, int], ...]
"""Frame size including the FCS [bytes], and weight."""
ADDRESSES = 12
"""Size of the Ethernet addresses, which precede the type [bytes]."""
TAGS = (0x8100, 0x88A8)
IPV4, IPV6, ICMP_V6 = 0x0800, 0x86DD, 58
NEIGHBOURS = range(133, 138)
"""ICMPv6 types of neighbour and router discovery."""
LEAST_BYTES = 60
"""Minimum frame size excluding the FCS [bytes]."""
ENTRY = struct.Struct("<QH")
"""Header of each frame for the agent: its time [ns] and its length [bytes]."""
_NEIGHBOURS = {bytes([kind]) for kind in NEIGHBOURS}
Mover = Callable[[bytes], bytes | None]
"""Function that returns the new address for an address; None: the address is not in the network."""


@frozen
class Sent:
    """The frames of a recording that are sent."""

    entries: bytes
    """All frames in the agent's format (contract, traffic.record)."""
    frames: int
    """Number of frames."""
    skipped: int
    """Number of frames that are not sent, because they are not IP, or because they are ARP or ND."""
    sizes: tuple[tuple[int, int], ...]
    """Number of frames by frame size including the FCS [bytes]."""
    span_ns: int
    """Time from the first to the last frame [ns]."""

    @property
    def fps(self) -> float:
        """Return the mean recorded rate [frames/s]; 0: all frames have the same time, or there is only one."""
        return (self.frames - 1) / (self.span_ns / NS_PER_S) if self.span_ns else 0.0


def sizes_of(measure: Packets) -> Sizes:
    """Return the frame sizes of a measure with their weights."""
    if measure.replay is not None:
        return sent_of(measure).sizes
    return IMIX if measure.frame_size == "imix" else ((measure.frame_size, 1),)


def vlans_of(measure: Packets, lab: Lab, way: Way) -> tuple[int, ...]:
    """Return the VLAN tag of the frames: the measure's, or that of the first link."""
    if measure.vlan is not None:
        return (measure.vlan,)
    link = next(link for link in lab.links.values() if way.source.ref in link.ends)
    return () if link.vlan is None else (link.vlan,)


def header_bytes(measure: Packets, tags: int) -> int:
    """Return the size of the headers before the payload of each frame [bytes]."""
    tunnel = IP_BYTES[measure.tunnel_ip] + TUNNEL_BYTES[measure.tunnel] if measure.tunnel else 0
    return (
        ETHERNET_HEADER_BYTES
        + TAG_BYTES * tags
        + tunnel
        + IP_BYTES[measure.ip]
        + TRANSPORT_BYTES[measure.protocol]
    )


def is_stamped(measure: Packets, lab: Lab, directions: Iterable[Way]) -> bool:
    """Whether the frames of all directions have room for a stamp after their headers."""
    if measure.replay is not None:
        return True  # each frame whose payload has room gets a stamp
    smallest = min(size for size, _ in sizes_of(measure)) - CHECKSUM_BYTES
    tags = max(len(vlans_of(measure, lab, way)) for way in directions)
    return smallest >= header_bytes(measure, tags) + STAMP_BYTES


def mean_bytes(sizes: Sizes) -> float:
    """Return the mean frame size, including the FCS [bytes]."""
    return sum(size * weight for size, weight in sizes) / sum(weight for _, weight in sizes)


def bps_l2(fps: float, sizes: Sizes) -> float:
    """Return the bit rate of a frame rate, including the FCS [bit/s]."""
    return fps * mean_bytes(sizes) * 8


def bps_l1(fps: float, sizes: Sizes) -> float:
    """Return the line rate of a frame rate, with preamble and gap [bit/s]."""
    return fps * (mean_bytes(sizes) + LINE_OVERHEAD_BYTES) * 8


def line_fps(measure: Packets) -> float | None:
    """Return the maximum frame rate of the declared line in one direction [frames/s]; None: no line is declared."""
    if measure.line_rate is None:
        return None
    return measure.line_rate / ((mean_bytes(sizes_of(measure)) + LINE_OVERHEAD_BYTES) * 8)


def given_fps(measure: Packets, rate: str | None) -> float:
    """Return the load of a measure with one rate in one direction [frames/s]; without a rate, the rate of its
    recording.

    Raises:
        InputError: neither the measure nor its recording has a rate, or the rate exceeds the line rate.
    """
    if rate is not None:
        return fps_of(rate, measure, "rate")
    replay = measure.replay
    fps = sent_of(measure).fps if replay is not None and replay.timing == "recorded" else 0.0
    if not fps:
        seen, allowed = Phrase("lab.no-rate"), Phrase("lab.rate-or-recorded-timing")
        doing, advice = Phrase("lab.reading-rate-of-latency"), Phrase("lab.add-rate")
        raise InputError([Problem("measure", doing, seen, allowed, advice)])
    return fps


def fps_of(rate: str, measure: Packets, key: str) -> float:
    """Return a rate in file syntax as frames/s in one direction.

    Raises:
        InputError: the rate is a percentage and no line is declared, or it exceeds the line rate.
    """
    number, unit = split_frame_rate(rate)
    line = line_fps(measure)
    doing = Phrase("lab.reading-key-of-measure", key=key, kind=measure.kind)
    if unit == "%":
        if line is None:
            seen, allowed = (
                Phrase("lab.percentage-without-line-rate", rate=rate),
                Phrase("lab.rate-of-frames"),
            )
            raise InputError([Problem("measure", doing, seen, allowed, Phrase("lab.add-line-rate"))])
        fps = line * number / 100
    elif unit == "bit":
        fps = number / (mean_bytes(sizes_of(measure)) * 8)
    else:
        fps = number
    if line is not None and fps > line * (1 + 1e-9):
        seen = Phrase("lab.rate-in-frames", rate=rate, fps=f"{fps:.0f}")
        allowed = Phrase("lab.at-most-the-line-rate", fps=f"{line:.0f}", line_rate=measure.line_rate)
        raise InputError([Problem("measure", doing, seen, allowed, Phrase("lab.lower-rate-or-raise-line"))])
    return fps


def _check_room(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that the headers fit in the smallest frame and, for a latency measure, that the stamp fits too.

    Raises:
        InputError: the headers or the stamp do not fit.
    """
    smallest = min(size for size, _ in sizes_of(measure))
    headers = (
        header_bytes(measure, max(len(vlans_of(measure, lab, way)) for way in directions)) + CHECKSUM_BYTES
    )
    doing = Phrase("lab.fitting-headers-into-frames")
    seen = Phrase("lab.frames-with-long-headers", size=smallest, headers=headers)
    if smallest < headers:
        allowed = Phrase("lab.larger-frames-for-headers", least=headers, least_stamped=headers + STAMP_BYTES)
        raise InputError([Problem("measure", doing, seen, allowed)])
    if measure.kind == "latency" and smallest < headers + STAMP_BYTES:
        least = headers + STAMP_BYTES
        allowed = Phrase("lab.larger-frames-for-stamp", least=least, stamp=STAMP_BYTES)
        advice = Phrase("lab.count-without-stamp")
        raise InputError([Problem("measure", doing, seen, allowed, advice)])


def check_fit(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that the largest frame fits in every link of its path, and that flows can be divided among senders.

    Raises:
        InputError: the MTUs of links are too small (all such links are listed), or the flows are not a multiple of the
            senders.
    """
    check_senders(measure)
    check_replay(measure)
    if measure.replay is None:
        _check_room(measure, lab, directions)
    largest = max(size for size, _ in sizes_of(measure))
    crossed = {end for way in directions for hop in way.hops for end in hop}
    problems = []
    for name, link in lab.links.items():
        tagged = measure.vlan is not None or link.vlan is not None
        beyond = FRAME_BYTES + (TAG_BYTES if tagged else 0)
        if crossed.isdisjoint(link.ends) or largest <= (mtu := mtu_of(lab, name)) + beyond:
            continue
        seen = Phrase("lab.frames-above-mtu", size=largest, link=name, mtu=mtu)
        allowed = Phrase("lab.at-most-the-mtu", most=mtu + beyond)
        advice = Phrase("lab.smaller-or-raise-mtu", link=name, mtu=largest - beyond)
        if measure.replay is not None:
            advice = Phrase("lab.capture-smaller-or-raise-mtu", link=name, mtu=largest - beyond)
        problems.append(Problem("measure", Phrase("lab.fitting-frames-to-links"), seen, allowed, advice))
    if problems:
        raise InputError(problems)


def sent_of(measure: Packets, vlan: int | None = None) -> Sent:
    """Return the frames of a measure's recording that are sent on a link with a given VLAN tag.

    Raises:
        InputError: no frame remains.
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
            Phrase("lab.frames-of-neighbours-alone", skipped=skipped),
            Phrase("lab.recording-with-ip"),
        )
        doing, advice = Phrase("lab.choosing-frames-of-recording"), Phrase("lab.send-others-too")
        raise InputError([Problem("measure", doing, seen, allowed, advice)])
    return Sent(bytes(entries), len(times), skipped, tuple(sorted(sizes.items())), times[-1] - times[0])


def _is_other(data: bytes, ip: int, kind: int) -> bool:
    if kind == IPV6:
        return data[ip + 6 : ip + 7] == bytes([ICMP_V6]) and data[ip + 40 : ip + 41] in _NEIGHBOURS
    return kind != IPV4


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
    """Check that a recording does not conflict with the other keys of its measure.

    Raises:
        InputError: the recording conflicts with a key.
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
        doing, allowed = Phrase("lab.sending-a-recording"), Phrase("lab.keys-of-recording-alone")
        raise InputError([Problem("measure", doing, Phrase("errors.listed", items=seen), allowed)])
    for move in replay.move:
        before, after = ip_network(move.src), ip_network(move.dst)
        if (before.version, before.prefixlen) != (after.version, after.prefixlen):
            seen_move = Phrase("lab.from-to", src=move.src, dst=move.dst)
            allowed = Phrase("lab.networks-of-one-length")
            raise InputError([Problem("measure", Phrase("lab.moving-addresses"), seen_move, allowed)])
