"""A program that works on a disk is waited for; a disk that stands still is seen, and said."""

import pytest

from iolab.agent.client import Agent
from iolab.agent.fake import FakeAgent, FakeHost, Outcome
from iolab.clock import VirtualClock
from iolab.statements.program_failures import DiskStandsStill, ProgramTooLong
from iolab.trial.disk.run_on_disk import DiskProgress, WorkedOn, progress_of, run_on_disk, stands_still
from iolab.trial.failed import Failed

DISK = WorkedOn("pc3", "/dev/iolab-lun0")
HOUR_NS = 3_600_000_000_000

STATISTICS = "  120 3 8000 95  40 2 640 33  7  128 140  1 0 8 0  5 12\n"


def test_done_and_waiting_requests_are_read() -> None:
    """Merges, sectors and times are no progress."""
    assert progress_of(STATISTICS) == DiskProgress(completed=(120, 40, 1, 5), in_flight=7)


def test_kernels_before_5_5_count_no_flushes() -> None:
    """Nor did those before 4.18 count discards."""
    assert progress_of("120 3 8000 95 40 2 640 33 7 128 140") == DiskProgress((120, 40), 7)


@pytest.mark.parametrize("text", ["", "cat: no such file", "1 2 3"])
def test_what_is_no_statistics_says_nothing(text: str) -> None:
    """The disk is gone, or has another name."""
    assert progress_of(text) is None
    assert not stands_still(progress_of(STATISTICS), progress_of(text))


def test_a_disk_without_work_does_not_stand_still() -> None:
    """Its program computes, or waits for something else."""
    idle, waiting = DiskProgress((1, 1), 0), DiskProgress((1, 1), 3)
    assert not stands_still(idle, idle)
    assert not stands_still(idle, waiting)
    assert not stands_still(waiting, DiskProgress((1, 2), 3))
    assert stands_still(waiting, waiting)


def agent_with(program: Outcome, *looks: str) -> tuple[Agent, FakeHost]:
    """Return an agent on whose host fio ends so, and the disk shows this at each look, then the last for ever."""
    shown = list(looks)

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        if argv[0] == "fio":
            return program
        return Outcome(stdout=shown.pop(0) if len(shown) > 1 else shown[0])

    host = FakeHost()
    return Agent(FakeAgent(host, programs=programs, clock=VirtualClock(now=1))), host


def test_a_program_that_ends_is_given_with_its_output_and_times() -> None:
    """It took 25 s, in which the disk was looked at twice."""
    agent, host = agent_with(Outcome(stdout="all", duration_ns=25_000_000_000), STATISTICS)
    done = run_on_disk(agent, DISK, ("fio", "-"), "[job]")
    assert (done.succeeded, done.stdout, done.end_ns - done.begin_ns) == (True, "all", 25_000_000_000)
    assert [argv[0] for argv, _ in host.ran] == ["fio", "sh", "sh"]


def test_a_disk_that_answers_nothing_for_two_minutes_fails_the_trial() -> None:
    """It had answered something before; how many requests wait is said."""
    before = STATISTICS.replace("120", "119", 1)
    agent, host = agent_with(Outcome(duration_ns=HOUR_NS), before, STATISTICS)
    with pytest.raises(Failed) as failed:
        run_on_disk(agent, DISK, ("fio", "-"))
    assert failed.value.failure == DiskStandsStill(
        program="fio", machine="pc3", still_ns=120_000_000_000, in_flight=7
    )
    assert len(host.ran) == 1 + 2 + 12
    agent.start("disk-program", ("fio",))  # the id is free again: the program was ended


def test_a_program_that_never_ends_is_ended_after_half_an_hour() -> None:
    """The disk has nothing to do."""
    agent, _ = agent_with(Outcome(duration_ns=HOUR_NS), "1 0 0 0 1 0 0 0 0 0 0")
    with pytest.raises(Failed) as failed:
        run_on_disk(agent, DISK, ("fio", "-"))
    assert failed.value.failure == ProgramTooLong(
        program="fio", machine="pc3", limit_ns=HOUR_NS // 2, said=""
    )
