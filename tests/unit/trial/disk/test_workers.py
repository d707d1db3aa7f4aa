"""Threads that a disk's bytes pass: the one that had no time left is found, and none that cannot be told."""

from iolab.trial.disk.workers import Busy, Worker, busiest, threads_of

SECOND_NS = 1_000_000_000
TGTD = Worker("pc3", 7, "tgtd", 5 * SECOND_NS)


def after(run_ns: int, tid: int = 7) -> Worker:
    """Return the thread, later."""
    return Worker("pc3", tid, "tgtd", run_ns)


def test_threads_are_read_a_line_each_and_what_is_none_is_left_out() -> None:
    """A name may have spaces."""
    text = "7 5000000000 tgtd\n8 12 CPU 0/TCG\nsh: nothing\n9 12\n"
    assert list(threads_of("pc3", text)) == [TGTD, Worker("pc3", 8, "CPU 0/TCG", 12)]


def test_the_thread_that_ran_all_the_time_is_found() -> None:
    """One that began meanwhile has run since it began."""
    assert busiest([TGTD], [after(15 * SECOND_NS)], 10 * SECOND_NS, 11 * SECOND_NS) == Busy(
        "pc3", "tgtd", 1.0
    )
    assert busiest([], [after(9_600_000_000, 8)], 10 * SECOND_NS, 10 * SECOND_NS) == Busy("pc3", "tgtd", 0.96)


def test_a_thread_with_time_left_explains_nothing() -> None:
    """Nor one that may have run while nothing was measured, nor where none was seen."""
    assert busiest([TGTD], [after(14 * SECOND_NS)], 10 * SECOND_NS, 10 * SECOND_NS) is None
    assert busiest([TGTD], [after(15 * SECOND_NS)], 10 * SECOND_NS, 20 * SECOND_NS) is None
    assert busiest([], [], 10 * SECOND_NS, 10 * SECOND_NS) is None
