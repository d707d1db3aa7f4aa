"""Verdicts in words."""

import pytest

from iolab.analysis.forwarding_types import CellLimit, Verdict
from iolab.messages.evidence import Evidence
from iolab.messages.places import AtMachine, ThisComputer
from iolab.messages.streams import AllCpusBusy, OfFlow, ProgramRan, WorkerRan
from iolab.report import verdicts
from iolab.report.locale import EN
from iolab.report.names import names

OWN = ProgramRan(machine="near", busy_ratio=0.97, wait_ratio=0.02)
FAR = ProgramRan(machine="far", busy_ratio=0.97, wait_ratio=0.02)
KERNEL = WorkerRan(thread="ksoftirqd/1", busy_ratio=0.97)
FULL = AllCpusBusy(host=ThisComputer(), cpus=2, busy_ratio=0.97)


def found(limit: str, *seen: Evidence, count: int = 3) -> Verdict:
    """Return the verdict that `near` was the place of the limit in `count` of three trials."""
    return Verdict(
        limit=limit, place=AtMachine(machine="near"), seen=seen, doubt=None, count=count, total=3,
        cpu=None, cpu_busy_ratio=0.0, idle_ratio=0.0,
    )  # fmt: skip


def flows(*clauses: Evidence) -> tuple[OfFlow, ...]:
    """Return the evidence of several flows."""
    return tuple(OfFlow(flow=f"flow {number}", clauses=(one,)) for number, one in enumerate(clauses))


@pytest.mark.parametrize(
    ("verdict", "called"),
    [
        (found("thread", OWN), "one thread of iperf3 (near)"),
        (found("thread", *flows(OWN, OWN)), "one thread of iperf3 (near)"),
        (found("thread", KERNEL, OWN), "one thread of the device (near)"),
        (found("thread", *flows(KERNEL, FAR, KERNEL)), "one thread of the device (near)"),
        (found("cpu", *flows(FULL, FULL)), "lack of CPU time (near)"),
        (found("window", *flows(FULL, KERNEL)), "a window or socket buffer (near)"),
    ],
    ids=[
        "one flow",
        "both flows",
        "kernel's thread",
        "other flow's program",
        "all CPUs",
        "other flow's CPUs",
    ],
)
def test_limit_is_named_after_the_evidence_of_its_own_flows(verdict: Verdict, called: str) -> None:
    """Compare one flow with several flows, whose limits may differ."""
    assert verdicts.limited_by(verdict, names([], EN)) == called


@pytest.mark.parametrize(("count", "uncertain"), [(1, True), (2, False)])
def test_limit_that_most_trials_of_a_stream_do_not_show_is_uncertain(count: int, uncertain: bool) -> None:
    """Count trials, because a stream has no load trials."""
    said = verdicts.verdict_sentence(CellLimit({}, found("thread", OWN, count=count)), names([], EN))
    assert ("Uncertain: only 1 of 3 trials show this limit." in said) is uncertain
