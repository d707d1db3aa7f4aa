"""Whose work a host did, and the mark of a trial whose CPUs others had."""

from dataclasses import replace

from tests.unit.trial.zeros import zeros

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import ThreadTimes
from iolab.report.locale import EN
from iolab.trial.interference.disturbed import disturbed, wait_ratio
from iolab.trial.interference.work import (
    TICK_NS,
    HelperUse,
    OtherWork,
    ThreadTime,
    Work,
    beside,
    helpers_between,
    work_of,
)

AGENT = 40
CPUS = "cpu  {user} 0 {system} {idle} 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 1 2\n"


def process(pid: int, parent: int, own: int, ended: int = 0, name: str = "sh", flags: int = 0) -> str:
    """Return a line of proc_pid_stat(5), with half of the ticks in each mode."""
    ticks = f"{own // 2} {own - own // 2} {ended // 2} {ended - ended // 2}"
    return f"{pid} ({name}) S {parent} 1 1 0 -1 {flags} 1 1 1 1 {ticks} 20 0 1 0 77 0\n"


def looked(text: str, user: int = 100, system: int = 50, idle: int = 250) -> Work:
    """Return the work of a computer of two CPUs with these processes."""
    work = work_of(CPUS.format(user=user, system=system, idle=idle) + text, AGENT)
    assert work is not None
    return work


def test_time_of_the_lab_is_that_of_the_agents_family_and_of_who_measures() -> None:
    """Descendants count with those that have ended; of an ancestor its own time alone; a neighbour's is not ours."""
    family = process(AGENT, 30, 1, ended=20) + process(41, AGENT, 4, name="a) (b") + process(42, 41, 8)
    others = process(30, 20, 2, ended=999) + process(20, 1, 0) + process(31, 30, 500) + process(1, 0, 700)
    assert looked(family + others).own_ns == (1 + 20 + 4 + 8 + 2) * TICK_NS


def test_a_helper_that_left_the_family_is_the_labs_with_what_it_started() -> None:
    """A target runs in a session of its own: its pid file names it."""
    text = "helper 50\n" + process(50, 1, 16) + process(51, 50, 32) + process(52, 1, 64)
    assert looked(text).own_ns == (16 + 32) * TICK_NS


def test_what_others_had_is_what_neither_the_lab_nor_the_kernel_did() -> None:
    """Of two CPUs: of 4 s that programs ran, 1 s was the lab's and 1 s the kernel's, and 1 s of the rest was idle."""
    before = looked(process(AGENT, 1, 0) + process(9, 2, 10, flags=0x200000))
    later = process(AGENT, 1, 0, ended=100) + process(9, 2, 110, flags=0x200000)
    after = looked(later, user=400, system=150, idle=350)
    assert beside(before, after) == OtherWork(cpus=0.8, idle_ratio=0.2)


def test_a_thread_of_the_kernel_that_ended_is_no_work_of_others() -> None:
    """Workers come and go: what one did before does not count, nor is it taken from the rest."""
    before = looked(process(AGENT, 1, 0) + process(9, 2, 5000, flags=0x200000))
    after = looked(process(AGENT, 1, 100), user=200, idle=450)
    assert beside(before, after).cpus == 0.0


def test_what_is_not_to_be_understood_is_no_reading() -> None:
    """An agent that answers otherwise, or a computer that hides its CPUs."""
    assert work_of("sh: no such file\n", AGENT) is None
    assert work_of("cpu  1 2\ncpu0 1 2\n", AGENT) is None


def test_a_service_has_the_time_of_its_processes_and_of_the_busiest() -> None:
    """Its file names it; what it had before does not count, and a helper without a name has no row."""
    before = looked("helper 50 serve.web.pid\nhelper 60\n" + process(50, 1, 10) + process(51, 50, 20))
    after = looked(
        "helper 50 serve.web.pid\n" + process(50, 1, 12) + process(51, 50, 60) + process(52, 50, 5)
    )
    assert list(helpers_between(before, after)) == [HelperUse("serve.web", 47 * TICK_NS, 40 * TICK_NS, 1)]


def test_the_thread_of_a_service_that_wanted_a_cpu_longest_has_its_times() -> None:
    """Of all its processes, between both moments; a thread that began meanwhile counts from its begin."""
    head = "helper 50 serve.web.pid\n" + process(50, 1, 10) + process(51, 50, 20)
    times = "/proc/50/task/50/schedstat:100 20 7\n/proc/51/task/51/schedstat:{} {} 9\n"
    other = "/proc/9/task/9/schedstat:9999 9999 1\n"
    before = looked(head + times.format(500, 70) + other)
    after = looked(head + times.format(900, 370) + "/proc/51/task/52/schedstat:300 100 2\n" + other)
    (found,) = helpers_between(before, after)
    assert found.thread == ThreadTime(run_ns=400, wait_ns=300)


def test_a_kernel_without_the_scheduler_s_times_leaves_threads_unknown() -> None:
    """CONFIG_SCHED_INFO is not everywhere: processes' own times are still there."""
    text = "helper 50 serve.web.pid\n" + process(50, 1, 10)
    (found,) = helpers_between(looked(text), looked(text))
    assert found.thread is None


SECOND, PERIOD = 1_000_000_000, 100_000_000
BEFORE = Work(cpus=2, all_ns=0, idle_ns=0, programs_ns=0, own_ns=0, kernel_ns={})
CALM = Work(
    cpus=2, all_ns=4 * SECOND, idle_ns=2 * SECOND, programs_ns=2 * SECOND, own_ns=2 * SECOND, kernel_ns={}
)
FULL = replace(CALM, idle_ns=0, programs_ns=4 * SECOND)


def row(process: str | None, tid: int, wait_ns: int) -> ThreadTimes:
    """Return a thread that waited so long by now."""
    return zeros(
        ThreadTimes, process=process, pid=7, tid=tid, name="fio", run_ns=0, last_cpu=0, wait_ns=wait_ns
    )


def reading(at_ns: int, *rows: ThreadTimes) -> Reading:
    """Return what was read of threads at a time."""
    return Reading((Observation(sampler="threads", begin_ns=at_ns, end_ns=at_ns, threads=rows),))


def test_others_that_left_no_cpu_are_told_of_with_how_much_they_had() -> None:
    """Without readings over time too."""
    (warning,) = disturbed({"": BEFORE}, {"": FULL}, {})
    assert EN.said.say(warning) == (
        "programs outside this trial used 1.0 CPUs of this host: the idle time of all CPUs was only 0 %"
    )
    assert not warning.comparable


def test_others_by_which_a_program_waited_are_told_of_though_a_cpu_was_idle() -> None:
    """It may have been kept on the CPU that was taken."""
    readings = {"": (reading(0, row("fio", 7, 0)), reading(PERIOD, row("fio", 7, PERIOD // 4)))}
    some = replace(CALM, programs_ns=3 * SECOND, idle_ns=SECOND)
    (warning,) = disturbed({"": BEFORE}, {"": some}, readings)
    assert "a program of the trial waited for a CPU for 25 % of its time" in EN.said.say(warning)
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
