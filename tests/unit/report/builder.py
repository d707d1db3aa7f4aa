"""Make runs like those of labs/quickstart.yaml, with known effects, without any host."""

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.unit.records import metrics

from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.messages.failures import OtherFailure
from iolab.messages.warnings import (
    CountersDisagree,
    CountersMissing,
    Disagreement,
    DiskUnsteady,
    TrialWarning,
)
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.trial import CommandRecord, Status, TrialResult
from iolab.store.records import RunStatus, StoredRun, TrialRecord

FILE = """title: {title}
lab:
  machines:
    near: {{kind: netns}}
    far: {{kind: netns}}
    idle: {{kind: netns}}
  links:
    lan: {{ends: [near.eth0, far.eth0, idle.eth0], offload: {{}}}}
measure:
  tcp: {{kind: stream, protocol: tcp, from: near, to: far, duration: 2s}}
  udp: {{kind: stream, protocol: udp, from: near, to: far, rate: 1Gbit, duration: 2s}}
factors:
  "*.direction": [one-way, both-ways]
  links.lan.mtu: [1500, 9000]
  links.lan.offload:
    "on": {{tx_checksum: on, tso: on, gso: on, gro: on}}
    "off": {{tx_checksum: off, tso: off, gso: off, gro: off}}
baseline: {{links.lan.mtu: 1500, links.lan.offload: "on"}}
blocks: {blocks}
"""
FACTORS: Mapping[str, tuple[str, ...]] = {
    "*.direction": ("one-way", "both-ways"),
    "links.lan.mtu": ("1500", "9000"),
    "links.lan.offload": ("on", "off"),
}
BASELINE = {"links.lan.mtu": "1500", "links.lan.offload": "on"}
FACTS: Mapping[str, object] = {
    "hostname": "bench-3",
    "kernel": "6.1.0-28-amd64",
    "architecture": "x86_64",
    "os": "Debian GNU/Linux 12 (bookworm)",
    "cpu_model": "AMD EPYC 7543 32-Core Processor",
    "cpus": 2,
    "memory_bytes": 25_276_502_016,
    "clocksource": "tsc",
    "virtualization": "kvm",
    "load_1min_milli": 120,
    "interfaces": [
        {
            "name": "eth0",
            "driver": "virtio_net",
            "mtu": 1500,
            "up": True,
            "offloads": {"tso": True, "gro": False},
        }
    ],
    "programs": {"iperf3": "iperf 3.12", "ip": "iproute2-6.1.0"},
    "features": {"link:vlan": True, "qdisc:htb": True, "qdisc:etf": None},
    "settings": {"net.core.rmem_max": "212992", "net.ipv4.tcp_congestion_control": "cubic"},
}


def quickstart(
    blocks: int = 3,
    *,
    seed: int = 7,
    factors: Mapping[str, Sequence[str]] = FACTORS,
    baseline: Mapping[str, str] = BASELINE,
    file: str = FILE,
    title: str = "Two namespaces on a bridge",
    measures: Sequence[str] = ("tcp", "udp"),
    outlier: bool = True,
) -> tuple[StoredRun, Experiment]:
    """Return a complete run: MTU 9000 adds 41 %, both ways is slower per flow, offload does not affect UDP."""
    chance = random.Random(seed)
    cells = [dict(zip(factors, labels, strict=True)) for labels in itertools.product(*factors.values())]
    trials = [
        _trial(measure, cell, block, chance, outlier=outlier)
        for block in range(1, blocks + 1)
        for cell in chance.sample(cells, len(cells))
        for measure in measures
    ]
    plan = _plan(trials, factors, baseline, blocks, seed, title, measures)
    run = StoredRun(
        folder=Path("runs/20260731-101500-quickstart"),
        name="20260731-101500-quickstart",
        plan=plan,
        facts=FACTS,
        trials=tuple(trials),
        commands=_commands(len(cells)),
        status=RunStatus.COMPLETE,
    )
    experiment = parse(file.format(title=json.dumps(title), blocks=blocks), "labs/quickstart.yaml")
    return run, experiment


def _trial(
    measure: str, cell: Mapping[str, str], block: int, chance: random.Random, *, outlier: bool
) -> TrialRecord:
    rate = _rate(measure, cell) * chance.gauss(1, 0.012)
    warnings: tuple[TrialWarning, ...] = ()
    if outlier and measure == "tcp" and block == 2 and list(cell.values()) == ["one-way", "9000", "on"]:
        rate *= 0.55
        warnings = (CountersMissing(place="far.eth0"),)
    status, reason = Status.OK, None
    if measure == "udp" and block == 3 and list(cell.values())[-2:] == ["9000", "off"]:
        status, reason = Status.INVALID, "MTU of near.eth0 read back as 1500, applied was 9000"
    if measure == "udp" and not block % 2:
        warnings = (
            *warnings,
            CountersDisagree(
                place="far.eth0",
                counted_bytes=1_300_000_000,
                delivered_bytes=1_200_000_000,
                difference_ratio=0.077,
                cause=Disagreement(code="datagrams-unread"),
            ),
        )
    start = block * 10_000_000_000
    return TrialRecord(
        key=f"{measure}/{sorted(cell.items())}/{block}",
        measure=measure,
        kind="stream",
        direction=cell.get("*.direction", "one-way"),
        block=block,
        cell=dict(cell),
        wall=f"2026-07-31T10:15:{block % 60:02d}+02:00",
        result=TrialResult(
            status=status,
            reason=OtherFailure(said=reason) if reason else None,
            metrics=_metrics(measure, rate, chance) if status is Status.OK else Metrics(),
            warnings=warnings,
            begin_ns=start,
            end_ns=start + 2_100_000_000,
            measured_ns=2_000_000_000,
        ),
    )


def _rate(measure: str, cell: Mapping[str, str]) -> float:
    if measure == "udp":
        return 0.95e9 if cell.get("*.direction") == "one-way" else 0.93e9
    rate = 21.4e9
    rate *= 1.41 if cell.get("links.lan.mtu") == "9000" else 1.0
    rate *= 0.46 if cell.get("links.lan.offload") == "off" else 1.0
    return rate * (0.8 if cell.get("*.direction") == "both-ways" else 1.0)


def _metrics(measure: str, rate: float, chance: random.Random) -> Metrics:
    if measure == "tcp":
        again, rtt_ns = float(chance.randrange(40)), chance.gauss(48_000, 4000)
        own = {"retransmits": (again, "count"), "rtt_mean_ns": (rtt_ns, "ns")}
    else:
        loss, jitter_ns = abs(chance.gauss(0.004, 0.002)), chance.gauss(2300, 300)
        own = {"loss_ratio": (loss, "ratio"), "jitter_ns": (jitter_ns, "ns")}
    return metrics(
        {
            "received_bps": (rate, "bit/s"),
            "sent_bps": (rate * 1.004, "bit/s"),
            **own,
            "cpu_from_ratio": (chance.gauss(0.82, 0.03), "ratio"),
            "cpu_to_ratio": (chance.gauss(0.94, 0.03), "ratio"),
            "host_cpu_ratio": (chance.gauss(0.88, 0.02), "ratio"),
            "host_steal_ratio": (abs(chance.gauss(0.001, 0.001)), "ratio"),
            "fairness": (1 - abs(chance.gauss(0.01, 0.005)), "ratio"),
        }
    )


def _plan(
    trials: Sequence[TrialRecord],
    factors: Mapping[str, Sequence[str]],
    baseline: Mapping[str, str],
    blocks: int,
    seed: int,
    title: str,
    measures: Sequence[str],
) -> Plan:
    places = {name: {label: index for index, label in enumerate(labels)} for name, labels in factors.items()}
    return Plan(
        title=title,
        factors=tuple(PlannedFactor(name, tuple(labels)) for name, labels in factors.items()),
        measures=tuple(measures),
        baseline=baseline,
        grouping=("links.lan.mtu",),
        seed=seed,
        blocks=blocks,
        steps=tuple(
            Step(
                trial.key,
                trial.measure,
                trial.block,
                0,
                tuple(places[name][trial.cell[name]] if name in trial.cell else -1 for name in factors),
            )
            for trial in trials
        ),
        unsupported=(),
        estimate_ns=120_000_000_000,
        digest="9f2c" * 16,
    )


def _commands(times: int) -> tuple[CommandRecord, ...]:
    def command(machine: str, do: str, undo: str | None, netns: str | None = None) -> CommandRecord:
        back = tuple(undo.split()) if undo else None
        return CommandRecord(
            machine=machine,
            netns=netns,
            argv=tuple(do.split()),
            undo=back,
            exit_status=0,
            duration_ns=4_000_000,
        )

    machines = ("near", "far", "idle")
    once = [
        command("localhost", f"ip netns add iolab-{name}", f"ip netns del iolab-{name}") for name in machines
    ]
    off, on = (
        f"ethtool -K eth0 tx {switch} tso {switch} gso {switch} gro {switch}" for switch in ("off", "on")
    )
    again = [
        command("near", "ip link set dev eth0 mtu 9000", "ip link set dev eth0 mtu 1500", "iolab-near"),
        command("near", off, on, "iolab-near"),
        command("near", "iperf3 --client 198.18.0.2 --json --time 2", None, "iolab-near"),
    ]
    return (*once, *(each for _ in range(times) for each in again))


MTU = {"links.lan.mtu": ("1500", "9000")}


def disk_run(*, unsteady: bool = False, depth: int | None = 8) -> StoredRun:
    """Return a run in which the second cell reads half as fast as the first."""
    run, _ = quickstart(2, factors=MTU, baseline={"links.lan.mtu": "1500"}, measures=("tcp",), outlier=False)
    trials = []
    for trial in run.trials:
        second = trial.cell["links.lan.mtu"] == "9000"
        rate = 10.0 * 2**20 if second else 20.0 * 2**20
        warned: tuple[TrialWarning, ...] = ()
        if unsteady and second:
            warned = (DiskUnsteady(rounds=25, spread_ratio=0.5, slope_ratio=0.2),)
        metrics = Metrics(
            Metric(name, unit, value, Dimensions(part=part, block_bytes=4096, depth=depth))
            for name, unit, value in (
                ("disk_bytes_per_s", "byte/s", rate),
                ("disk_operations_per_s", "op/s", rate / 4096),
            )
            for part in ("read", "write")
        )  # fmt: skip
        trials.append(replace(trial, result=replace(trial.result, metrics=metrics, warnings=warned)))
    return replace(run, trials=tuple(trials))
