"""A trial has a mark where others had CPUs that it needed, and none where it only was busy itself."""

from dataclasses import replace

from iolab.agent.messages import Observation, Reading, ThreadTimes
from iolab.report.locale import EN
from iolab.trial.interference.disturbed import disturbed, wait_ratio
from iolab.trial.interference.work import Work

SECOND, PERIOD = 1_000_000_000, 100_000_000
BEFORE = Work(cpus=2, all_ns=0, idle_ns=0, programs_ns=0, own_ns=0, kernel_ns={})
CALM = Work(
    cpus=2, all_ns=4 * SECOND, idle_ns=2 * SECOND, programs_ns=2 * SECOND, own_ns=2 * SECOND, kernel_ns={}
)
FULL = replace(CALM, idle_ns=0, programs_ns=4 * SECOND)


def row(process: str | None, tid: int, wait_ns: int) -> ThreadTimes:
    """Return a thread that waited so long by now."""
    return ThreadTimes(process=process, pid=7, tid=tid, name="fio", run_ns=0, last_cpu=0, wait_ns=wait_ns)


def reading(at_ns: int, *rows: ThreadTimes) -> Reading:
    """Return what was read of threads at a time."""
    return Reading((Observation(sampler="threads", begin_ns=at_ns, end_ns=at_ns, threads=rows),))


def test_others_that_left_no_cpu_are_told_of_with_how_much_they_had() -> None:
    """Without readings over time too."""
    (warning,) = disturbed({"": BEFORE}, {"": FULL}, {})
    assert EN.said.say(warning) == (
        "programs that are not of this trial had 1.0 CPUs of this computer: 0 % of the time of all CPUs was left over"
    )
    assert not warning.comparable


def test_others_by_which_a_program_waited_are_told_of_though_a_cpu_was_idle() -> None:
    """It may have been kept on the CPU that was taken."""
    readings = {"": (reading(0, row("fio", 7, 0)), reading(PERIOD, row("fio", 7, PERIOD // 4)))}
    some = replace(CALM, programs_ns=3 * SECOND, idle_ns=SECOND)
    (warning,) = disturbed({"": BEFORE}, {"": some}, readings)
    assert "a program of the trial waited for a CPU 25 % of its time" in EN.said.say(warning)
    assert disturbed({"": BEFORE}, {"": some}, {}) == ()


def test_a_trial_that_is_busy_itself_has_no_mark() -> None:
    """Its own threads wait for each other, and no CPU is idle: that is what was to be measured."""
    readings = {"": (reading(0, row("fio", 7, 0)), reading(PERIOD, row("fio", 7, PERIOD // 2)))}
    assert disturbed({"": BEFORE}, {"": CALM}, readings) == ()
    assert disturbed({"": BEFORE}, {"": replace(FULL, own_ns=4 * SECOND)}, readings) == ()
    assert disturbed({"": BEFORE}, {}, readings) == ()


def test_threads_that_follow_each_other_wait_for_one_process() -> None:
    """At each time the longest wait counts; the kernel's own threads are nobody's program."""
    readings = (
        reading(0, row("fio", 7, 0), row("fio", 8, 0), row(None, 9, 0)),
        reading(SECOND, row("fio", 7, SECOND // 2), row("fio", 8, SECOND // 4), row(None, 9, SECOND)),
        reading(2 * SECOND, row("fio", 10, SECOND), row(None, 9, SECOND)),
        reading(3 * SECOND, row("fio", 10, SECOND), row(None, 9, SECOND)),
    )
    assert wait_ratio(readings) == 0.25
    assert wait_ratio(()) == 0.0
