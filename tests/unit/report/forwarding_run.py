"""Makes runs of a forwarding study with known truth, raw samples included, without any host."""

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.unit.report.builder import FACTS

from iolab.analysis import analyse
from iolab.analysis.types import Analysis
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.record.metric import Metric
from iolab.record.trial import Status, TrialResult
from iolab.statements.clauses import LostAt, ThreadRan
from iolab.statements.instrument import NapiAt, PartsShareCpu, PathFallback, ReceiverAt
from iolab.statements.searches import HighestForwarded
from iolab.statements.statement import Statement
from iolab.statements.warnings import LineLimited, Warning
from iolab.store.records import RunStatus, StoredRun, TrialRecord

FILE = """title: A namespace as packet forwarder
lab:
  machines:
    tester: {kind: netns}
    dut: {kind: netns, forward: bridge}
  links:
    west: {ends: [tester.p0, dut.eth0]}
    east: {ends: [tester.p1, dut.eth1]}
measure:
  ndr: {kind: forwarding, from: tester.p0, to: tester.p1, line_rate: 1Gbit, search: fast, loss_ratio: 0.0001}
  curve: {kind: load-curve, from: tester.p0, to: tester.p1, frame_size: 64}
factors:
  machines.dut.forward: [bridge, route, xdp]
  ndr.frame_size: [64, 128, 256, 512, 1024, 1280, 1518]
  "*.direction": [one-way, both-ways]
baseline: {machines.dut.forward: bridge}
blocks: 3
"""
SIZES = ("64", "128", "256", "512", "1024", "1280", "1518")
FACTORS: Mapping[str, tuple[str, ...]] = {
    "machines.dut.forward": ("bridge", "route", "xdp"),
    "ndr.frame_size": SIZES,
    "*.direction": ("one-way", "both-ways"),
}
PARTS = (ReceiverAt(port="tester.p1"), NapiAt(port="dut.eth0"))
FALLBACK = "AF_XDP: BPF is not allowed in a rootless lab"
STEPS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120)
CALIBRATION: Mapping[str, object] = {
    "schema": 1,
    "host": {"kernel": "6.1.0-28-amd64"},
    "paths": {
        "af_xdp": {
            "generator_fps": {"64": 2_410_000.0, "512": 2_180_000.0, "1518": 1_620_000.0},
            "receiver_fps": 1_460_000.0,
            "pacing_error_ratio": 0.00004,
            "lateness_p99_ns": 2100,
            "latency_p50_ns": 9300.0,
            "latency_spread_ns": 210.0,
            "aa_spread_ratio": 0.004,
        }
    },
}
"""As `iolab calibrate` stores it."""
CAPACITY_FPS = {"bridge": 410_000.0, "route": 365_000.0, "xdp": 980_000.0}
BOTH_RATIO = {"bridge": 1.06, "route": 1.02, "xdp": 1.71}
"""Both ways over one way: known, so that the ratio table can be checked."""
GIGABIT_FPS = {int(size): 1e9 / (8 * (int(size) + 20)) for size in SIZES}


def rate_fps(cell: Mapping[str, str]) -> float:
    """The true rate of a cell."""
    forward, size = cell["machines.dut.forward"], int(cell.get("ndr.frame_size", "64"))
    both = cell["*.direction"] == "both-ways"
    rate = CAPACITY_FPS[forward] / (1 + size / 9000) * (BOTH_RATIO[forward] if both else 1.0)
    return min(rate, GIGABIT_FPS[size] * (2 if both else 1))


def forwarding(
    blocks: int = 3, *, seed: int = 11, measures: Sequence[str] = ("ndr", "curve"), file: str = FILE
) -> tuple[StoredRun, Analysis, Experiment]:
    """A complete run with its samples concluded."""
    chance = random.Random(seed)
    trials: list[TrialRecord] = []
    samples: dict[str, object] = {}
    for block in range(1, blocks + 1):
        for measure in measures:
            for cell in _cells(measure):
                record, sample = _trial(measure, cell, block, chance)
                trials.append(record)
                samples[record.key] = sample
    run = StoredRun(
        folder=Path("runs/20260731T101500-forwarding"),
        name="20260731T101500-forwarding",
        plan=_plan(trials, blocks, seed, measures),
        facts={**FACTS, "calibration": CALIBRATION},
        trials=tuple(trials),
        commands=(),
        status=RunStatus.COMPLETE,
    )
    return run, analyse(run.trials, run.plan, samples.get), parse(file, "labs/forwarding.yaml")


def _cells(measure: str) -> list[dict[str, str]]:
    factors = {
        name: labels for name, labels in FACTORS.items() if measure == "ndr" or not name.startswith("ndr.")
    }
    return [dict(zip(factors, labels, strict=True)) for labels in itertools.product(*factors.values())]


def _trial(
    measure: str, cell: Mapping[str, str], block: int, chance: random.Random
) -> tuple[TrialRecord, object]:
    rate = rate_fps(cell) * chance.gauss(1, 0.012)
    metrics = _search_metrics(cell, rate, chance) if measure == "ndr" else _curve_metrics(rate, chance)
    warnings: tuple[Warning, ...] = ()
    if cell.get("ndr.frame_size") == "1518":
        warnings = (LineLimited(ended=HighestForwarded(highest_fps=81274.0)),)
    key = "-".join((measure, *cell.values(), str(block)))
    record = TrialRecord(
        key=key,
        measure=measure,
        block=block,
        cell=dict(cell),
        wall=f"2026-07-31T10:15:{block % 60:02d}+02:00",
        result=TrialResult(
            status=Status.OK,
            metrics={name: Metric(value, unit) for name, (value, unit) in metrics.items()},
            warnings=warnings,
            begin_ns=block * 10**10,
            end_ns=block * 10**10 + 9 * 10**9,
            measured_ns=8 * 10**9,
        ),
    )
    return record, _sample(measure, cell, rate, chance)


def _search_metrics(
    cell: Mapping[str, str], rate: float, chance: random.Random
) -> dict[str, tuple[float, str]]:
    size = int(cell["ndr.frame_size"])
    found = {
        "forwarded_fps": (rate, "pps"), "forwarded_strict_fps": (rate * 0.97, "pps"),
        "lower_fps": (rate * 0.995, "pps"), "upper_fps": (rate * 1.004, "pps"),
        "ci_low_fps": (rate * 0.992, "pps"), "ci_high_fps": (rate * 1.006, "pps"),
        "forwarded_bps_l1": (rate * (size + 20) * 8, "bit/s"), "forwarded_bps_l2": (rate * size * 8, "bit/s"),
        "search_seconds": (chance.gauss(6, 0.5), "s"), "load_trials": (float(chance.randint(14, 22)), "count"),
        "perturbed_trials": (float(chance.randint(0, 2)), "count"), "loss_ratio": (0.00004, "ratio"),
        "unexplained_frames": (0.0, "count"), "balanced_ratio": (1.0, "ratio"),
    }  # fmt: skip
    for share, p50 in (("0 %", 9_000), ("10 %", 11_000), ("50 %", 14_000), ("90 %", 41_000)):
        found[f"latency_p50_ns[{share}]"] = (p50 * chance.gauss(1, 0.02), "ns")
        found[f"latency_p99_ns[{share}]"] = (p50 * 2.6 * chance.gauss(1, 0.05), "ns")
        found[f"latency_p999_ns[{share}]"] = (p50 * 6 * chance.gauss(1, 0.1), "ns")
        found[f"latency_max_ns[{share}]"] = (p50 * 30 * chance.gauss(1, 0.3), "ns")
    return found | _cpu(1.0, chance, "")


def _curve_metrics(rate: float, chance: random.Random) -> dict[str, tuple[float, str]]:
    found: dict[str, tuple[float, str]] = {
        "forwarded_fps": (rate * 1.01, "pps"), "rate_fps": (rate, "pps"), "unexplained_frames": (0.0, "count"),
        "balanced_ratio": (1.0, "ratio"),
    }  # fmt: skip
    for step in STEPS:
        share = step / 100
        offered = rate * share
        lost = max(0.0, 1 - 1.01 / share) + (0.00005 if step == 100 else 0.0)
        found[f"offered_fps[{step} %]"] = (offered, "pps")
        found[f"forwarded_fps[{step} %]"] = (offered * (1 - lost), "pps")
        found[f"loss_ratio[{step} %]"] = (lost, "ratio")
        found[f"unsent_ratio[{step} %]"] = (0.0, "ratio")
        wait = 9_000 / max(0.02, 1.02 - share) if share < 1 else 900_000
        for name, factor in (("p50", 1.0), ("p99", 2.5), ("p999", 5.0), ("max", 22.0)):
            found[f"latency_{name}_ns[{step} %]"] = (wait * factor * chance.gauss(1, 0.05), "ns")
        found |= _cpu(min(share, 1.0), chance, f"{step} % ")
    return found


def _cpu(share: float, chance: random.Random, step: str) -> dict[str, tuple[float, str]]:
    busy = {"cpu0": 0.55, "cpu1": 0.99, "cpu2": 0.31, "cpu3": 0.05}
    threads = {"generator": 0.55, "receiver": 0.3, "dut.eth0": 0.98}
    host = f"host_cpu_ratio[{step.strip()}]" if step else "host_cpu_ratio"
    return {
        **{f"cpu_busy_ratio[{step}{cpu}]": (_part(most, share, chance), "ratio") for cpu, most in busy.items()},
        **{f"thread_cpu_ratio[{step}{of}]": (_part(most, share, chance), "ratio") for of, most in threads.items()},
        host: (_part(0.62, share, chance), "ratio"),
    }  # fmt: skip


def _part(value: float, share: float, chance: random.Random) -> float:
    return min(1.0, max(0.0, value * (0.1 + 0.9 * share) * chance.gauss(1, 0.01)))


def _sample(measure: str, cell: Mapping[str, str], rate: float, chance: random.Random) -> object:
    loads = [0.5, 0.8, 0.95, 0.99, 1.004, 1.02, 1.2] if measure == "ndr" else [step / 100 for step in STEPS]
    shared = [stored(PartsShareCpu(parts=PARTS, cpu=1))] if cell["machines.dut.forward"] == "route" else []
    fallbacks = [stored(PathFallback(said=FALLBACK))]
    return {
        "schema": 2,
        "kind": "forwarding" if measure == "ndr" else "load-curve",
        "directions": ["tester.p0->tester.p1"],
        "placement": {"generator_cpus": [0], "receiver_cpus": [1], "threads": [], "shared": shared},
        "ports": [
            {"port": "tester.p0", "half": "send", "path": "AF_XDP native copy", "fallbacks": []},
            {"port": "tester.p1", "half": "receive", "path": "AF_PACKET ring", "fallbacks": fallbacks},
        ],
        "rate_fps": rate,
        "load_trials": [_load_trial(measure, load, rate, chance) for load in loads],
    }  # fmt: skip


def stored(statement: Statement) -> object:
    """Return a statement as a sample has it."""
    return statement.model_dump(mode="json")


def _load_trial(measure: str, load: float, rate: float, chance: random.Random) -> object:
    offered = round(rate * load)
    lost = round(offered * max(0.0, 1 - 1 / load) * 0.5) if load > 1 else 0
    noise = lost // 20
    verdict: dict[str, object] = {"limit": "none", "place": "", "seen": [], "doubt": None}
    if lost:
        ran = ThreadRan(thread="napi/eth0-8193", busy_ratio=0.99)
        dropped = LostAt(frames=lost, lost_frames=lost, place="dut.eth0", reason="ring full")
        verdict |= {"limit": "thread", "place": "dut.eth0", "seen": [stored(ran), stored(dropped)]}
    drops = [
        {"place": "tester.p0", "reason": "tx_dropped", "frames": lost - noise},
        {"place": "cpu1", "reason": "backlog", "frames": noise},
    ]
    return {
        "purpose": "search" if measure == "ndr" else "curve",
        "share_ratio": load,
        "intended_fps": rate * load,
        "verdict": verdict,
        "balance": [
            {
                "direction": "tester.p0->tester.p1",
                "offered_frames": offered,
                "forwarded_frames": offered - lost,
                "drops": [each for each in drops if each["frames"]],
                "unexplained_frames": 0,
            }
        ],
        "latency_ns": None,
        "cpus": [
            {"cpu": cpu, "busy_ratio": busy, "softirq_ratio": 0.0, "steal_ratio": 0.0}
            for cpu, busy in enumerate((0.55, 1.0 if lost else 0.9, 0.85, 0.08))
        ],
        "threads": [],
        "traffic": {},
    }


def _plan(trials: Sequence[TrialRecord], blocks: int, seed: int, measures: Sequence[str]) -> Plan:
    places = {name: {label: index for index, label in enumerate(labels)} for name, labels in FACTORS.items()}
    return Plan(
        title="A namespace as packet forwarder",
        factors=tuple(PlannedFactor(name, labels) for name, labels in FACTORS.items()),
        measures=tuple(measures),
        baseline={"machines.dut.forward": "bridge"},
        grouping=("machines.dut.forward",),
        seed=seed,
        blocks=blocks,
        steps=tuple(
            Step(
                trial.key,
                trial.measure,
                trial.block,
                0,
                tuple(places[name][trial.cell[name]] if name in trial.cell else -1 for name in FACTORS),
            )
            for trial in trials
        ),
        unsupported=(),
        estimate_ns=300_000_000_000,
        digest="4e1b" * 16,
    )
