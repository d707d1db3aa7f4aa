"""The kernels that a stream passes: their programs, their counters, and what TCP tells of its connections."""

from collections.abc import Iterable, Mapping, Sequence

from iolab.agent.client import REPLY_SLACK_S, Agent, AgentLost, Pending, Refused
from iolab.agent.counters import WireCounts
from iolab.agent.messages import ProcessEnded
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint
from iolab.trial.counters.differences import Port, Snapshot
from iolab.trial.instruments.samplers import Kept, read_kept
from iolab.trial.lab_access import Site
from iolab.trial.packets.snapshots import begin_wires
from iolab.trial.streams.iperf3 import Pair
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
