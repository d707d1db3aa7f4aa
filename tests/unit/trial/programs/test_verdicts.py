"""What limited a program of the user's own, by counters that were read meanwhile."""

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
"""Process and thread to the parts of the time that it ran, and waited for a CPU."""


def readings(
    threads: Threads, cpus: Sequence[float] = (0.1, 0.1), sent_bps: float = 0.0, asked: int = 0
) -> list[Reading]:
    """Return what was read each second from a second before the program began to one after its end."""
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
    """Return what limited a program that ran from 10 to 14 s."""
    return judge((own, *servers), lines, {"": read}, (10 * S, 14 * S))


def test_a_thread_that_ran_all_of_the_time_is_the_limit() -> None:
    """Of the program, or of a server that it waits for."""
    seen = verdict(readings({("program", 1): (0.99, 0), ("program", 2): (0.3, 0)}))
    assert (seen.limit, seen.place, seen.doubt) == (Limit.WORKER, AtMachine(machine="near"), None)
    served = verdict(readings({("program", 1): (0.2, 0), ("program-web", 9): (0.98, 0)}), OWN, SERVER)
    assert (served.limit, served.place) == (Limit.WORKER, AtMachine(machine="far"))


def test_a_thread_that_was_busy_before_the_program_began_is_not_its_limit() -> None:
    """A server that reads its data when it starts: only what it did meanwhile counts."""
    read = readings({("program", 1): (0.1, 0), ("program-web", 9): (0.1, 0)})
    early = [_reading(at, {("program-web", 9): (0.99, 0)}, (0.1, 0.1), 0) for at in range(1, 9)]
    later = [replace(one) for one in read]
    assert verdict([*early, *later], OWN, SERVER).limit is Limit.WAITING


def test_a_thread_that_had_no_cpu_is_short_of_it() -> None:
    """It was ready all the time, and ran for half of it."""
    seen = verdict(readings({("program", 1): (0.5, 0.48)}, (0.99, 0.99)))
    assert (seen.limit, seen.doubt) == (Limit.CPU, None)
    nearly = verdict(readings({("program", 1): (0.91, 0.01)}))
    assert (nearly.limit, nearly.doubt) == (Limit.WORKER, NearlyBusy(ready_ratio=0.92))


def test_a_full_line_comes_first() -> None:
    """Also where the program looks for answers all the time."""
    busy = readings({("program", 1): (1.0, 0)}, sent_bps=99e6)
    seen = verdict(busy, lines=(LINE,))
    assert (seen.limit, seen.place) == (Limit.LINE, AtPort(port="near.eth0"))
    assert verdict(readings({("program", 1): (1.0, 0)}, sent_bps=60e6), lines=(LINE,)).limit is Limit.WORKER


def test_two_threads_on_the_one_cpu_that_they_may_use_are_short_of_cpu() -> None:
    """No thread was busy, nor all CPUs of the computer: the one that the machine's programs have was."""
    halves: Threads = {("program", 1): (0.5, 0.2), ("program", 2): (0.5, 0.2)}
    kept = replace(OWN, cpus=(0,), cpu_ns=4 * S)
    seen = verdict(readings(halves, (0.99, 0.1)), kept)
    assert (seen.limit, seen.place) == (Limit.CPU, AtMachine(machine="near"))
    assert verdict(readings(halves, (0.99, 0.1)), replace(OWN, cpu_ns=4 * S)).limit is Limit.UNEXPLAINED


def test_all_cpus_busy_is_the_limit_in_doubt() -> None:
    """Many threads, none of which had all of its time."""
    many: Threads = {("program", number): (0.4, 0.1) for number in range(5)}
    seen = verdict(readings(many, (0.97, 0.99)), replace(OWN, cpu_ns=8 * S))
    assert (seen.limit, seen.doubt) == (Limit.CPU, TooCoarse(code="no-single-thread"))


def test_a_program_that_slept_while_others_had_all_cpus_waited_for_something_else() -> None:
    """It was never ready without running."""
    assert verdict(readings({("program", 1): (0.01, 0.02)}, (1.0, 1.0))).limit is Limit.WAITING


def test_processes_too_short_to_be_seen_that_had_a_cpu_s_time_are_the_limit_in_doubt() -> None:
    """A script that starts one compiler after the other: its own shell waits."""
    seen = verdict(readings({("program", 1): (0.01, 0)}), replace(OWN, cpu_ns=int(3.9 * S)))
    assert (seen.limit, seen.doubt) == (Limit.WORKER, TooCoarse(code="one-after-the-other"))


def test_a_program_that_slept_waited() -> None:
    """And so did its server: what for is not known."""
    seen = verdict(readings({("program", 1): (0.05, 0), ("program-web", 9): (0.1, 0)}), OWN, SERVER)
    assert (seen.limit, seen.place) == (Limit.WAITING, None)
    assert [one.program for one in seen.seen if isinstance(one, OwnThreadRan)] == ["load", "web"]


def test_a_program_too_short_for_the_counters_is_judged_by_its_cpu_time() -> None:
    """That is exact."""
    short = replace(OWN, took_ns=S // 20)
    assert verdict([], replace(short, cpu_ns=S // 1000)).limit is Limit.WAITING
    assert verdict([], replace(short, cpu_ns=S // 20)).doubt == TooCoarse(code="one-after-the-other")
    assert verdict([], replace(short, cpu_ns=S // 30)).limit is Limit.UNEXPLAINED


def test_what_fits_nothing_is_not_known() -> None:
    """Half of the time it ran, and nothing was full."""
    seen = verdict(readings({("program", 1): (0.7, 0)}), replace(OWN, cpu_ns=int(2.8 * S)))
    assert (seen.limit, seen.seen[0].code) == (Limit.UNEXPLAINED, "nothing-full")


def test_a_service_of_the_lab_without_time_left_is_the_limit() -> None:
    """The program that asks it waits; of a process with several threads nobody knows whose time it was."""
    waits = readings({("program", 1): (0.2, 0.0)})
    for threads, doubt in ((1, None), (4, TooCoarse(code="no-single-thread"))):
        service = ServiceRan("web", "far", 0.98, 0.97, threads)
        found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (service,))
        assert (found.limit, found.place, found.doubt) == (Limit.WORKER, AtMachine(machine="far"), doubt)


def test_a_service_that_had_no_cpu_is_the_limit() -> None:
    """It used 70 % of a CPU, and was ready the rest of the time: no process of it was busy."""
    waits = readings({("program", 1): (0.1, 0.0)})
    starved = ServiceRan("web", "far", 0.7, 0.7, 1, run_ratio=0.7, wait_ratio=0.28)
    found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (starved,))
    assert (found.limit, found.place, found.doubt) == (Limit.CPU, AtMachine(machine="far"), None)
    assert found.seen == (OwnThreadRan(program="web", machine="far", busy_ratio=0.7, wait_ratio=0.28),)
    nearly = replace(starved, run_ratio=0.9, wait_ratio=0.02)
    found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (nearly,))
    assert (found.limit, found.doubt) == (Limit.WORKER, NearlyBusy(ready_ratio=0.92))


def test_one_busy_thread_of_several_is_certain_where_its_time_is_known() -> None:
    """The scheduler says whose time it was."""
    waits = readings({("program", 1): (0.1, 0.0)})
    service = ServiceRan("web", "far", 0.99, 0.99, 4, run_ratio=0.97, wait_ratio=0.01)
    found = judge((OWN,), (), {"": waits}, (10 * S, 14 * S), (service,))
    assert (found.limit, found.doubt) == (Limit.WORKER, None)


def test_a_busy_service_that_no_packet_reached_is_not_what_a_program_waited_for() -> None:
    """It works for itself on a machine of its own; one that was asked is the limit."""
    port = Port(machine="far", name="eth0", link="w", netns="iolab-far", interface="eth0", bridge=None)
    busy = ServiceRan("miner", "far", 0.99, 0.99, 1, run_ratio=0.99, ports=(port,))
    for asked, limit in ((0, Limit.WAITING), (5, Limit.WORKER)):
        read = readings({("program", 1): (0.01, 0.0)}, asked=asked)
        found = judge((replace(OWN, cpu_ns=S // 25),), (), {"": read}, (10 * S, 14 * S), (busy,))
        assert found.limit is limit
        assert "miner" in str(found.seen)


def test_a_service_that_worked_too_is_named_beside_the_limit() -> None:
    """The client had no time left, and the service worked for two thirds of it: both are said."""
    busy = readings({("program", 1): (0.99, 0.0)})
    found = judge((OWN,), (), {"": busy}, (10 * S, 14 * S), (ServiceRan("web", "far", 0.66, 0.6, 1),))
    assert (found.limit, found.place) == (Limit.WORKER, AtMachine(machine="near"))
    assert OwnProgramRan(program="web", machine="far", cpus_ratio=0.66) in found.seen


def test_a_service_that_worked_all_of_the_time_used_one_cpu_and_no_more() -> None:
    """Its time is counted from before the program until after it."""
    assert _of_time(4_400_000_000, 4_000_000_000, 4_400_000_000) == 1.0
    assert _of_time(3_600_000_000, 4_000_000_000, 4_400_000_000) == 0.9
    assert _of_time(8_800_000_000, 4_000_000_000, 4_400_000_000) == 2.0
