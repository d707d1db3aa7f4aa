"""Make stored runs of values."""

from collections.abc import Mapping
from pathlib import Path

from iolab.plan.types import Plan
from iolab.store.records import RunStatus, StoredRun, TrialRecord

FACTS: Mapping[str, object] = {
    "kernel": "6.1.0", "cpu_model": "Xeon", "cpus": 4, "clocksource": "tsc", "virtualization": "kvm",
    "programs": {"iperf3": "iperf 3.12"}, "hello": {"rootless": False, "version": "0.1.0"},
}  # fmt: skip


def stored(name: str, run: tuple[list[TrialRecord], Plan], facts: Mapping[str, object] = FACTS) -> StoredRun:
    """Return a run as if read from its folder."""
    records, plan = run
    return StoredRun(
        folder=Path(name), name=name, plan=plan, facts=facts, trials=tuple(records), commands=(),
        status=RunStatus.COMPLETE,
    )  # fmt: skip
