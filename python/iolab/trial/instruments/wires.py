"""Check the timing of emulated paths and pacers: frames that were sent late, as counted by each emulated link.

If the thread of an emulated link has no CPU, frames are sent after their due time: in that time, the host changes
delay, rate and gaps, so they differ from the configured values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from iolab.agent.answers import counted_since
from iolab.agent.client import Agent
from iolab.agent.messages import WayCounts, WireCarried, WireCounts
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.link_topology import home_of, is_ours, is_paced, way_ends
from iolab.lab.links.wires import wire_id
from iolab.messages.instrument_warnings import (
    PacerSlipped,
    WireBypassed,
    WireLate,
    WireWeakened,
)
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric
from iolab.trial.instruments.instrument import Seen
from iolab.trial.lab_access import Site

PATIENCE_S = 10.0
MOST_LATE_RATIO = 0.01
"""Maximum share of frames that may be sent more than 100 us late without a warning, so that p99 lateness is below 100
us [ratio]."""
MOST_VERY_LATE_RATIO = 0.001
"""Maximum share of frames that may be sent more than 1 ms late without a warning [ratio]."""
MOST_LOST_RATIO = 0.01
"""Maximum share of its rate that a pacer may lose without a warning [ratio]."""


@dataclass(frozen=True, slots=True)
class WireLink:
    """A link whose frames iolab forwards."""

    name: str
    """Link name."""
    ends: tuple[str, str]
    """Ports of the link; the first direction is from the first to the second."""
    kernel: str
    """Kernel that runs the emulation."""
    paced: bool = False
    """Whether the link paces its frames; each late frame then causes a burst of the following frames."""


Counted = Mapping[str, WireCounts]
"""Frame counters since the creation of the emulated link, by link."""


class Wires:
    """Emulated links of a lab, read before and after a measure."""

    def __init__(self, agent_of: Callable[[str], Agent], links: tuple[WireLink, ...]) -> None:
        self._agent_of = agent_of
        self._links = links
        self._before: Counted = {}

    def start(self) -> None:
        """Read the counters. Raises AgentError."""
        self._before = self._read()

    def stop(self) -> Seen:
        """Read the counters again, and return the frames that were sent late in between. Raises AgentError."""
        return late_frames(self._links, self._before, self._read())

    def abandon(self) -> None:
        """Do nothing: no program is running."""

    def _read(self) -> Counted:
        pending = {
            link.name: self._agent_of(link.kernel).begin("wire.read", {"id": wire_id(link.name)})
            for link in self._links
        }
        return {name: one.read(WireCounts, PATIENCE_S) for name, one in pending.items()}


def wires_of(site: Site) -> Wires:
    """Return the instrument that reads the emulated links of a lab."""
    lab = site.lab
    links = tuple(
        WireLink(name, _named(way_ends(lab, name)), home_of(lab, name), is_paced(lab, name))
        for name in lab.links
        if is_ours(lab, name)
    )
    return Wires(site.agent_of, links)


def _named(ends: tuple[PortRef, PortRef]) -> tuple[str, str]:
    return str(ends[0]), str(ends[1])


def start_draws(site: Site, seed: int, block: int) -> None:
    """Restart the random draws of a block on every emulated link, with frame numbers from 0. Raises AgentError."""
    lab = site.lab
    pending = [
        site.agent_of(home_of(lab, name)).begin(
            "wire.restart_draws",
            {
                "id": wire_id(name),
                "seeds": [
                    draw_seed(seed, block, name, link.wire.way(end).seed) for end in way_ends(lab, name)
                ],
            },
        )
        for name, link in lab.links.items()
        if link.wire is not None and is_ours(lab, name)
    ]
    for one in pending:
        one.result(PATIENCE_S)


def draw_seed(seed: int, block: int, link: str, written: int) -> int:
    """Return the seed of a link's random draws in a block; `seed` is the experiment's seed, `written` the link's own
    seed.

    All levels of a block have the same seed. The seed depends on nothing else: it is the same on every platform and in
    every version.
    """
    text = f"{seed} {block} {written} {link}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8, person=b"iolab wire").digest(), "big")


def late_frames(links: tuple[WireLink, ...], before: Counted, after: Counted) -> Seen:
    """Return the share of late frames in each direction, and warnings about late frames."""
    metrics: list[Metric] = []
    warnings: list[TrialWarning] = []
    for link in links:
        warnings.extend(_lacking(link, after[link.name].carried))
        for about, way in _ways(link, before[link.name], after[link.name]):
            if way.bypassed_packets or way.stale_frames:
                warnings.append(
                    WireBypassed(
                        link=link.name,
                        direction=str(about.direction),
                        bypassed_packets=way.bypassed_packets,
                        stale_frames=way.stale_frames,
                    )
                )
            if way.left_frames == 0:
                continue
            metrics.append(Metric.of("wire_late_frames", float(way.late_frames), about))
            metrics.append(Metric.of("wire_late_ratio", way.late_frames / way.left_frames, about))
            metrics.append(Metric.of("wire_spared_frames", float(way.spared_frames), about))
            if link.paced:
                lost_ns = max(0, way.slipped_ns + way.short_ns)
                lost = lost_ns / max(1, lost_ns + way.paced_ns)
                metrics.append(Metric.of("pacer_lost_ratio", lost, about))
                if lost > MOST_LOST_RATIO:
                    at = str(about.direction)
                    warnings.append(PacerSlipped(link=link.name, direction=at, lost_ratio=lost))
            if _is_to_be_said(link, way):
                warnings.append(
                    WireLate(
                        link=link.name,
                        direction=str(about.direction),
                        late_frames=way.late_frames,
                        very_late_frames=way.very_late_frames,
                        left_frames=way.left_frames,
                    )
                )
    return Seen(tuple(metrics), tuple(warnings))


def _lacking(wire: WireLink, carried: WireCarried) -> Iterator[TrialWarning]:
    """Yield warnings about properties that an emulated link lacks. An unpaced link needs no separate CPU: on a shared
    CPU, it is only slower."""
    link = wire.name
    if carried.not_apart is not None and wire.paced:
        yield WireWeakened(code="wire-not-apart", link=link, reason=carried.not_apart)
    if carried.unprioritised is not None:
        yield WireWeakened(code="wire-unprioritised", link=link, reason=carried.unprioritised)
    if carried.unstamped is not None:
        yield WireWeakened(code="wire-unstamped", link=link, reason=carried.unstamped)
    if carried.no_veth is not None:
        yield WireWeakened(code="wire-by-taps", link=link, reason=carried.no_veth)


def _is_to_be_said(link: WireLink, way: WayCounts) -> bool:
    most_late = 0 if link.paced else MOST_LATE_RATIO * way.left_frames
    return way.late_frames > most_late or way.very_late_frames > MOST_VERY_LATE_RATIO * way.left_frames


def _ways(link: WireLink, before: WireCounts, after: WireCounts) -> Iterator[tuple[Dimensions, WayCounts]]:
    first, second = link.ends
    directions = (f"{first}->{second}", f"{second}->{first}")
    for direction, earlier, later in zip(directions, before.ways, after.ways, strict=True):
        yield Dimensions(direction=direction), counted_since(earlier, later)
