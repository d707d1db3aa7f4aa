"""The kernels that a stream passes: their programs, their counters, and what TCP tells of its connections.

Of connections: whether any stood, what controlled their congestion, and what was in flight (sent and not acknowledged).
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iolab.agent.answers import Reading
from iolab.agent.client import REPLY_SLACK_S, Agent, AgentLost, Pending, Refused
from iolab.agent.messages import ProcessEnded, WireCounts
from iolab.experiment.model.measures import Stream
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint
from iolab.messages.warnings import CongestionDiffers
from iolab.results.metric import Metric
from iolab.trial.counters.differences import Port, Snapshot
from iolab.trial.instruments.samplers import Kept, read_kept
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Readings
from iolab.trial.packets.snapshots import begin_wires
from iolab.trial.streams.iperf3 import Pair
from iolab.trial.streams.iperf3_report import Report
from iolab.units import NS_PER_MS

BESIDE = ("cpu", "threads", "softnet", "interfaces", "qdiscs", "drops")
"""What is read before and after a trial."""
IN_EFFECT = ("settings", "processors")
"""What is read after it as well."""
PATIENCE_S = 10.0
CONNECTIONS = "connections"
"""Name of the series at each agent."""
CONNECTIONS_PERIOD_MS = 1_000
"""Finding a namespace's connections takes 0.2 ms."""
LOOK_S = 0.5
"""How often it is looked whether a kernel is lost, while programs run."""
SENDING_RATIO = 0.1
"""A flow that sends less than this part of its mean has ended."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a flow's connections told together."""

    at_ns: int
    in_flight_bytes: int
    sent_bytes: int
    """Until then; 0: the kernel does not tell."""


class Kernels:
    """The kernels that a stream passes, this computer's first."""

    def __init__(
        self, site: Site, pairs: Sequence[Pair], places: Mapping[str, Port], wires: Iterable[str] = ()
    ) -> None:
        """`wires` are the links whose emulated paths the stream passes."""
        self._site, self._wires = site, tuple(wires)
        ends = [end for pair in pairs for end in (pair.client, pair.server)]
        agents = {HERE: site.agent} | dict(site.agents)
        wanted = dict.fromkeys(
            (
                HERE,
                *(end.kernel for end in ends),
                *(port.kernel for port in places.values()),
                *(guest.parent for guest in site.guests.values()),
            )
        )
        self._connections = site.named(CONNECTIONS)
        self._agents: dict[str, Agent] = {name: agents[name] for name in wanted if name in agents}
        self._netns: dict[str, list[str | None]] = {kernel: [] for kernel in self._agents}
        self._ends: dict[str, list[str | None]] = {kernel: [] for kernel in self._agents}
        for end in ends:
            self._add(self._ends, end.kernel, end.netns)
            self._add(self._netns, end.kernel, end.netns)
        for port in places.values():
            self._add(self._netns, port.kernel, port.netns)

    def agent(self, end: Endpoint) -> Agent:
        """Return the agent of an end."""
        return self._agents[end.kernel if end.kernel in self._agents else HERE]

    def read(self, *more: str) -> Snapshot:
        """Read the counters of every kernel and emulated path; `more` are further samplers."""
        wires = begin_wires(self._site, self._wires)
        readings = {
            kernel: agent.read_samples(self._netns[kernel], (*BESIDE, *more))
            for kernel, agent in self._agents.items()
        }
        own = readings.pop(HERE)
        counted = {link: pending.read(WireCounts, PATIENCE_S) for link, pending in wires.items()}
        return Snapshot(own, {}, readings, counted)

    def watch_connections(self, duration_ns: int) -> None:
        """Begin to read what TCP tells of its connections."""
        apart_ms = max(100, min(CONNECTIONS_PERIOD_MS, duration_ns // NS_PER_MS // 4))
        for kernel, agent in self._agents.items():
            if self._ends[kernel]:
                params = {"series": self._connections, "period_ms": apart_ms, "samplers": ("sockets",)}
                agent.call("sample.start", {**params, "netns": self._ends[kernel]})

    def connections(self) -> dict[str, Kept]:
        """End that, and return what was kept, by kernel."""
        return {
            kernel: read_kept(agent, self._connections)
            for kernel, agent in self._agents.items()
            if self._ends[kernel]
        }

    def wait(self, programs: Mapping[str, Endpoint], timeout_ms: int) -> list[ProcessEnded]:
        """Wait for programs, each given with its end, and collect them; not for long where a kernel is lost.

        A program goes on for its whole time, and more, when nobody is left at the other end.

        Raises:
            AgentLost: a kernel is lost.
            Refused: a program goes on.
        """
        asked = {"timeout_ms": timeout_ms}
        waiting = [
            self.agent(end).begin("process.wait", {"id": name, **asked}) for name, end in programs.items()
        ]
        for pending in waiting:
            self._follow(pending, timeout_ms)
        return [pending.read(ProcessEnded, 0) for pending in waiting]

    def _follow(self, pending: Pending, timeout_ms: int) -> None:
        for _ in range(int((timeout_ms / 1000 + REPLY_SLACK_S) / LOOK_S)):
            if pending.settled_within(LOOK_S):
                return
            for agent in self._agents.values():
                if agent.gone:
                    agent.ping()  # says how it was lost

    def abandon(self, processes: Sequence[str]) -> None:
        """Stop what a failed trial may have left running."""
        for agent in self._agents.values():
            _abandon(agent, self._connections, processes)

    @staticmethod
    def _add(known: dict[str, list[str | None]], kernel: str, netns: str | None) -> None:
        own = known.get(kernel, known[HERE])
        if netns not in own:
            own.append(netns)


def _abandon(agent: Agent, connections: str, processes: Sequence[str]) -> None:
    """Stop what a failed trial may have left running."""
    for method, params in [
        ("sample.stop", {"series": connections}),
        *(("process.stop", {"id": name}) for name in processes),
    ]:
        try:
            agent.call(method, params)
        except Refused:
            continue  # it had not been started, or has been collected
        except AgentLost:
            return  # it ends with its kernel


def in_flight(
    flows: Sequence[tuple[Endpoint, int, bool]],
    connections: Mapping[str, Sequence[Reading]],
    duration_ns: int,
) -> Iterator[Metric]:
    """Yield the mean of what was in flight, of all flows together, over the last `duration_ns` in which they sent.

    A flow is its sender, the port of its server, and whether the sender is the client. Nothing is said where a kernel
    tells nothing.
    """
    found = [_mean_bytes(connections, *flow, duration_ns) for flow in flows]
    if found and all(found):
        yield Metric.of("in_flight_bytes", sum(found))


def _mean_bytes(
    connections: Mapping[str, Sequence[Reading]], source: Endpoint, port: int, forth: bool, duration_ns: int
) -> float:
    """Return the mean over the readings in which the flow had something in flight, and sent."""
    seen: list[_Moment] = []
    for reading in connections.get(source.kernel, connections.get(HERE, ())):
        for one in reading.observations:
            if one.netns == source.netns:
                rows = [row for row in one.sockets if port == (row.remote_port if forth else row.local_port)]
                amounts = (sum(row.in_flight_bytes for row in rows), sum(row.sent_bytes for row in rows))
                seen.append(_Moment(one.begin_ns, *amounts))
    moments = _sending([one for one in seen if one.in_flight_bytes])
    if not moments:
        return 0.0
    first_ns = moments[-1].at_ns - duration_ns
    return statistics.fmean(one.in_flight_bytes for one in moments if one.at_ns >= first_ns)


def _sending(moments: list[_Moment]) -> list[_Moment]:
    """Return the moments up to the last in which the flow still sent.

    What is on its way then drains, and the control connection goes on: on a long path both last for round trips.
    """
    steps = [max(0, two.sent_bytes - one.sent_bytes) for one, two in pairwise(moments)]
    if not any(steps):
        return moments
    least = SENDING_RATIO * statistics.fmean(steps)
    last = max(place for place, step in enumerate(steps, 1) if step >= least)
    return moments[: last + 1]


def other_congestion(
    measure: Stream, pairs: Sequence[Pair], reports: Sequence[tuple[Report, Report]]
) -> Iterator[CongestionDiffers]:
    """Yield each sender at which something else did; iperf3 reads it from the socket that sent."""
    if measure.congestion is None:
        return
    told: set[tuple[str, str]] = set()
    for pair, (client, server) in zip(pairs, reports, strict=True):
        for end, report in ((pair.client, client), (pair.server, server))[: 2 if pair.bidir else 1]:
            seen = report.end.sender_tcp_congestion
            if seen is not None and seen != measure.congestion and (end.machine, seen) not in told:
                told.add((end.machine, seen))
                yield CongestionDiffers(machine=end.machine, asked=measure.congestion, seen=seen)


def unconnected(pairs: Sequence[Pair], connections: Readings) -> Pair | None:
    """Return the first pair without any connection at its sender; None: each had one, or nothing was read of it."""
    for pair in pairs:
        readings = connections.get(pair.client.kernel, connections.get(HERE, ()))
        rows = [
            row
            for reading in readings
            for one in reading.observations
            if one.netns == pair.client.netns
            for row in one.sockets
        ]
        if readings and all(row.remote_port != pair.tcp_port for row in rows):
            return pair
    return None
