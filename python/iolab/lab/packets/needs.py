"""What measures that send frames of our own need, and whether they go together with a lab."""

from collections.abc import Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.packets import Packets
from iolab.lab.links.shared import check_reach
from iolab.lab.packets.flow_addresses import flow_sweeps
from iolab.lab.packets.frames import check_fit
from iolab.lab.packets.placement import Way, next_hop, ways
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.topology import Topology
from iolab.messages.subjects import KeyOf, Purpose

TOOLS = ("ip", "ethtool", "taskset", "ps")
"""Programs that arrange a lab for frames."""


def packet_needs(purpose: Purpose, measure: Packets) -> Iterator[Need]:
    """Give what sending needs, by itself."""
    for program in TOOLS:
        yield Need(NeedKind.PROGRAM, program, purpose)
    if measure.senders != "auto" and measure.senders > 1:
        yield Need(NeedKind.CPU, str(measure.senders - 1), KeyOf(key="senders", part=purpose))


def check_packets(measure: Packets, lab: Lab, topology: Topology) -> None:
    """Check that frames of a measure can go its ways, and are stamped and read by one clock.

    Raises:
        InputError: they cannot, or no way joins two of its ends.
    """
    directions = ways(lab, topology, measure)
    for way in directions:
        check_reach(lab, way.source.machine, way.target.machine)
    check_fit(measure, lab, directions)
    for index, way in enumerate(directions if measure.replay is None else ()):
        flow_sweeps(measure, way, index)
    _check_clock(directions)
    routed = any(next_hop(lab, way) != way.target.ref for way in directions)
    version = measure.ip if measure.tunnel is None else measure.tunnel_ip
    have = {point.of(version) is not None for way in directions for point in (way.source, way.target)}
    if False in have and (routed or version == 4):
        key = "ip" if measure.tunnel is None else "tunnel_ip"
        seen = f"{key}: {version} between ports that have no such address"
        allowed = f"links with ip: {version} or both, or another {key} of the measure"
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed)])


def _check_clock(directions: tuple[Way, ...]) -> None:
    """Check that frames are stamped and read by one kernel's clock: those of two are never compared.

    Raises:
        InputError: they are not.
    """
    if len({way.source.kernel for way in directions}) > 1:
        seen = ", ".join(f"{way.source.ref} on {way.source.kernel or 'this computer'}" for way in directions)
        allowed = "pairs that all send from one kernel, whose agent begins them together"
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed)])
    for way in directions:
        if way.source.kernel == way.target.kernel:
            continue
        seen = ", ".join(f"{end.ref} on {end.kernel or 'this computer'}" for end in (way.source, way.target))
        allowed = "both ends on one kernel, whose clock stamps the frames: clocks of two are never compared"
        advice = "end the way at another port of the first machine, or measure with kind: stream"
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed, advice)])
