"""Manage the kernels on a stream's path: programs, counters, and TCP connections.

The module checks that connections exist, and reads their congestion control algorithm and their bytes in flight (sent
and unacknowledged).
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
"""Samplers read before and after a trial."""
IN_EFFECT = ("settings", "processors")
"""Samplers read only after a trial."""
PATIENCE_S = 10.0
CONNECTIONS = "connections"
"""Name of the agents' series of connection readings."""
CONNECTIONS_PERIOD_MS = 1_000
"""Sampling period of connections [ms]; one reading of a namespace takes 0.2 ms."""
LOOK_S = 0.5
"""Period of checks for lost kernels while programs run [s]."""
SENDING_RATIO = 0.1
"""Minimum rate at which a flow still counts as sending, as a share of its mean rate [ratio]."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """Reading of all connections of a flow."""

    at_ns: int
    in_flight_bytes: int
    sent_bytes: int
    """Bytes sent so far; 0 if the kernel does not report them."""


class Kernels:
    """Kernels on a stream's path; the local host's kernel is first."""

    def __init__(
        self, site: Site, pairs: Sequence[Pair], places: Mapping[str, Port], wires: Iterable[str] = ()
    ) -> None:
        """Collect the kernels of the endpoints, ports and guests; `wires` are the emulated links on the path."""
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
        """Return the agent of an endpoint's kernel."""
        return self._agents[end.kernel if end.kernel in self._agents else HERE]

    def read(self, *more: str) -> Snapshot:
        """Read the counters of every kernel and emulated path; `more` lists additional samplers."""
        wires = begin_wires(self._site, self._wires)
        readings = {
            kernel: agent.read_samples(self._netns[kernel], (*BESIDE, *more))
            for kernel, agent in self._agents.items()
        }
        own = readings.pop(HERE)
        counted = {link: pending.read(WireCounts, PATIENCE_S) for link, pending in wires.items()}
        return Snapshot(own, {}, readings, counted)

    def watch_connections(self, duration_ns: int) -> None:
        """Start sampling TCP connections."""
        apart_ms = max(100, min(CONNECTIONS_PERIOD_MS, duration_ns // NS_PER_MS // 4))
        for kernel, agent in self._agents.items():
            if self._ends[kernel]:
                params = {"series": self._connections, "period_ms": apart_ms, "samplers": ("sockets",)}
                agent.call("sample.start", {**params, "netns": self._ends[kernel]})

    def connections(self) -> dict[str, Kept]:
        """Stop sampling TCP connections and return the readings by kernel."""
        return {
            kernel: read_kept(agent, self._connections)
            for kernel, agent in self._agents.items()
            if self._ends[kernel]
        }

    def wait(self, programs: Mapping[str, Endpoint], timeout_ms: int) -> list[ProcessEnded]:
        """Wait for programs to exit and collect them; stop early if a kernel is lost.

        `programs` has the endpoint of each program, by process ID. Without the check for lost kernels, a program would
        run for its full duration, or longer, after its peer is lost.

        Raises:
            AgentLost: a kernel is lost.
            Refused: a program is still running.
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
                    agent.ping()  # the ping raises an error that says how the agent was lost

    def abandon(self, processes: Sequence[str]) -> None:
        """Stop all programs that a failed trial may have left running."""
        for agent in self._agents.values():
            _abandon(agent, self._connections, processes)

    @staticmethod
    def _add(known: dict[str, list[str | None]], kernel: str, netns: str | None) -> None:
        own = known.get(kernel, known[HERE])
        if netns not in own:
            own.append(netns)


def _abandon(agent: Agent, connections: str, processes: Sequence[str]) -> None:
    """Stop all programs and series that a failed trial may have left running on an agent."""
    for method, params in [
        ("sample.stop", {"series": connections}),
        *(("process.stop", {"id": name}) for name in processes),
    ]:
        try:
            agent.call(method, params)
        except Refused:
            continue  # the program was not started, or was already collected
        except AgentLost:
            return  # the program stops with its kernel


def in_flight(
    flows: Sequence[tuple[Endpoint, int, bool]],
    connections: Mapping[str, Sequence[Reading]],
    duration_ns: int,
) -> Iterator[Metric]:
    """Yield the mean number of bytes in flight over all flows, in the last `duration_ns` of sending.

    A flow is identified by its sender, its server's port, and whether the sender is the client. Yield nothing for
    kernels without readings.
    """
    found = [_mean_bytes(connections, *flow, duration_ns) for flow in flows]
    if found and all(found):
        yield Metric.of("in_flight_bytes", sum(found))


def _mean_bytes(
    connections: Mapping[str, Sequence[Reading]], source: Endpoint, port: int, forth: bool, duration_ns: int
) -> float:
    """Return the mean over the readings in which the flow was sending and had bytes in flight."""
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
    """Return the readings up to the last one in which the flow was still sending.

    Afterwards the bytes in flight drain and the control connection continues; on a long path both take several round
    trips.
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
    """Yield a warning for each sender with a different congestion control algorithm, as read by iperf3 from its
    socket."""
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
    """Return the first pair whose sender had no connection; None if every sender had one, or if there are no
    readings."""
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
