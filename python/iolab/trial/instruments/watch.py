"""The wire monitor: exact bytes and frames per window on ports and links, counted by the agents of their kernels.

Frames are observed on arrival, at both ends of a veth pair: they have left the sender's queues, and frames that bypass
its queueing discipline (AF_XDP, AF_PACKET) are included. If the far end is not a port of the lab, frames are observed
before they are queued for sending.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json, WatchStarted
from iolab.agent.traffic import close_watch, read_windows, start_watch, stop_watch
from iolab.errors import AgentError, InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.instruments import Capture, Watch
from iolab.experiment.model.links import Shape
from iolab.experiment.model.packets import Packets
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.link_topology import Join, join_of
from iolab.lab.links.overlays import mtu_of
from iolab.lab.packets.placement import PastStack, past_stack, ways
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase
from iolab.messages.failures import WatchFailed
from iolab.results.metric import Dimensions
from iolab.trial.instruments.capture import captured_ports
from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.watched import Point, WindowsOf, watched
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed

KEPT_BYTES = 35_000_000
"""Memory for the windows of one point that are kept individually [bytes]: enough for 60 s of windows of 12 us at full
rate, with and without a line."""
LINE_EXTRA_BYTES = 38
"""Bytes on a line per frame in addition to the MTU: Ethernet header, checksum, preamble and interframe gap."""
USUAL_MTU_BYTES = 1500
TRAIN_GAP_NS = 5_000
"""Maximum gap within a train if no line rate is set [ns]."""
NOTHING_PAST = PastStack()
RATES_BPS = tuple(
    mantissa * 10**power for power in range(7, 11) for mantissa in (1, 2, 3, 4, 5, 6, 8)
)  # 10 Mbit/s to 80 Gbit/s
"""Rates at which the token bucket depth is computed [bit/s]."""


@dataclass(frozen=True, slots=True)
class PlacedPoint:
    """A point of a watch, and its location."""

    point: Point
    """Traffic that the point observes."""
    port: Port
    """Port whose interface is observed."""
    hook: str
    """Where the point observes frames: at the hook "ingress" or "egress"."""

    def params(self) -> Json:
        """Return the point in the form of the agent's protocol."""
        return {"netns": self.port.netns, "interface": self.port.name, "hook": self.hook}


class WireWatch:
    """A watch on all its points, which may belong to several kernels."""

    def __init__(
        self,
        agent_of: Callable[[str], Agent],
        asked: Watch,
        points: Sequence[PlacedPoint],
        mtu_bytes: int = USUAL_MTU_BYTES,
    ) -> None:
        self._agent_of = agent_of
        self._asked = asked
        self._mtu_bytes = mtu_bytes
        self._by_kernel: dict[str, list[PlacedPoint]] = {}
        for placed in points:
            self._by_kernel.setdefault(placed.port.kernel, []).append(placed)
        self._name = f"watch:{asked.at}"
        self._started: dict[str, WatchStarted] = {}

    def start(self) -> None:
        """Start counting. Raises TrialFailed and AgentError."""
        for kernel, points in self._by_kernel.items():
            params = self._params() | {"points": [placed.params() for placed in points]}
            with self._answered():
                self._started[kernel] = start_watch(self._agent_of(kernel), params)

    def stop(self) -> Seen:
        """Stop counting, and return the result. Raises TrialFailed and AgentError."""
        with self._answered():
            return self._stop()

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Fail the trial if an agent refuses the request, because the experiment requires the figures of the watch."""
        try:
            yield
        except Refused as error:
            raise Failed(WatchFailed(code="watch-failed", at=self._asked.at, said=str(error))) from error

    def _stop(self) -> Seen:
        seen = []
        for kernel, points in self._by_kernel.items():
            agent = self._agent_of(kernel)
            found = stop_watch(agent, self._name)
            about = [placed.point for placed in points]
            seen.append(watched(self._asked, about, found, self._started[kernel], self._reader(agent)))
            close_watch(agent, self._name)
        return Seen(
            metrics=tuple(metric for one in seen for metric in one.metrics),
            warnings=tuple(warning for one in seen for warning in one.warnings),
            series=tuple(series for one in seen for series in one.series),
        )

    def abandon(self) -> None:
        """Stop all counting."""
        for kernel in self._by_kernel:
            with suppress(AgentError):
                close_watch(self._agent_of(kernel), self._name)

    def _reader(self, agent: Agent) -> WindowsOf:
        return lambda point, windows, flow: read_windows(agent, self._name, (point, windows), flow)

    def _params(self) -> dict[str, Json]:
        asked = self._asked
        return {
            "id": self._name,
            "windows_ns": sorted(asked.window),
            "line_bps": asked.line,
            "train_gap_ns": train_gap_ns(asked, self._mtu_bytes),
            "rates_bps": list(rates_bps(asked)),
            "buffers_bytes": sorted(asked.buffers) if asked.line else [],
            "flows": asked.flows,
            "kept_bytes": KEPT_BYTES,
        }


def train_gap_ns(asked: Watch, mtu_bytes: int = USUAL_MTU_BYTES) -> int:
    """Return the maximum distance between starts of frames in one train [ns]: 1.5 times the transmission time of a
    long frame.

    Starts of back-to-back long frames are one transmission time apart, starts of short frames are closer together.
    """
    if asked.train_gap is not None:
        return asked.train_gap
    if asked.line is None:
        return TRAIN_GAP_NS
    return max(1_000, 3 * (mtu_bytes + LINE_EXTRA_BYTES) * 8 * 1_000_000_000 // asked.line // 2)


def rates_bps(asked: Watch) -> tuple[int, ...]:
    """Return the rates of the token bucket curve: fixed rates, so that runs are comparable, and the line rate."""
    return tuple(sorted({*RATES_BPS, *(() if asked.line is None else (asked.line,))}))


def watch_of(site: Site, asked: Watch) -> WireWatch:
    """Return the wire monitor for a lab."""
    past = PastStack() if site.placement is None else site.placement.past_stack
    points = points_of(site.lab, site.topology, asked.at, past)
    link = _link_of(site.lab, site.topology, asked.at)
    return WireWatch(site.agent_of, asked, points, mtu_of(site.lab, link))


def check_looking_on(measure: Packets, lab: Lab, topology: Topology) -> None:
    """Check that each watch and capture of a measure can observe the measure's frames on its link.

    Raises:
        InputError: a watch or capture cannot observe the frames, which bypass the kernel's network stack at both ends
            of the link.
    """
    directions = ways(lab, topology, measure)
    past = past_stack(measure, lab, directions)
    crossed = dict.fromkeys(hop for way in directions for hop in way.hops)
    problems = [*_blind_captures(measure, lab, topology, past, tuple(crossed))]
    for asked in (one for one in measure.beside() if isinstance(one, Watch)):
        ends = lab.links[_link_of(lab, topology, asked.at)].ends
        points = {(each.port.ref, each.hook) for each in points_of(lab, topology, asked.at, past)}
        wanted = [
            (out, there)
            for out, there in crossed
            if out in ends and there in ends and not {(out, "egress"), (there, "ingress")} & points
        ]
        for out, there in wanted:
            seen = Phrase("trial.watch-sees-no-packet", at=asked.at, source=out, target=there)
            allowed = Phrase("trial.port-through-the-stack")
            advice = Phrase("trial.watch-before-or-after")
            problems.append(Problem("measure", Phrase("trial.placing-a-watch"), seen, allowed, advice))
    if problems:
        raise InputError(problems)


def _blind_captures(
    measure: Packets, lab: Lab, topology: Topology, past: PastStack, crossed: Sequence[tuple[str, str]]
) -> Iterator[Problem]:
    """Yield a problem for each capture whose ports do not see the measure's frames on a link; the problem names a port
    that sees them.

    A capture copies packets of the network stack, which does not see frames that use AF_XDP or an XDP program.
    """
    for asked in (one for one in measure.beside() if isinstance(one, Capture)):
        own = {str(port.ref) for port in captured_ports(lab, topology, asked.at)}
        for out, there in crossed:
            seeing = {*({out} - past.sent), *({there} - past.taken)}
            if not own & {out, there} or own & seeing:
                continue
            seen = Phrase("trial.capture-sees-no-packet", at=asked.at, source=out, target=there)
            allowed = (
                Phrase("trial.port-that-sees", ports=sorted(seeing))
                if seeing
                else Phrase("trial.port-before-or-after")
            )
            advice = Phrase("trial.or-set-af-packet")
            yield Problem("measure", Phrase("trial.placing-a-capture"), seen, allowed, advice)


def _link_of(lab: Lab, topology: Topology, at: str) -> str:
    """Return the link that a watch observes, given as a link or as a port."""
    at = lab.aliases.get(at, at)
    return at if at in lab.links else next(port.link for port in topology.ports() if port.ref == PortRef(at))


def points_of(
    lab: Lab, topology: Topology, at: str, past: PastStack = NOTHING_PAST
) -> tuple[PlacedPoint, ...]:
    """Return the observed points for a port, or for all ports of a link.

    If an XDP program receives the frames of a pair, they are observed on the sending side.
    """
    ports = {port.ref: port for port in topology.ports()}
    link = _link_of(lab, topology, at)
    at = lab.aliases.get(at, at)
    own = [ports[end] for end in lab.links[link].ends if end in ports and at in (link, end)]
    join = join_of(lab, link)
    shaped = lab.links[link].shape
    if join in (Join.PAIR, Join.WIRE):
        here, there = (ports[end] for end in lab.links[link].ends)
        behind = tuple(
            _crossing(source, target, shaped, past, join) for source, target in ((here, there), (there, here))
        )
        emulated = join is Join.WIRE and lab.links[link].wire is not None
        before = (PlacedPoint(Point(Dimensions(direction=f"{port.ref}->")), port, "egress") for port in own)
        found = (*behind, *before) if emulated else behind  # frames that enter and leave the link differ
        return tuple(point for point in found if point is not None)
    return tuple(
        PlacedPoint(
            Point(Dimensions(direction=direction), before_queue=hook == "egress" and _at(shaped, port)),
            port,
            hook,
        )
        for port in own
        for direction, hook, blind in (
            (f"->{port.ref}", "ingress", past.taken),
            (f"{port.ref}->", "egress", past.sent),
        )
        if port.ref not in blind
    )


def _crossing(
    source: Port, target: Port, shaped: Shape | None, past: PastStack, join: Join
) -> PlacedPoint | None:
    """Return the point that observes frames from one end of a veth pair to the other; None if no point does."""
    about = Dimensions(direction=f"{source.ref}->{target.ref}")
    if target.ref not in past.taken:
        return PlacedPoint(Point(about), target, "ingress")
    if join is Join.PAIR and source.ref not in past.sent:
        return PlacedPoint(Point(about, before_queue=_at(shaped, source)), source, "egress")
    return None


def _at(shaped: Shape | None, port: Port) -> bool:
    return shaped is not None and shaped.at == port.ref
