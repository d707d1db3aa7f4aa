"""Calibrate the instrument on this host: generator, pacing, receiver, timestamps, and its own variation.

The measurement uses a veth pair between two dedicated namespaces without a device between them, so it shows the limits
of the instrument. The result is stored with the facts of the host; runs copy it to facts.json, and verdicts use it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, median, stdev

from iolab.agent.client import Agent
from iolab.agent.decoding import decode
from iolab.agent.messages import Histogram, Json
from iolab.errors import LabError, TrialFailed
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.packets import Latency
from iolab.experiment.model.quantities import PortRef
from iolab.lab.compose import compose
from iolab.lab.packets.placement import placement_of
from iolab.lab.topology import topology_of
from iolab.locale import Phrase, Text
from iolab.results.packets import LoadRecord
from iolab.run.agents import Agents
from iolab.run.hosts.host_facts import SCHEMA, identity
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.histograms import quantile
from iolab.trial.lab_access import LIVE, ArrivalThread, Site
from iolab.trial.packets.load import LoadBench
from iolab.trial.packets.paths import AF_XDP, LATE_SHARE
from iolab.trial.search.types import LoadTrial

SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes of RFC 2544, section 9.1, for Ethernet [bytes]."""
PATHS = (AF_XDP, "af_packet", LIVE)
TRIAL_NS = 250_000_000
"""Duration of one measurement [ns]; each path has 14 measurements of the ceilings, 8 of the receiver, and 9 of pacing
and variation."""
ABOVE_ALL_FPS = {"af_xdp": 10e6, "af_packet": 10e6, "bpf_live": 40e6}
"""Rate above the limit of any sender, so that the offered load is the sender's ceiling [frames/s]."""
LOADED_BURST = {"bpf_live": 64}
"""Number of frames sent at once on paths where a system call takes as long as many frames; other paths pace each
frame."""
PACED_FPS = 100_000
CEILING_TRIALS = 2
"""Number of trials for a ceiling; the maximum is used, because other work on the host can only reduce the rate."""
REPEATED_FPS = 50_000
REPETITIONS = 8
RECEIVER_STEPS = 8
MACHINES = {"near": Netns(kind="netns"), "far": Netns(kind="netns")}
LAB = Lab(MACHINES, {"pair": Link(ends=(PortRef("near.p0"), PortRef("far.p1")), mtu=1500)}, {})
Say = Callable[[Text], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the instrument."""

    name: Text
    """Name with its unit."""
    value: float
    """Value in the unit that the name states."""


def calibrate(agent: Agent, host: Mapping[str, Json], say: Say) -> dict[str, Json]:
    """Run all calibration measurements; return the result as it is stored.

    Raises:
        LabError: the pair of interfaces could not be created.
        TrialFailed: no path works.
    """
    lab = StandingLab(Agents(agent), lambda _: None)
    found: dict[str, Json] = {"schema": SCHEMA, "host": identity(host), "paths": {}}
    reasons: list[Text] = []
    try:
        for path in PATHS:
            try:
                found["paths"][path] = _of_path(agent, lab, host["cpus"], path, say)
            except TrialFailed as error:
                reasons.append(Phrase("errors.failed-with-reason", what=path, reason=error))
                say(Phrase("run.path-does-not-work", path=path, reason=error))
        if {AF_XDP, LIVE} <= found["paths"].keys():
            found["alone"] = _each_alone(agent, lab, host["cpus"], found["paths"][AF_XDP], say)
    finally:
        lab.take_down()
    if not found["paths"]:
        raise LabError(Phrase("run.calibrating-no-path", reasons=reasons))
    return found


def figures(one: Mapping[str, Json]) -> Iterator[Figure]:
    """Yield the figures of one path as text for people."""
    for size, fps in one["generator_fps"].items():
        yield Figure(Phrase("run.figure-generator", size=size), fps)
    yield Figure(Phrase("run.figure-receiver"), one["receiver_fps"])
    yield Figure(Phrase("run.figure-pacing", rate=PACED_FPS), one["pacing_error_ratio"])
    yield Figure(Phrase("run.figure-lateness"), one["lateness_p99_ns"])
    yield Figure(Phrase("run.figure-latency"), one["latency_p50_ns"])
    yield Figure(Phrase("run.figure-latency-spread"), one["latency_spread_ns"])
    yield Figure(Phrase("run.figure-repeatability"), one["aa_spread_ratio"])


def _of_path(agent: Agent, lab: StandingLab, cpus: int, path: str, say: Say) -> dict[str, Json]:
    ceilings: dict[str, float] = {}
    for size in SIZES:
        with _bench(agent, lab, cpus, path, size, LOADED_BURST.get(path, 1)) as bench:
            runs = [_run(bench, ABOVE_ALL_FPS[path]) for _ in range(CEILING_TRIALS)]
            ceilings[str(size)] = max(run.offered_fps for run in runs)
            say(Phrase("run.ceiling-sent", path=path, size=size, rate=f"{ceilings[str(size)]:.0f}"))
    with _bench(agent, lab, cpus, path, 64, LOADED_BURST.get(path, 1)) as bench:
        receiver_fps = _receiver_ceiling(bench, ceilings["64"])
        say(Phrase("run.received-without-loss", path=path, rate=f"{receiver_fps:.0f}"))
        paced = _run(bench, PACED_FPS)
        lateness = bench.answers[-1]["senders"][0]["lateness_ns"]
        repeated = [_run(bench, REPEATED_FPS) for _ in range(REPETITIONS)]
    medians = [float(record.latency.p50) for record in repeated if record.latency is not None]
    spreads = [
        float(record.latency.p99 - record.latency.min) for record in repeated if record.latency is not None
    ]
    return {
        "generator_fps": ceilings,
        "receiver_fps": receiver_fps,
        "pacing_error_ratio": abs(paced.offered_fps - PACED_FPS) / PACED_FPS,
        "lateness_p99_ns": _quantile(lateness, 0.99),
        "latency_p50_ns": median(medians) if medians else None,
        "latency_spread_ns": median(spreads) if spreads else None,
        "aa_spread_ratio": stdev(medians) / fmean(medians) if len(medians) > 1 else None,
    }


def _each_alone(agent: Agent, lab: StandingLab, cpus: int, usual: Json, say: Say) -> dict[str, Json]:
    """Return the send delays of individually scheduled frames, for each path that `auto` may choose."""
    load_fps = usual["generator_fps"]["64"] / 2
    late: dict[str, int | None] = {}
    for path in (AF_XDP, LIVE):
        with _bench(agent, lab, cpus, path, 64) as bench:
            _run(bench, load_fps)
        late[path] = _quantile(bench.answers[-1]["senders"][0]["lateness_ns"], LATE_SHARE)
        say(Phrase("run.paced-late", path=path, late=late[path], rate=f"{load_fps:.0f}"))
    return {"load_fps": load_fps, "af_xdp_late_ns": late[AF_XDP], "live_late_ns": late[LIVE]}


def _receiver_ceiling(bench: LoadBench, ceiling_fps: float) -> float:
    """Return the highest load at which the receiving port lost no frame, by bisection."""
    low, high = 0.0, ceiling_fps
    for _ in range(RECEIVER_STEPS):
        load = (low + high) / 2
        record = _run(bench, load)
        low, high = (load, high) if record.result.lost_frames == 0 else (low, load)
    return low


def _bench(agent: Agent, lab: StandingLab, cpus: int, path: str, size: int, max_burst: int = 1) -> LoadBench:
    keys = {
        "kind": "latency",
        "from": "near.p0",
        "to": "far.p1",
        "rate": "1kpps",
        "frame_size": size,
        "path": path,
        "max_burst": max_burst,
    }
    measure = Latency.model_validate(keys)
    placement = placement_of(Setup(lab=LAB, measures={"it": measure}), "it", range(cpus))
    lab.change_to(compose(LAB, placement=placement))
    topology = topology_of(LAB)
    threads = {port.ref: lab.napi.at(port.netns, port.name) for port in topology.ports()}
    known: dict[str, ArrivalThread] = {ref: thread for ref, thread in threads.items() if thread is not None}
    site = Site(agent=agent, lab=LAB, topology=topology, placement=placement, threads=known)
    return LoadBench(site, measure, 0.0)


def _run(bench: LoadBench, fps: float) -> LoadRecord:
    return bench.run(LoadTrial(intended_fps=max(1.0, fps), duration_ns=TRIAL_NS), "calibration")


def _quantile(histogram: Json, share: float) -> int | None:
    return quantile(decode(Histogram, histogram, Phrase("agent.histogram")), share)
