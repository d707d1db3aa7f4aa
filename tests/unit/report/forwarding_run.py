"""Make runs of a forwarding study with known truth, raw samples included, without any host."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit.records import balance, load_record, metrics, packet_trial, placed, port
from tests.unit.report.builder import FACTS

from iolab.analysis import analyse
from iolab.analysis.types import Analysis
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.messages.drop_reasons import CountedAs, DropReason
from iolab.messages.evidence import LostAt, ThreadRan
from iolab.messages.instrument import (
    PartsShareCpu,
    PortPart,
)
from iolab.messages.places import AtCpu, AtPort, Place
from iolab.messages.searches import HighestForwarded
from iolab.messages.warnings import (
    SearchCutShort,
    TrialWarning,
)
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.results.metric import Dimensions, Quantity
from iolab.results.packets import LoadRecord, PacketTrial
from iolab.results.trial import Status, TrialResult
from iolab.store.records import RunStatus, StoredRun, TrialRecord
from iolab.trial.counters.drops import BACKLOG, RING_FULL

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
Figures = dict[Any, tuple[float, str]]
DIRECTIONS = {"one-way": "one-way", "both-ways": "both-ways", "uni": "one-way", "bidi": "both-ways"}
"""Meaning of direction levels, whatever their labels."""
SIZES = ("64", "128", "256", "512", "1024", "1280", "1518")
FACTORS: Mapping[str, tuple[str, ...]] = {
    "machines.dut.forward": ("bridge", "route", "xdp"),
    "ndr.frame_size": SIZES,
    "*.direction": ("one-way", "both-ways"),
}
PARTS = (PortPart(code="receiver-at", port="tester.p1"), PortPart(code="napi-at", port="dut.eth0"))
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
"""Calibration in the format of `iolab calibrate`."""
CAPACITY_FPS = {"bridge": 410_000.0, "route": 365_000.0, "xdp": 980_000.0}
BOTH_RATIO = {"bridge": 1.06, "route": 1.02, "xdp": 1.71}
"""True ratios of both ways to one way, for checking the ratio table."""
GIGABIT_FPS = {int(size): 1e9 / (8 * (int(size) + 20)) for size in SIZES}


def rate_fps(cell: Mapping[str, str]) -> float:
    """Return the true rate of a cell."""
    forward, size = cell["machines.dut.forward"], int(cell.get("ndr.frame_size", "64"))
    both = cell["*.direction"] == "both-ways"
    rate = CAPACITY_FPS[forward] / (1 + size / 9000) * (BOTH_RATIO[forward] if both else 1.0)
    return min(rate, GIGABIT_FPS[size] * (2 if both else 1))


def forwarding(
    blocks: int = 3, *, seed: int = 11, measures: Sequence[str] = ("ndr", "curve"), file: str = FILE
) -> tuple[StoredRun, Analysis, Experiment]:
    """Return a complete run with its samples and analysis."""
    chance = random.Random(seed)
    trials: list[TrialRecord] = []
    samples: dict[str, PacketTrial] = {}
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
) -> tuple[TrialRecord, PacketTrial]:
    rate = rate_fps(cell) * chance.gauss(1, 0.012)
    figures = _search_metrics(cell, rate, chance) if measure == "ndr" else _curve_metrics(rate, chance)
    warnings: tuple[TrialWarning, ...] = ()
    if cell.get("ndr.frame_size") == "1518":
        warnings = (SearchCutShort(code="line-limited", ended=HighestForwarded(highest_fps=81274.0)),)
    key = "-".join((measure, *cell.values(), str(block)))
    record = TrialRecord(
        key=key,
        measure=measure,
        kind="forwarding" if measure == "ndr" else "load-curve",
        direction=DIRECTIONS[cell["*.direction"]],
        rest=" ".join((measure, *(label for name, label in cell.items() if name != "*.direction"))),
        block=block,
        cell=dict(cell),
        wall=f"2026-07-31T10:15:{block % 60:02d}+02:00",
        result=TrialResult(
            status=Status.OK,
            metrics=metrics(figures),
            warnings=warnings,
            begin_ns=block * 10**10,
            end_ns=block * 10**10 + 9 * 10**9,
            measured_ns=8 * 10**9,
        ),
    )
    return record, _sample(measure, cell, rate, chance)


def _search_metrics(cell: Mapping[str, str], rate: float, chance: random.Random) -> Figures:
    size = int(cell["ndr.frame_size"])
    found: Figures = {
        "forwarded_fps": (rate, "frame/s"), "forwarded_strict_fps": (rate * 0.97, "frame/s"),
        "lower_fps": (rate * 0.995, "frame/s"), "upper_fps": (rate * 1.004, "frame/s"),
        "ci_low_fps": (rate * 0.992, "frame/s"), "ci_high_fps": (rate * 1.006, "frame/s"),
        "forwarded_bps_l1": (rate * (size + 20) * 8, "bit/s"), "forwarded_bps_l2": (rate * size * 8, "bit/s"),
        "search_seconds": (chance.gauss(6, 0.5), "s"), "load_trials": (float(chance.randint(14, 22)), "count"),
        "perturbed_trials": (float(chance.randint(0, 2)), "count"), "loss_ratio": (0.00004, "ratio"),
        "unexplained_frames": (0.0, "count"), "balanced_ratio": (1.0, "ratio"),
    }  # fmt: skip
    for share, p50 in ((0.0, 9_000), (0.1, 11_000), (0.5, 14_000), (0.9, 41_000)):
        at = Dimensions(load_ratio=share)
        for name, factor, spread in (
            ("p50", 1.0, 0.02),
            ("p99", 2.6, 0.05),
            ("p999", 6, 0.1),
            ("max", 30, 0.3),
        ):
            found[Quantity(f"latency_{name}_ns", at)] = (p50 * factor * chance.gauss(1, spread), "ns")
    return found | _cpu(1.0, chance, None)


def _curve_metrics(rate: float, chance: random.Random) -> Figures:
    found: Figures = {
        "forwarded_fps": (rate * 1.01, "frame/s"), "rate_fps": (rate, "frame/s"),
        "unexplained_frames": (0.0, "count"), "balanced_ratio": (1.0, "ratio"),
    }  # fmt: skip
    for step in STEPS:
        share = step / 100
        offered = rate * share
        lost = max(0.0, 1 - 1.01 / share) + (0.00005 if step == 100 else 0.0)
        at = Dimensions(load_ratio=share)
        found[Quantity("offered_fps", at)] = (offered, "frame/s")
        found[Quantity("forwarded_fps", at)] = (offered * (1 - lost), "frame/s")
        found[Quantity("loss_ratio", at)] = (lost, "ratio")
        found[Quantity("unsent_ratio", at)] = (0.0, "ratio")
        wait = 9_000 / max(0.02, 1.02 - share) if share < 1 else 900_000
        for name, factor in (("p50", 1.0), ("p99", 2.5), ("p999", 5.0), ("max", 22.0)):
            found[Quantity(f"latency_{name}_ns", at)] = (wait * factor * chance.gauss(1, 0.05), "ns")
        found |= _cpu(min(share, 1.0), chance, share)
    return found


def _cpu(busy_share: float, chance: random.Random, load_ratio: float | None) -> Figures:
    busy = {0: 0.55, 1: 0.99, 2: 0.31, 3: 0.05}
    threads = {("generator", "tester.p0"): 0.55, ("receiver", "tester.p1"): 0.3, ("device", "dut.eth0"): 0.98}
    at = Dimensions(load_ratio=load_ratio)
    parts = {
        **{Quantity("cpu_busy_ratio", replace(at, cpu=cpu)): most for cpu, most in busy.items()},
        **{
            Quantity("thread_cpu_ratio", replace(at, role=role, port=port)): most
            for (role, port), most in threads.items()
        },
        Quantity("host_cpu_ratio", at): 0.62,
    }
    return {of: (_part(most, busy_share, chance), "ratio") for of, most in parts.items()}


def _part(value: float, share: float, chance: random.Random) -> float:
    return min(1.0, max(0.0, value * (0.1 + 0.9 * share) * chance.gauss(1, 0.01)))


def _sample(measure: str, cell: Mapping[str, str], rate: float, chance: random.Random) -> PacketTrial:
    loads = [0.5, 0.8, 0.95, 0.99, 1.004, 1.02, 1.2] if measure == "ndr" else [step / 100 for step in STEPS]
    shared = [PartsShareCpu(parts=PARTS, cpu=1)] if cell["machines.dut.forward"] == "route" else []
    return packet_trial(
        [_load_trial(measure, load, rate) for load in loads],
        placed=placed(*shared),
        ports=(
            port("tester.p0", "send", "AF_XDP native copy"),
            port("tester.p1", "receive", "AF_PACKET ring", FALLBACK),
        ),
        rate_fps=rate,
    )


def _load_trial(measure: str, load: float, rate: float) -> LoadRecord:
    offered = round(rate * load)
    lost = round(offered * max(0.0, 1 - 1 / load) * 0.5) if load > 1 else 0
    noise = lost // 20
    drops: list[tuple[Place, DropReason, int]] = [
        (AtPort(port="tester.p0"), CountedAs(counter="tx_dropped"), lost - noise),
        (AtCpu(cpu=1), BACKLOG, noise),
    ]
    ran = ThreadRan(thread="napi/eth0-8193", busy_ratio=0.99)
    dropped = LostAt(frames=lost, lost_frames=lost, place=AtPort(port="dut.eth0"), reason=RING_FULL)
    return load_record(
        rate * load,
        "thread" if lost else "none",
        AtPort(port="dut.eth0") if lost else None,
        seen=(ran, dropped) if lost else (),
        purpose="search" if measure == "ndr" else "curve",
        share_ratio=load,
        balances=(balance(offered, offered - lost, 0, *(drop for drop in drops if drop[2])),),
        busy={0: 0.55, 1: 1.0 if lost else 0.9, 2: 0.85, 3: 0.08},
    )


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
