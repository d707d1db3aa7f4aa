"""Whether emulated paths and pacers kept their times: frames that left late, as each wire counts them.

While the thread of a wire has no CPU, frames leave after they were due: delay, rate and gaps of that time are the
host's, not those that were asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from iolab.agent.answers import counted_since
from iolab.agent.client import Agent
from iolab.agent.messages import WayCounts, WireCarried, WireCounts
from iolab.lab.links.link_topology import home_of, is_ours, is_paced
from iolab.lab.links.wires import wire_id
from iolab.messages.instrument_warnings import (
    PacerSlipped,
    WireLate,
    WireWeakened,
)
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric
from iolab.trial.instruments.instrument import Seen
from iolab.trial.lab_access import Site

PATIENCE_S = 10.0
MOST_LATE_RATIO = 0.01
"""Of the frames of a trial, as many may leave over 100 us late without a word: their 99 % quantile is below that."""
MOST_VERY_LATE_RATIO = 0.001
"""And as many over 1 ms."""
MOST_LOST_RATIO = 0.01
"""So much of its rate a pacer may lose without a word."""


@dataclass(frozen=True, slots=True)
class WireLink:
    """A link whose frames iolab itself carries."""

    name: str
    """The link."""
    ends: tuple[str, str]
    """Its ports; the first of the two ways is from the first to the second."""
    kernel: str
    """On which the wire runs."""
    paced: bool = False
    """Whether it spaces its frames: each late one makes a burst of those behind it."""


Counted = Mapping[str, WireCounts]
"""Link to what became of its frames since the wire was made."""


class Wires:
    """The wires of a lab, read before a measure and after it."""

    def __init__(self, agent_of: Callable[[str], Agent], links: tuple[WireLink, ...]) -> None:
        self._agent_of = agent_of
        self._links = links
        self._before: Counted = {}

    def start(self) -> None:
        """Read them. Raises AgentError."""
        self._before = self._read()

    def stop(self) -> Seen:
        """Read them again, and return how many frames left late in between. Raises AgentError."""
        return late_frames(self._links, self._before, self._read())

    def abandon(self) -> None:
        """Do nothing: nothing runs."""

    def _read(self) -> Counted:
        pending = {
            link.name: self._agent_of(link.kernel).begin("wire.read", {"id": wire_id(link.name)})
            for link in self._links
        }
        return {name: one.read(WireCounts, PATIENCE_S) for name, one in pending.items()}


def wires_of(site: Site) -> Wires:
    """Return what reads the wires of a standing lab."""
    lab = site.lab
    links = tuple(
        WireLink(name, (str(link.ends[0]), str(link.ends[1])), home_of(lab, name), is_paced(lab, name))
        for name, link in lab.links.items()
        if is_ours(lab, name)
    )
    return Wires(site.agent_of, links)


def start_draws(site: Site, seed: int, block: int) -> None:
    """Start the draws of a block on every emulated link: its frames are numbered from 0. Raises AgentError."""
    lab = site.lab
    pending = [
        site.agent_of(home_of(lab, name)).begin(
            "wire.restart_draws",
            {
                "id": wire_id(name),
                "seeds": [draw_seed(seed, block, name, link.wire.way(end).seed) for end in link.ends],
            },
        )
        for name, link in lab.links.items()
        if link.wire is not None and is_ours(lab, name)
    ]
    for one in pending:
        one.result(PATIENCE_S)


def draw_seed(seed: int, block: int, link: str, written: int) -> int:
    """Return what the chance of a link is drawn from in a block; `seed` is the experiment's, `written` the link's own.

    All levels of a block have the same. It depends on nothing else: the same on every platform and in every version.
    """
    text = f"{seed} {block} {written} {link}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8, person=b"iolab wire").digest(), "big")


def late_frames(links: tuple[WireLink, ...], before: Counted, after: Counted) -> Seen:
    """Return the share of the frames of each way that left late, and what to know about that."""
    metrics: list[Metric] = []
    warnings: list[TrialWarning] = []
    for link in links:
        warnings.extend(_lacking(link, after[link.name].carried))
        for about, way in _ways(link, before[link.name], after[link.name]):
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
    """Yield what a wire has not that it was to have; where it spaces nothing, a CPU apart only makes it faster."""
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
