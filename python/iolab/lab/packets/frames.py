"""Frame sizes, what links carry, and what a rate is in frames and bits. Pure."""

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.measures import Packets
from iolab.lab.links.overlays import mtu_of
from iolab.lab.packets.placement import Way, check_senders
from iolab.units import split_frame_rate

IMIX = ((64, 7), (594, 4), (1518, 1))
"""The common simple mix: frame size [bytes], weight."""
LINE_OVERHEAD_BYTES = 20
"""Preamble with delimiter (8) and the smallest gap between frames (12) on the line (IEEE 802.3)."""
FRAME_BYTES, TAG_BYTES = 14 + 4, 4
"""What a frame has beyond the MTU: header and checksum, and a VLAN tag, which Linux does not count as a part of it."""

Sizes = tuple[tuple[int, int], ...]
"""Frame size with checksum [bytes], weight."""


def sizes_of(measure: Packets) -> Sizes:
    """Return the frame sizes of a measure and how often each comes."""
    return IMIX if measure.frame_size == "imix" else ((measure.frame_size, 1),)


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


def check_fit(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that the largest frame fits every link on its way, and that senders can share the flows.

    Raises:
        InputError: a link's MTU is too small, every such link at once; or the flows are no multiple of the senders.
    """
    check_senders(measure)
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
        advice = f"lower frame_size, or give links.{name} an mtu of {largest - beyond} or more"
        problems.append(Problem("measure", "fitting frames to their links", seen, allowed, advice))
    if problems:
        raise InputError(problems)
