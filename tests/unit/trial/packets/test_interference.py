"""Foreign programs on the CPUs that the device waited for."""

from dataclasses import replace

import pytest
from tests.unit.records import load_record

from iolab.messages.caveats import OthersOnCpu
from iolab.messages.evidence import ThreadWaited
from iolab.messages.searches import LibraryGaveUp
from iolab.results.packets import LoadRecord
from iolab.results.search import Found, StopReason
from iolab.results.verdict import GUEST, Limit, Thread, Verdict
from iolab.trial.interference.disturbed import interference, is_interference, judged
from iolab.trial.interference.work import Work
from iolab.trial.packets.forwarding import limited_by

BEFORE = Work(cpus=2, all_ns=0, idle_ns=0, programs_ns=0, own_ns=0, kernel_ns={})
"""CPU times of a host with two CPUs."""
FPS = 1000.0
WAITED = ThreadWaited(thread="vCPU 0", place="dut", busy_ratio=0.09, wait_ratio=0.91)
DOUBTED = Verdict(Limit.CPU, (WAITED,), None, OthersOnCpu(others_ratio=0.9))


def after(others_cpus: float, idle: float = 0.2) -> Work:
    """Return the CPU times 10 s later, with that many CPUs used by others."""
    all_ns = 20 * 10**9
    others_ns = int(others_cpus * 10**10)
    return replace(
        BEFORE, all_ns=all_ns, idle_ns=int(idle * all_ns), programs_ns=others_ns + 10**9, own_ns=10**9
    )


def record(wait_ratio: float = 0.91, verdict: Verdict = DOUBTED) -> LoadRecord:
    """Return a load trial with that wait ratio of the vCPU."""
    vcpu = Thread("vCPU 0", GUEST, "dut", None, 1 - wait_ratio, wait_ratio)
    return replace(load_record(FPS), threads=(vcpu,), verdict=verdict)


@pytest.mark.parametrize(
    ("others", "wait", "idle", "marked"),
    [(0.9, 0.91, 0.2, True), (0.9, 0.02, 0.2, False), (0.1, 0.91, 0.0, False), (0.9, 0.02, 0.01, True)],
)
def test_trial_is_marked_if_foreign_programs_used_cpus_that_the_trial_needed(
    others: float, wait: float, idle: float, marked: bool
) -> None:
    """Use the rule of other kinds: a thread waited, or no CPU time was left."""
    assert bool(interference({"": BEFORE}, {"": after(others, idle)}, [record(wait)])) is marked


def test_doubtful_cpu_verdict_becomes_interference_if_foreign_work_is_known() -> None:
    """Use the CPU time of all processes."""
    taken = interference({"": BEFORE}, {"": after(0.9)}, [record()])
    (found,) = judged([record()], taken)
    assert (found.verdict.limit, found.verdict.doubt) == (Limit.HOST, None)
    assert is_interference(found)
    assert judged([record()], ()) == [record()]
    certain = record(verdict=Verdict(Limit.CPU, (WAITED,), None))
    assert judged([certain], taken) == [certain]


def test_rate_under_interference_is_a_lower_bound() -> None:
    """Allow for a higher rate on an idle host."""
    found = Found(
        lower_fps=FPS, upper_fps=FPS, robust_fps=FPS, method="search", strict_fps=FPS, trials=1,
        perturbed_trials=0, spent_ns=1, reason=StopReason.NARROW, seen=LibraryGaveUp(said=""),
    )  # fmt: skip
    (disturbed,) = judged([record()], interference({"": BEFORE}, {"": after(0.9)}, [record()]))
    assert limited_by(found, [disturbed]) == "host"
    assert limited_by(found, [record()]) == ""
