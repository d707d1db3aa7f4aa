"""Sample the kernels' counters while a measure runs: on every kernel of the lab, with one period.

The results are series of rates, CPU time shares, drops and queue lengths. A counter becomes the rate between two
readings, at the time of the second reading. A value that is always zero has no series, so the data of a lab with many
ports stays small.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iolab.agent.answers import Observation, Reading
from iolab.agent.client import Agent, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import CpuTimes, InterfaceCounters, Json, QdiscCounters, ThreadTimes
from iolab.errors import AgentError
from iolab.lab.kernels import HERE
from iolab.lab.topology import Topology
from iolab.locale import Phrase
from iolab.messages.places import computer
from iolab.messages.warnings import ReadingsDropped
from iolab.results.metric import Dimensions, unit_of
from iolab.results.series import Series, series
from iolab.trial.counters.cpu_use import CLASSES
from iolab.trial.instruments.instrument import Seen
from iolab.trial.lab_access import Site
from iolab.trial.measurement import begin_of
from iolab.units import NS_PER_MS

SAMPLERS = ("cpu", "threads", "interfaces", "qdiscs")
"""Samplers that are read over time; other samplers are slow, or their values over time are not useful."""
IDLE = frozenset({"idle_ns", "iowait_ns"})
SOURCE = "samplers"
Key = tuple[str | int | None, ...]
Points = list[tuple[int, float]]


class Samplers:
    """Sampler of all kernels of a lab, with one series of readings per kernel."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        netns: Mapping[str, Sequence[str | None]],
        topology: Topology,
        period_ns: int,
        name: str = "trial",
    ) -> None:
        """Keep the agents; `netns` lists the network namespaces to read by kernel, in which None is the initial
        namespace."""
        self._topology = topology
        self._agents = {kernel: agents[kernel] for kernel in netns}
        self._netns = netns
        self._period_ms = period_ns // NS_PER_MS
        self._series = f"{name} {self._period_ms} ms"

    def start(self) -> None:
        """Start sampling on every kernel. Raises AgentError."""
        for kernel, agent in self._agents.items():
            params = {"series": self._series, "period_ms": self._period_ms, "samplers": SAMPLERS}
            agent.call("sample.start", {**params, "netns": list(self._netns[kernel])})

    def stop(self) -> Seen:
        """Stop sampling, and return the readings by kernel. Raises AgentError."""
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
        """Stop sampling on every kernel that is still reachable."""
        for agent in self._agents.values():
            try:
                agent.call("sample.stop", {"series": self._series})
            except Refused:
                continue  # sampling had not started, or has stopped
            except AgentError:
                continue  # if the kernel is lost, its sampling has stopped


@dataclass(frozen=True, slots=True)
class Kept:
    """Readings of a series that an agent kept."""

    readings: tuple[Reading, ...]
    """Readings, oldest first."""
    dropped: int
    """Number of older readings that were discarded."""


def read_kept(agent: Agent, series: str) -> Kept:
    """Stop a series of an agent, and return the readings that it kept. Raises AgentError."""
    raw = agent.call("sample.stop", {"series": series})
    found = decode(tuple[_Observed, ...], raw["readings"], Phrase("agent.samples"), agent=agent.name)
    readings = tuple(Reading(one.observations, None, agent.name) for one in found)
    return Kept(readings, decode(int, raw["dropped"], Phrase("agent.samples"), agent=agent.name))


@dataclass(frozen=True, slots=True)
class _Observed:
    """One reading of a series."""

    observations: tuple[Observation, ...]
    """Observations, one per sampler and namespace."""
    failures: tuple[Json, ...] = ()
    """Failed observations, such as those of a deleted namespace."""


def samplers_of(site: Site, period_ns: int) -> Samplers:
    """Return the instrument that samples the counters of a lab: on the local host and on every kernel with a port."""
    agents = site.agents or {HERE: site.agent}
    known = {kernel: places for kernel, places in namespaces(site.topology).items() if kernel in agents}
    return Samplers(agents, known, site.topology, period_ns, site.named("trial"))


def namespaces(topology: Topology) -> dict[str, list[str | None]]:
    """Return the network namespaces with a port of the lab, by kernel; the local host is always included."""
    found: dict[str, list[str | None]] = {HERE: []}
    for port in topology.ports():
        own = found.setdefault(port.kernel, [])
        if port.netns not in own:
            own.append(port.netns)
    return found


def sampled(readings: Mapping[str, Sequence[Reading]], topology: Topology) -> tuple[Series, ...]:
    """Return the sampled series by kernel; only interfaces that are ports of the lab are included."""
    ports = {(port.kernel, port.netns, port.name): str(port.ref) for port in topology.ports()}
    found: list[Series] = []
    for kernel, own in readings.items():
        if not own:
            continue
        begin_ns = begin_of(own)
        machine = None if kernel == HERE else kernel
        found += _ports(own, begin_ns, {key[1:]: ref for key, ref in ports.items() if key[0] == kernel})
        found += _threads(own, begin_ns, machine)
        found += _cpus(own, begin_ns, machine)
    return tuple(found)


def _cpus(readings: Sequence[Reading], begin_ns: int, machine: str | None) -> Iterator[Series]:
    """Yield the time of each CPU by class, except idle time."""
    rows: dict[int, list[tuple[int, CpuTimes]]] = {}
    for reading in readings:
        at_ns = next((seen.begin_ns for seen in reading.observations if seen.sampler == "cpu"), begin_ns)
        for row in reading.cpu_times():
            rows.setdefault(row.cpu, []).append((at_ns, row))
    for cpu, own in rows.items():
        for name in (name for name in CLASSES if name not in IDLE):
            of = Dimensions(machine=machine, cpu=cpu, part=name.removesuffix("_ns"))
            yield from _made("cpu_ratio", _rates(own, begin_ns, _field(name), 1.0), of)


def _threads(readings: Sequence[Reading], begin_ns: int, machine: str | None) -> Iterator[Series]:
    """Yield each thread's share of time running, and its share of time waiting for a CPU."""
    rows: dict[tuple[str | None, int, str], list[tuple[int, ThreadTimes]]] = {}
    for reading in readings:
        for seen in reading.observations:
            for row in seen.threads:
                rows.setdefault((row.process, row.tid, row.name), []).append((seen.begin_ns, row))
    same: dict[str, int] = {}
    for (process, _, name), own in rows.items():
        title = f"{process} {name}" if process else name
        same[title] = same.get(title, 0) + 1
        of = Dimensions(machine=machine, thread=title if same[title] == 1 else f"{title}#{same[title]}")
        yield from _made("thread_cpu_ratio", _rates(own, begin_ns, _field("run_ns"), 1.0), of)
        yield from _made("thread_wait_ratio", _rates(own, begin_ns, _field("wait_ns"), 1.0), of)


def _ports(
    readings: Sequence[Reading], begin_ns: int, names: Mapping[tuple[str | None, str], str]
) -> Iterator[Series]:
    """Yield the rates, drops and queue lengths of ports."""
    interfaces: dict[str, list[tuple[int, InterfaceCounters]]] = {}
    qdiscs: dict[str, list[tuple[int, QdiscCounters]]] = {}
    for reading in readings:
        for seen in reading.observations:
            for row in seen.interfaces:
                if (ref := names.get((seen.netns, row.name))) is not None:
                    interfaces.setdefault(ref, []).append((seen.begin_ns, row))
            for queue in seen.qdiscs:
                ref = names.get((seen.netns, queue.interface))
                if ref is not None and queue.parent == "root":
                    qdiscs.setdefault(ref, []).append((seen.begin_ns, queue))
    for ref, own in interfaces.items():
        of = Dimensions(port=ref)
        for way in ("rx", "tx"):
            yield from _made(f"{way}_bps", _rates(own, begin_ns, _field(f"{way}_bytes"), 8e9), of)
            yield from _made(f"{way}_pps", _rates(own, begin_ns, _field(f"{way}_packets"), 1e9), of)
            yield from _made(f"{way}_drops_pps", _rates(own, begin_ns, _field(f"{way}_dropped"), 1e9), of)
    for ref, queued in qdiscs.items():
        of = Dimensions(port=ref)
        points = [(at_ns - begin_ns, float(row.backlog_bytes)) for at_ns, row in _rising(queued)]
        yield from _made("qdisc_backlog_bytes", points, of)
        yield from _made("qdisc_drops_pps", _rates(queued, begin_ns, _field("drops"), 1e9), of)


def _field(name: str) -> Callable[[object], int]:
    def read(row: object) -> int:
        return int(getattr(row, name))

    return read


def _rising(rows: Iterable[tuple[int, QdiscCounters]]) -> Iterator[tuple[int, QdiscCounters]]:
    """Yield only one row per time, because an interface with several queues has several rows."""
    last_ns = -1
    for at_ns, row in rows:
        if at_ns > last_ns:
            last_ns = at_ns
            yield at_ns, row


def _rates(
    rows: Sequence[tuple[int, object]], begin_ns: int, read: Callable[[object], int], factor: float
) -> Points:
    """Return the increase of a counter per ns between readings, times a factor; a reset counter gives no value."""
    return [
        (later_ns - begin_ns, (read(later) - read(earlier)) * factor / (later_ns - earlier_ns))
        for (earlier_ns, earlier), (later_ns, later) in pairwise(rows)
        if later_ns > earlier_ns and read(later) >= read(earlier)
    ]


def _made(name: str, points: Points, of: Dimensions) -> Iterator[Series]:
    if any(value for _, value in points):
        yield series(name, unit_of(name), points, of, SOURCE)
