"""Frame sizes, what links carry, and what a rate is in frames and bits. Pure."""

from collections.abc import Iterable

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.packets import Packets
from iolab.lab.links.overlays import mtu_of
from iolab.lab.packets.placement import Way, check_senders
from iolab.lab.packets.replays import check_replay, sent_of
from iolab.units import ETHERNET_HEADER_BYTES, split_frame_rate

IMIX = ((64, 7), (594, 4), (1518, 1))
"""The common simple mix: frame size [bytes], weight."""
IP_BYTES = {4: 20, 6: 40}
TRANSPORT_BYTES = {"udp": 8, "tcp": 20, "icmp": 8}
TUNNEL_BYTES = {"vxlan": 8 + 8 + ETHERNET_HEADER_BYTES, "gre": 4}
"""Headers; that of VXLAN with UDP before and Ethernet behind it [bytes]."""
STAMP_BYTES, CHECKSUM_BYTES = 18, 4
LINE_OVERHEAD_BYTES = 20
"""Preamble with delimiter (8) and the smallest gap between frames (12) on the line (IEEE 802.3)."""
FRAME_BYTES, TAG_BYTES = ETHERNET_HEADER_BYTES + CHECKSUM_BYTES, 4
"""What a frame has beyond the MTU: header and checksum, and a VLAN tag, which Linux does not count as a part of it."""

Sizes = tuple[tuple[int, int], ...]
"""Frame size with checksum [bytes], weight."""


def sizes_of(measure: Packets) -> Sizes:
    """Return the frame sizes of a measure and how often each comes."""
    if measure.replay is not None:
        return sent_of(measure).sizes
    return IMIX if measure.frame_size == "imix" else ((measure.frame_size, 1),)


def vlans_of(measure: Packets, lab: Lab, way: Way) -> tuple[int, ...]:
    """Return the tag of frames: the measure's, or that of the link they enter."""
    if measure.vlan is not None:
        return (measure.vlan,)
    link = next(link for link in lab.links.values() if way.source.ref in link.ends)
    return () if link.vlan is None else (link.vlan,)


def header_bytes(measure: Packets, tags: int) -> int:
    """Return what stands before the payload of each frame [bytes]."""
    tunnel = IP_BYTES[measure.tunnel_ip] + TUNNEL_BYTES[measure.tunnel] if measure.tunnel else 0
    return (
        ETHERNET_HEADER_BYTES
        + TAG_BYTES * tags
        + tunnel
        + IP_BYTES[measure.ip]
        + TRANSPORT_BYTES[measure.protocol]
    )


def is_stamped(measure: Packets, lab: Lab, directions: Iterable[Way]) -> bool:
    """Tell whether the frames of all directions have room for the stamp behind their headers."""
    if measure.replay is not None:
        return True  # as far as its payloads have room
    smallest = min(size for size, _ in sizes_of(measure)) - CHECKSUM_BYTES
    tags = max(len(vlans_of(measure, lab, way)) for way in directions)
    return smallest >= header_bytes(measure, tags) + STAMP_BYTES


def mean_bytes(sizes: Sizes) -> float:
    """Return the mean frame size, with checksum [bytes]."""
    return sum(size * weight for size, weight in sizes) / sum(weight for _, weight in sizes)


def bps_l2(fps: float, sizes: Sizes) -> float:
    """Return the bits of so many frames, checksums included [bit/s]."""
    return fps * mean_bytes(sizes) * 8


def bps_l1(fps: float, sizes: Sizes) -> float:
    """Return what so many frames take of a line [bit/s]."""
    return fps * (mean_bytes(sizes) + LINE_OVERHEAD_BYTES) * 8


def line_fps(measure: Packets) -> float | None:
    """Return the most frames that the declared line carries in one direction [frames/s]; None: no line is declared."""
    if measure.line_rate is None:
        return None
    return measure.line_rate / ((mean_bytes(sizes_of(measure)) + LINE_OVERHEAD_BYTES) * 8)


def given_fps(measure: Packets, rate: str | None) -> float:
    """Return the load of a measure at one rate in one direction [frames/s]; no rate: as its recording has it.

    Raises:
        InputError: no rate is given, and no recording has one of its own; or it is above the line.
    """
    if rate is not None:
        return fps_of(rate, measure, "rate")
    replay = measure.replay
    fps = sent_of(measure).fps if replay is not None and replay.timing == "recorded" else 0.0
    if not fps:
        seen, allowed = (
            "no rate",
            "a rate (100kpps), or a replay with timing: recorded and frames of several times",
        )
        raise InputError([Problem("measure", "reading rate of a latency measure", seen, allowed, "add rate")])
    return fps


def fps_of(rate: str, measure: Packets, key: str) -> float:
    """Return a rate as written in frames/s of one direction.

    Raises:
        InputError: it is a percentage and no line is declared, or it is above the line.
    """
    number, unit = split_frame_rate(rate)
    line = line_fps(measure)
    doing = f"reading {key} of a {measure.kind} measure"
    if unit == "%":
        if line is None:
            allowed = "a percentage with line_rate, or frames/s (100kpps), or bit/s (500Mbit)"
            raise InputError(
                [Problem("measure", doing, f"{rate} without line_rate", allowed, "add line_rate")]
            )
        fps = line * number / 100
    elif unit == "bit":
        fps = number / (mean_bytes(sizes_of(measure)) * 8)
    else:
        fps = number
    if line is not None and fps > line * (1 + 1e-9):
        seen = f"{rate}, which is {fps:.0f} frames/s"
        allowed = f"at most {line:.0f} frames/s: line_rate {measure.line_rate} bit/s with this frame_size"
        raise InputError([Problem("measure", doing, seen, allowed, "lower the rate, or raise line_rate")])
    return fps


def _check_room(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that the headers fit the smallest frame, and the stamp where latency is measured alone.

    Raises:
        InputError: they do not.
    """
    smallest = min(size for size, _ in sizes_of(measure))
    headers = (
        header_bytes(measure, max(len(vlans_of(measure, lab, way)) for way in directions)) + CHECKSUM_BYTES
    )
    doing, seen = (
        "fitting headers into frames",
        f"frames of {smallest} bytes, whose headers and checksum are {headers}",
    )
    if smallest < headers:
        allowed = (
            f"frame_size: {headers} or more; {headers + STAMP_BYTES} or more for latency and loss by flow"
        )
        raise InputError([Problem("measure", doing, seen, allowed)])
    if measure.kind == "latency" and smallest < headers + STAMP_BYTES:
        least = headers + STAMP_BYTES
        allowed = f"frame_size: {least} or more: the time of sending is in a stamp of {STAMP_BYTES} bytes"
        advice = "kind: forwarding counts frames without it"
        raise InputError([Problem("measure", doing, seen, allowed, advice)])


def check_fit(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that the largest frame fits every link on its way, and that senders can share the flows.

    Raises:
        InputError: a link's MTU is too small, every such link at once; or the flows are no multiple of the senders.
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
        seen = f"frames of {largest} bytes, on link {name} with an mtu of {mtu}"
        allowed = f"at most {mtu + beyond} bytes: the mtu, header and checksum"
        lower = "lower frame_size" if measure.replay is None else "capture with gro and tso off"
        advice = f"{lower}, or give links.{name} an mtu of {largest - beyond} or more"
        problems.append(Problem("measure", "fitting frames to their links", seen, allowed, advice))
    if problems:
        raise InputError(problems)
