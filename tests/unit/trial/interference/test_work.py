"""Owners of a host's CPU time, and the warning of a trial with CPU interference."""

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


def test_cpu_time_of_the_lab_covers_the_agents_process_tree_and_the_controller() -> None:
    """Include ended descendants, exclude other children of ancestors."""
    family = process(AGENT, 30, 1, ended=20) + process(41, AGENT, 4, name="a) (b") + process(42, 41, 8)
    others = process(30, 20, 2, ended=999) + process(20, 1, 0) + process(31, 30, 500) + process(1, 0, 700)
    assert looked(family + others).own_ns == (1 + 20 + 4 + 8 + 2) * TICK_NS


def test_daemonized_helper_and_its_children_count_as_the_lab() -> None:
    """Find a target in a separate session by its pid file."""
    text = "helper 50\n" + process(50, 1, 16) + process(51, 50, 32) + process(52, 1, 64)
    assert looked(text).own_ns == (16 + 32) * TICK_NS


def test_foreign_work_excludes_the_lab_and_the_kernel() -> None:
    """Subtract 1 s each of lab, kernel and idle time on two CPUs."""
    before = looked(process(AGENT, 1, 0) + process(9, 2, 10, flags=0x200000))
    later = process(AGENT, 1, 0, ended=100) + process(9, 2, 110, flags=0x200000)
    after = looked(later, user=400, system=150, idle=350)
    assert beside(before, after) == OtherWork(cpus=0.8, idle_ratio=0.2)


def test_cpu_time_of_an_ended_kernel_thread_is_not_foreign_work() -> None:
    """Neither add nor subtract its earlier time."""
    before = looked(process(AGENT, 1, 0) + process(9, 2, 5000, flags=0x200000))
    after = looked(process(AGENT, 1, 100), user=200, idle=450)
    assert beside(before, after).cpus == 0.0


def test_malformed_process_list_gives_no_reading() -> None:
    """Accept an agent with different output, and a host that hides its CPUs."""
    assert work_of("sh: no such file\n", AGENT) is None
    assert work_of("cpu  1 2\ncpu0 1 2\n", AGENT) is None


def test_cpu_time_of_a_service_is_read_in_total_and_for_its_busiest_process() -> None:
    """Name the service by its PID file; skip earlier time, and helpers without a name."""
    before = looked("helper 50 serve.web.pid\nhelper 60\n" + process(50, 1, 10) + process(51, 50, 20))
    after = looked(
        "helper 50 serve.web.pid\n" + process(50, 1, 12) + process(51, 50, 60) + process(52, 50, 5)
    )
    assert list(helpers_between(before, after)) == [HelperUse("serve.web", 47 * TICK_NS, 40 * TICK_NS, 1)]


def test_service_thread_with_the_longest_cpu_demand_has_run_and_wait_times() -> None:
    """Compare all its processes at both times; count a new thread from its start."""
    head = "helper 50 serve.web.pid\n" + process(50, 1, 10) + process(51, 50, 20)
    times = "/proc/50/task/50/schedstat:100 20 7\n/proc/51/task/51/schedstat:{} {} 9\n"
    other = "/proc/9/task/9/schedstat:9999 9999 1\n"
    before = looked(head + times.format(500, 70) + other)
    after = looked(head + times.format(900, 370) + "/proc/51/task/52/schedstat:300 100 2\n" + other)
    (found,) = helpers_between(before, after)
    assert found.thread == ThreadTime(run_ns=400, wait_ns=300)


def test_kernel_without_schedstat_leaves_thread_times_unknown() -> None:
    """Keep the processes' own times without CONFIG_SCHED_INFO."""
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
    """Return a thread with that wait time so far."""
    return zeros(
        ThreadTimes, process=process, pid=7, tid=tid, name="fio", run_ns=0, last_cpu=0, wait_ns=wait_ns
    )


def reading(at_ns: int, *rows: ThreadTimes) -> Reading:
    """Return a reading of threads at a time."""
    return Reading((Observation(sampler="threads", begin_ns=at_ns, end_ns=at_ns, threads=rows),))


def test_foreign_programs_that_left_no_idle_cpu_give_a_warning() -> None:
    """State their CPU use, even without readings over time."""
    (warning,) = disturbed({"": BEFORE}, {"": FULL}, {})
    assert EN.said.say(warning) == (
        "programs outside this trial used 1.0 CPUs of this host: the idle time of all CPUs was only 0 %"
    )
    assert not warning.comparable


def test_foreign_programs_that_a_trial_thread_waited_for_give_a_warning() -> None:
    """Warn although a different CPU was idle, because of possible pinning."""
    readings = {"": (reading(0, row("fio", 7, 0)), reading(PERIOD, row("fio", 7, PERIOD // 4)))}
    some = replace(CALM, programs_ns=3 * SECOND, idle_ns=SECOND)
    (warning,) = disturbed({"": BEFORE}, {"": some}, readings)
    assert "a program of the trial waited for a CPU for 25 % of its time" in EN.said.say(warning)
    assert disturbed({"": BEFORE}, {"": some}, {}) == ()


def test_trial_that_uses_all_cpus_itself_gives_no_interference_warning() -> None:
    """Accept threads that wait for each other: this is the subject of the measurement."""
    readings = {"": (reading(0, row("fio", 7, 0)), reading(PERIOD, row("fio", 7, PERIOD // 2)))}
    assert disturbed({"": BEFORE}, {"": CALM}, readings) == ()
    assert disturbed({"": BEFORE}, {"": replace(FULL, own_ns=4 * SECOND)}, readings) == ()
    assert disturbed({"": BEFORE}, {}, readings) == ()


def test_wait_ratio_uses_the_longest_waiting_user_thread_of_each_interval() -> None:
    """Exclude kernel threads."""
    readings = (
        reading(0, row("fio", 7, 0), row("fio", 8, 0), row(None, 9, 0)),
        reading(SECOND, row("fio", 7, SECOND // 2), row("fio", 8, SECOND // 4), row(None, 9, SECOND)),
        reading(2 * SECOND, row("fio", 10, SECOND), row(None, 9, SECOND)),
        reading(3 * SECOND, row("fio", 10, SECOND), row(None, 9, SECOND)),
    )
    assert wait_ratio(readings) == 0.25
    assert wait_ratio(()) == 0.0
