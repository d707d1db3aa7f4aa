"""Whose work a computer did: the lab's, the kernel's, or that of others."""

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
