"""A program that works on a disk is waited for; a disk that completes nothing is noticed, and its server is named."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.agent.messages import Walls
from iolab.clock import VirtualClock
from iolab.experiment.model.measures import DiskMeasure
from iolab.messages.disks import (
    Condition,
    DiskServerFailed,
    DiskServerSilent,
    GuestKernel,
    IscsiTarget,
    NoReply,
    ProcessGone,
    ProcessStopped,
)
from iolab.messages.failures import Failure
from iolab.messages.programs import DiskStandsStill, ProgramTooLong
from iolab.trial.disk.measure import less_confined, walls_in_effect
from iolab.trial.disk.ran import Patience
from iolab.trial.disk.run_on_disk import DiskProgress, Watchdog, WorkedOn, progress_of, run_on_disk
from iolab.trial.disk.servers import Server, Silent
from iolab.trial.measurement import Failed, LabUnusable

S = 1_000_000_000
HOUR_NS = 3_600 * S
STATISTICS = "  120 3 8000 95  40 2 640 33  7  128 140  1 0 8 0  5 12\n"
IDLE = "1 0 0 0 1 0 0 0 0 0 0"
STAT = "/sys/devices/virtual/block/loop0/stat"
TARGET = IscsiTarget(volume="lun0", machine="pc3", program="tgtd")
SILENT = NoReply(ping="iSCSI login", waited_ns=3 * S)


def silent(condition: Condition) -> tuple[Silent, ...]:
    """Return that the target does not answer."""
    return (Silent(Server(TARGET), condition),)


@dataclass
class FakeServers:
    """Servers that answer or not, and remember that they were ended."""

    found: Sequence[Silent] = ()
    asked: int = 0
    ended: bool = False

    def ask(self, timeout_ms: int) -> Sequence[Silent]:
        """Return those that do not answer."""
        self.asked += 1
        return self.found

    def end(self, silent: Server) -> None:
        """Remember it."""
        self.ended = True

    def check_attached(self) -> None:
        """Nothing was detached."""


class Shown(dict[tuple[str | None, str], str]):
    """A file that shows another text at each look, then the last one for ever."""

    def __init__(self, *texts: str) -> None:
        super().__init__({(None, STAT): texts[-1]})
        self.left = list(texts)

    def get(self, key: tuple[str | None, str], default: object = None) -> str:
        """Return the next text."""
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


@dataclass
class Bench:
    """fio on an agent in memory."""

    program: Outcome
    looks: tuple[str, ...]
    servers: FakeServers = field(default_factory=FakeServers)

    def __post_init__(self) -> None:
        def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
            return self.program if argv[0] == "fio" else Outcome(stdout=STAT)

        host = FakeHost(settings=Shown(*self.looks))
        self.agent = Agent(FakeAgent(host, programs=programs, clock=VirtualClock(now=1)))

    @property
    def disk(self) -> WorkedOn:
        """The disk."""
        return WorkedOn("pc2", "/dev/iolab-lun0", self.servers)


class HungAgent(FakeAgent):
    """An agent in memory that receives one request and never answers it: its kernel hangs then."""

    hung_at = ""
    """Method of that request, and of all that follow."""
    ends = False
    """Its guest ends then, instead."""

    def send(self, line: str) -> None:
        """Answer until then."""
        if self.hung_at and f'"{self.hung_at}"' in line:
            self.hung_at = "method"
            if self.ends:
                self.kill()
            return
        super().send(line)


@pytest.mark.parametrize("method", ["process.wait", "command.run", "agent.ping", "setting.read"])
def test_a_guest_that_hangs_is_named_whichever_request_it_does_not_answer(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent is waited for no longer than a disk: a thirtieth of a second here."""
    monkeypatch.setattr("iolab.trial.disk.run_on_disk.HUNG_LIMIT_S", 0.01)
    failure = failure_of_guest(method, NoReply(ping="ping of its agent", waited_ns=3 * S), ends=False)
    assert isinstance(failure, DiskServerSilent)
    assert failure.server == GuestKernel(machine="pc2")


@pytest.mark.parametrize("method", ["process.start", "process.wait", "setting.read"])
def test_a_guest_that_ends_is_named_whichever_request_it_does_not_answer(method: str) -> None:
    """Its agent has gone with it."""
    failure = failure_of_guest(method, ProcessGone(), ends=True)
    assert isinstance(failure, DiskServerFailed)
    assert (failure.server, failure.condition) == (GuestKernel(machine="pc2"), ProcessGone())
    assert "the agent of pc2" in failure.output


def failure_of_guest(method: str, condition: Condition, *, ends: bool) -> Failure:
    """Return why a trial fails whose guest hangs, or ends, at a request."""
    servers = FakeServers((Silent(Server(GuestKernel(machine="pc2")), condition),))

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        return Outcome(duration_ns=HOUR_NS) if argv[0] == "fio" else Outcome(stdout=STAT)

    transport = HungAgent(FakeHost(settings=Shown(STATISTICS)), programs=programs, clock=VirtualClock(now=1))
    agent = Agent(transport, name="pc2")
    transport.hung_at, transport.ends = method, ends
    patience = Patience(look_ms=10, still_ns=S // 30)
    with pytest.raises(LabUnusable) as failed:
        run_on_disk(
            agent, WorkedOn("pc2", "/dev/iolab-lun0", servers, "pc2"), ("fio", "-"), patience=patience
        )
    assert failed.value.hung == {"pc2"}
    return failed.value.failure


def test_done_and_waiting_requests_are_read() -> None:
    """Merges and times are no progress; nor are requests that moved no sector, as those of a lost path."""
    assert progress_of(STATISTICS) == DiskProgress(completed=(8000, 640, 8, 5), in_flight=7)


def test_kernels_before_5_5_count_no_flushes() -> None:
    """Nor did those before 4.18 count discards."""
    assert progress_of("120 3 8000 95 40 2 640 33 7 128 140") == DiskProgress((8000, 640), 7)


@pytest.mark.parametrize("text", ["", "cat: no such file", "1 2 3"])
def test_what_is_no_statistics_is_no_progress(text: str) -> None:
    """The disk is gone, or has another name."""
    assert progress_of(text) is None


def test_a_program_that_ends_is_given_with_its_output_and_times() -> None:
    """It took 25 s, in which the disk completed something, and no server was asked."""
    looks = tuple(f"0 0 {number} 0 0 0 0 0 7 0 0" for number in range(60))
    bench = Bench(Outcome(stdout="all", duration_ns=25 * S), looks)
    done = run_on_disk(bench.agent, bench.disk, ("fio", "-"), "[job]")
    assert (done.succeeded, done.stdout, done.end_ns - done.begin_ns) == (True, "all", 25 * S)
    assert bench.servers.asked == 0


def test_a_confined_program_is_given_with_the_walls_around_it_and_a_command_of_iolab_has_none() -> None:
    """As the agent read them."""
    bench = Bench(Outcome("{}", duration_ns=S), (STATISTICS,))
    done = run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert done.walls == Walls(user=65_520, landlock_abi=7, seccomp=True)
    plain = run_on_disk(bench.agent, bench.disk, ("fio", "-"), reaches=None)
    assert plain.walls is None


@pytest.mark.parametrize(
    ("walls", "shown", "lacking"),
    [
        (Walls(user=65_520, landlock_abi=7, seccomp=True), ("65520", "7", "on"), None),
        (Walls(user=None, landlock_abi=None, seccomp=True), ("0", "none", "on"), ("Landlock",)),
        (Walls(user=65_520, landlock_abi=4, seccomp=False), ("65520", "4", "none"), ("seccomp",)),
        (
            Walls(user=65_520, landlock_abi=None, seccomp=False),
            ("65520", "none", "none"),
            ("Landlock", "seccomp"),
        ),
    ],
)
def test_a_trial_shows_its_walls_and_warns_of_those_that_the_kernel_has_not(
    walls: Walls, shown: tuple[str, ...], lacking: tuple[str, ...] | None
) -> None:
    """A user namespace without another user is no lack of the kernel."""
    assert tuple(walls_in_effect(walls).values()) == shown
    warnings = less_confined(DiskMeasure(kind="disk", program="fio", on="pc2"), walls)
    assert [one.lacking for one in warnings] == ([] if lacking is None else [lacking])
    for one in warnings:
        assert f"the kernel of pc2 lacks {', '.join(one.lacking)}, so fio was confined only by" in in_words(
            one
        )


@pytest.mark.parametrize("condition", [ProcessStopped(pid=7), SILENT])
def test_a_server_that_does_not_answer_for_20_s_fails_the_trial_within_30_and_is_ended(
    condition: Condition,
) -> None:
    """It had completed something before; server, what was seen of it, and how many requests wait are stated."""
    before = STATISTICS.replace("8000", "7992", 1)
    bench = Bench(Outcome(duration_ns=HOUR_NS), (before, STATISTICS), FakeServers(silent(condition)))
    with pytest.raises(LabUnusable) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    failure = failed.value.failure
    assert isinstance(failure, DiskServerSilent)
    assert (failure.server, failure.condition, failure.in_flight) == (TARGET, condition, 7)
    assert 20 * S <= failure.still_ns <= 25 * S
    assert bench.servers.ended
    bench.agent.start("disk-program", ("fio",))  # the id is free again: the program was ended


def test_a_server_that_has_ended_fails_the_trial_at_once() -> None:
    """It never answers again, so that nothing is waited for but the first question."""
    bench = Bench(Outcome(duration_ns=HOUR_NS), (STATISTICS,), FakeServers(silent(ProcessGone())))
    with pytest.raises(LabUnusable) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert isinstance(failed.value.failure, DiskServerSilent)
    assert failed.value.failure.still_ns <= 7 * S


def test_a_slow_disk_whose_servers_answer_is_waited_for_until_two_minutes_have_passed() -> None:
    """Then requests that wait are called stuck."""
    bench = Bench(Outcome(duration_ns=HOUR_NS), (STATISTICS,))
    with pytest.raises(Failed) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert isinstance(failed.value.failure, DiskStandsStill)
    assert 120 * S <= failed.value.failure.still_ns <= 122 * S
    assert bench.servers.asked > 10


def test_a_disk_that_completes_a_request_every_15_s_does_not_fail_though_its_server_is_silent_meanwhile() -> (
    None
):
    """A store behind it stalls again and again: each completion begins a new count."""
    looks = tuple(f"0 0 {second // 15} 0 0 0 0 0 7 0 0" for second in range(300))
    bench = Bench(Outcome(duration_ns=200 * S), looks, FakeServers(silent(SILENT)))
    assert run_on_disk(bench.agent, bench.disk, ("fio", "-")).succeeded


def test_a_program_without_requests_is_not_stuck_but_ended_after_half_an_hour() -> None:
    """The disk has nothing to do."""
    bench = Bench(Outcome(duration_ns=HOUR_NS), (IDLE,))
    with pytest.raises(Failed) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert failed.value.failure == ProgramTooLong(
        program="fio", machine="pc2", limit_ns=HOUR_NS // 2, said=""
    )


def test_one_connection_without_an_answer_is_tried_again() -> None:
    """The host may have been busy; a process that is stopped needs no second look."""
    watchdog, waiting = Watchdog(Patience(), moved_ns=0), DiskProgress((1,), 1)
    watchdog.look(0, waiting)
    assert watchdog.is_to_ask(20 * S)
    assert watchdog.answered(20 * S, silent(SILENT)) is None
    assert watchdog.is_to_ask(25 * S)
    assert watchdog.answered(25 * S, silent(SILENT)) == silent(SILENT)[0]
    watchdog.look(30 * S, DiskProgress((2,), 1))
    assert not watchdog.is_to_ask(34 * S)
    assert watchdog.is_to_ask(36 * S)
    assert watchdog.answered(36 * S, silent(ProcessStopped(pid=1))) is None
    assert watchdog.answered(51 * S, silent(ProcessStopped(pid=1))) is not None


def test_a_completion_while_servers_are_asked_counts() -> None:
    """The disk was slow, and its server was busy with just that."""
    watchdog = Watchdog(Patience(), moved_ns=0)
    watchdog.look(0, DiskProgress((1,), 1))
    assert watchdog.is_to_ask(20 * S)
    watchdog.look(22 * S, DiskProgress((2,), 1))
    assert watchdog.answered(22 * S, silent(ProcessStopped(pid=1))) is None
