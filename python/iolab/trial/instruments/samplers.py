"""The kernels' own counters, read again and again while a measure runs: on every kernel of the lab, at one period."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.client import Agent, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import Json, Observation, Reading
from iolab.errors import AgentError
from iolab.lab.kernels import HERE
from iolab.lab.topology import Topology
from iolab.messages.places import computer
from iolab.messages.warnings import ReadingsDropped
from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.sampled_series import sampled
from iolab.trial.lab_access import Site
from iolab.units import NS_PER_MS

SAMPLERS = ("cpu", "threads", "interfaces", "qdiscs")
"""What is read over time: the other samplers are slow, or show nothing there."""


class Samplers:
    """One series of readings per kernel."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        netns: Mapping[str, Sequence[str | None]],
        topology: Topology,
        period_ns: int,
        name: str = "trial",
    ) -> None:
        """`netns` gives the network namespaces to look into, by kernel; None there is the kernel's own."""
        self._topology = topology
        self._agents = {kernel: agents[kernel] for kernel in netns}
        self._netns = netns
        self._period_ms = period_ns // NS_PER_MS
        self._series = f"{name} {self._period_ms} ms"

    def start(self) -> None:
        """Begin on every kernel. Raises AgentError."""
        for kernel, agent in self._agents.items():
            params = {"series": self._series, "period_ms": self._period_ms, "samplers": SAMPLERS}
            agent.call("sample.start", {**params, "netns": list(self._netns[kernel])})

    def stop(self) -> Seen:
        """End, and return the readings by kernel. Raises AgentError."""
        kept = {kernel: read_kept(agent, self._series) for kernel, agent in self._agents.items()}
        readings = {kernel: one.readings for kernel, one in kept.items()}
        dropped = tuple(
            ReadingsDropped(
                code="readings-dropped",
                host=computer(kernel),
                dropped=one.dropped,
                kept=len(one.readings),
            )
            for kernel, one in kept.items()
            if one.dropped
        )
        return Seen(readings=readings, series=sampled(readings, self._topology), warnings=dropped)

    def abandon(self) -> None:
        """End on every kernel that is still there."""
        for agent in self._agents.values():
            try:
                agent.call("sample.stop", {"series": self._series})
            except Refused:
                continue  # it had not begun there, or has ended
            except AgentError:
                continue  # it ends with its kernel


@dataclass(frozen=True, slots=True)
class Kept:
    """What an agent kept of a series."""

    readings: tuple[Reading, ...]
    """Oldest first."""
    dropped: int
    """How many before them it did not keep."""


def read_kept(agent: Agent, series: str) -> Kept:
    """End a series of an agent, and return what it kept. Raises AgentError."""
    raw = agent.call("sample.stop", {"series": series})
    found = decode(tuple[_Observed, ...], raw["readings"], "samples", agent=agent.name)
    readings = tuple(Reading(one.observations, None, agent.name) for one in found)
    return Kept(readings, decode(int, raw["dropped"], "samples", agent=agent.name))


@dataclass(frozen=True, slots=True)
class _Observed:
    """One reading of a series."""

    observations: tuple[Observation, ...]
    """One per sampler and namespace."""
    failures: tuple[Json, ...] = ()
    """What could not be read, such as a namespace that has gone."""


def samplers_of(site: Site, period_ns: int) -> Samplers:
    """Return what reads the counters of a standing lab: on this computer, and on every kernel that has a port of it."""
    agents = site.agents or {HERE: site.agent}
    known = {kernel: places for kernel, places in namespaces(site.topology).items() if kernel in agents}
    return Samplers(agents, known, site.topology, period_ns, site.named("trial"))


def namespaces(topology: Topology) -> dict[str, list[str | None]]:
    """Return the network namespaces that have a port of the lab, by kernel; this computer is always among them."""
    found: dict[str, list[str | None]] = {HERE: []}
    for port in topology.ports():
        own = found.setdefault(port.kernel, [])
        if port.netns not in own:
            own.append(port.netns)
    return found
