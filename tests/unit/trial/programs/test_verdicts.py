"""Limits of a user's own program, by concurrent counters."""

from collections.abc import Sequence
from dataclasses import replace

from tests.unit.trial.zeros import zeros

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import InterfaceCounters, ThreadTimes
from iolab.experiment.model.quantities import PortRef
from iolab.lab.endpoints import Port
from iolab.messages.caveats import TooCoarse
from iolab.messages.places import AtMachine, AtPort
from iolab.messages.programs import OwnProgramRan, OwnThreadRan
from iolab.messages.streams import NearlyBusy
from iolab.results.verdict import Limit, Verdict
from iolab.trial.programs.measure import _of_time
from iolab.trial.programs.verdict import Line, Ran, ServiceRan, judge

S = 1_000_000_000
OWN = Ran("program", "load", "near", "", (), 0, 4 * S)
SERVER = Ran("program-web", "web", "far", "", (), 0, 6 * S)
LINE = Line(PortRef("near.eth0"), "", "iolab-near", "eth0", 100e6)
Threads = dict[tuple[str, int], tuple[float, float]]
"""Process and thread to its run and wait ratio."""


def readings(
    threads: Threads, cpus: Sequence[float] = (0.1, 0.1), sent_bps: float = 0.0, asked: int = 0
) -> list[Reading]:
    """Return readings of each second, from one second before the program's start to one after its end."""
    return [_reading(at, threads, cpus, sent_bps, asked) for at in range(9, 16)]


def _reading(at: int, threads: Threads, cpus: Sequence[float], sent_bps: float, asked: int = 0) -> Reading:
    passed = InterfaceCounters("eth0", 0, 0, 0, 0, int(sent_bps / 8 * at), 0, 0, 0)
    served = InterfaceCounters("eth0", 0, asked * at, 0, 0, 0, asked * at, 0, 0)
    rows = tuple(
        zeros(ThreadTimes,
            process=process, pid=tid, tid=tid, name="x", last_cpu=0,
            run_ns=int(ran * at * S), wait_ns=int(waited * at * S),
        )
        for (process, tid), (ran, waited) in threads.items()
    )  # fmt: skip
    times = dict.fromkeys(
        (
            "nice_ns",
            "system_ns",
            "iowait_ns",
            "irq_ns",
            "softirq_ns",
            "steal_ns",
            "guest_ns",
            "guest_nice_ns",
        ),
        0,
    )
    of_cpus = tuple(
        {"cpu": number, "user_ns": int(busy * at * S), "idle_ns": int((1 - busy) * at * S), **times}
        for number, busy in enumerate(cpus)
    )
    return Reading((
        Observation(sampler="cpu", begin_ns=at * S, end_ns=at * S, cpus=of_cpus),
        Observation(sampler="threads", begin_ns=at * S, end_ns=at * S, threads=rows),
        Observation(sampler="interfaces", netns="iolab-near", begin_ns=at * S, end_ns=at * S, interfaces=(passed,)),
        Observation(sampler="interfaces", netns="iolab-far", begin_ns=at * S, end_ns=at * S, interfaces=(served,)),
    ))  # fmt: skip


def verdict(read: Sequence[Reading], own: Ran = OWN, *servers: Ran, lines: Sequence[Line] = ()) -> Verdict:
    """Return the verdict on a program that ran from 10 to 14 s."""
    return judge((own, *servers), lines, {"": read}, (10 * S, 14 * S))


def test_saturated_thread_of_program_or_server_is_the_limit() -> None:
    """Check both."""
    seen = verdict(readings({("program", 1): (0.99, 0), ("program", 2): (0.3, 0)}))
    assert (seen.limit, seen.place, seen.doubt) == (Limit.WORKER, AtMachine(machine="near"), None)
    served = verdict(readings({("program", 1): (0.2, 0), ("program-web", 9): (0.98, 0)}), OWN, SERVER)
    assert (served.limit, served.place) == (Limit.WORKER, AtMachine(machine="far"))


def test_thread_that_was_busy_before_the_program_is_not_the_limit() -> None:
    """Exclude a server's start-up work."""
    read = readings({("program", 1): (0.1, 0), ("program-web", 9): (0.1, 0)})
    early = [_reading(at, {("program-web", 9): (0.99, 0)}, (0.1, 0.1), 0) for at in range(1, 9)]
    later = [replace(one) for one in read]
    assert verdict([*early, *later], OWN, SERVER).limit is Limit.WAITING


def test_thread_that_waited_for_a_cpu_is_limited_by_the_cpu() -> None:
    """Check one that was always ready and ran half of the time."""
    seen = verdict(readings({("program", 1): (0.5, 0.48)}, (0.99, 0.99)))
    assert (seen.limit, seen.doubt) == (Limit.CPU, None)
    nearly = verdict(readings({("program", 1): (0.91, 0.01)}))
    assert (nearly.limit, nearly.doubt) == (Limit.WORKER, NearlyBusy(ready_ratio=0.92))


def test_full_line_takes_precedence_over_other_limits() -> None:
    """Prefer it to a polling program."""
    busy = readings({("program", 1): (1.0, 0)}, sent_bps=99e6)
    seen = verdict(busy, lines=(LINE,))
    assert (seen.limit, seen.place) == (Limit.LINE, AtPort(port="near.eth0"))
    assert verdict(readings({("program", 1): (1.0, 0)}, sent_bps=60e6), lines=(LINE,)).limit is Limit.WORKER


def test_two_threads_on_one_allowed_cpu_are_limited_by_the_cpu() -> None:
    """Use the allowed CPU, although no thread and no host is saturated."""
    halves: Threads = {("program", 1): (0.5, 0.2), ("program", 2): (0.5, 0.2)}
    kept = replace(OWN, cpus=(0,), cpu_ns=4 * S)
    seen = verdict(readings(halves, (0.99, 0.1)), kept)
    assert (seen.limit, seen.place) == (Limit.CPU, AtMachine(machine="near"))
    assert verdict(readings(halves, (0.99, 0.1)), replace(OWN, cpu_ns=4 * S)).limit is Limit.UNEXPLAINED


def test_busy_cpus_without_a_saturated_thread_give_a_doubtful_cpu_limit() -> None:
    """Check many threads."""
    many: Threads = {("program", number): (0.4, 0.1) for number in range(5)}
    seen = verdict(readings(many, (0.97, 0.99)), replace(OWN, cpu_ns=8 * S))
    assert (seen.limit, seen.doubt) == (Limit.CPU, TooCoarse(code="no-single-thread"))


def test_verdict_for_a_sleeping_program_on_a_busy_host_is_waiting() -> None:
    """Require that the program hardly waited for a CPU."""
    assert verdict(readings({("program", 1): (0.01, 0.02)}, (1.0, 1.0))).limit is Limit.WAITING


def test_short_processes_that_together_use_one_cpu_give_a_doubtful_limit() -> None:
    """Check a script that starts compilers in sequence."""
    seen = verdict(readings({("program", 1): (0.01, 0)}), replace(OWN, cpu_ns=int(3.9 * S)))
    assert (seen.limit, seen.doubt) == (Limit.WORKER, TooCoarse(code="one-after-the-other"))


def test_verdict_for_a_sleeping_program_and_server_is_waiting() -> None:
    """State no cause."""
    seen = verdict(readings({("program", 1): (0.05, 0), ("program-web", 9): (0.1, 0)}), OWN, SERVER)
    assert (seen.limit, seen.place) == (Limit.WAITING, None)
    assert [one.program for one in seen.seen if isinstance(one, OwnThreadRan)] == ["load", "web"]


def test_short_program_is_judged_by_its_cpu_time() -> None:
    """Use the exact time."""
    short = replace(OWN, took_ns=S // 20)
    assert verdict([], replace(short, cpu_ns=S // 1000)).limit is Limit.WAITING
    assert verdict([], replace(short, cpu_ns=S // 20)).doubt == TooCoarse(code="one-after-the-other")
    assert verdict([], replace(short, cpu_ns=S // 30)).limit is Limit.UNEXPLAINED


def test_program_without_a_matching_limit_is_unexplained() -> None:
    """Check one that ran half of the time."""
    seen = verdict(readings({("program", 1): (0.7, 0)}), replace(OWN, cpu_ns=int(2.8 * S)))
    assert (seen.limit, seen.seen[0].code) == (Limit.UNEXPLAINED, "nothing-full")


def test_saturated_service_of_the_lab_is_the_limit() -> None:
    """Doubt it for a process with several threads."""
    waits = readings({("program", 1): (0.2, 0.0)})
    for threads, doubt in ((1, None), (4, TooCoarse(code="no-single-thread"))):
        service = ServiceRan("web", "far", 0.98, 0.97, threads)
        found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (service,))
        assert (found.limit, found.place, found.doubt) == (Limit.WORKER, AtMachine(machine="far"), doubt)


def test_service_that_waited_for_a_cpu_is_the_limit() -> None:
    """Check 70 % use and 30 % waiting, without a saturated process."""
    waits = readings({("program", 1): (0.1, 0.0)})
    starved = ServiceRan("web", "far", 0.7, 0.7, 1, run_ratio=0.7, wait_ratio=0.28)
    found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (starved,))
    assert (found.limit, found.place, found.doubt) == (Limit.CPU, AtMachine(machine="far"), None)
    assert found.seen == (OwnThreadRan(program="web", machine="far", busy_ratio=0.7, wait_ratio=0.28),)
    nearly = replace(starved, run_ratio=0.9, wait_ratio=0.02)
    found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (nearly,))
    assert (found.limit, found.doubt) == (Limit.WORKER, NearlyBusy(ready_ratio=0.92))


def test_busy_thread_of_a_service_with_known_cpu_times_is_the_definite_limit() -> None:
    """Use the scheduler's times."""
    waits = readings({("program", 1): (0.1, 0.0)})
    service = ServiceRan("web", "far", 0.99, 0.99, 4, run_ratio=0.97, wait_ratio=0.01)
    found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (service,))
    assert (found.limit, found.doubt) == (Limit.WORKER, None)


def test_busy_service_without_packets_is_not_the_limit() -> None:
    """Exclude one that works for itself."""
    port = Port(machine="far", name="eth0", link="w", netns="iolab-far", interface="eth0", bridge=None)
    busy = ServiceRan("miner", "far", 0.99, 0.99, 1, run_ratio=0.99, ports=(port,))
    for asked, limit in ((0, Limit.WAITING), (5, Limit.WORKER)):
        read = readings({("program", 1): (0.01, 0.0)}, asked=asked)
        found = judge((replace(OWN, cpu_ns=S // 25),), (), {"": read}, (10 * S, 14 * S), (busy,))
        assert found.limit is limit
        assert "miner" in str(found.seen)


def test_service_with_high_cpu_use_is_mentioned_with_the_limit_of_the_program() -> None:
    """Check a service that used two thirds of the time."""
    busy = readings({("program", 1): (0.99, 0.0)})
    found = judge((OWN,), (), {"": busy}, (10 * S, 14 * S), (ServiceRan("web", "far", 0.66, 0.6, 1),))
    assert (found.limit, found.place) == (Limit.WORKER, AtMachine(machine="near"))
    assert OwnProgramRan(program="web", machine="far", cpus_ratio=0.66) in found.seen


def test_service_cpu_share_is_limited_to_the_program_time() -> None:
    """Allow for readings before and after the program."""
    assert _of_time(4_400_000_000, 4_000_000_000, 4_400_000_000) == 1.0
    assert _of_time(3_600_000_000, 4_000_000_000, 4_400_000_000) == 0.9
    assert _of_time(8_800_000_000, 4_000_000_000, 4_400_000_000) == 2.0
