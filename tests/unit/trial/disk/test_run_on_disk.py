"""A program on a disk is awaited; a disk without completions is detected, and its server is named."""

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
    """Return the condition of an unresponsive target."""
    return (Silent(Server(TARGET), condition),)


@dataclass
class FakeServers:
    """Servers that answer or not, and record that they were ended."""

    found: Sequence[Silent] = ()
    asked: int = 0
    ended: bool = False

    def ask(self, timeout_ms: int) -> Sequence[Silent]:
        """Return the unresponsive ones."""
        self.asked += 1
        return self.found

    def end(self, silent: Server) -> None:
        """Record the end."""
        self.ended = True

    def check_attached(self) -> None:
        """Accept: nothing was detached."""


class Shown(dict[tuple[str | None, str], str]):
    """A file with a different text at each read, then the last one."""

    def __init__(self, *texts: str) -> None:
        super().__init__({(None, STAT): texts[-1]})
        self.left = list(texts)

    def get(self, key: tuple[str | None, str], default: object = None) -> str:
        """Return the next text."""
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


@dataclass
class Bench:
    """fio on a fake agent."""

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
        """Return the disk."""
        return WorkedOn("pc2", "/dev/iolab-lun0", self.servers)


class HungAgent(FakeAgent):
    """A fake agent that never answers one request: its kernel hangs."""

    hung_at = ""
    """Method of the request that is never answered; no later request is answered either."""
    ends = False
    """Whether the guest ends instead."""

    def send(self, line: str) -> None:
        """Answer until then."""
        if self.hung_at and f'"{self.hung_at}"' in line:
            self.hung_at = "method"
            if self.ends:
                self.kill()
            return
        super().send(line)


@pytest.mark.parametrize("method", ["process.wait", "command.run", "agent.ping", "setting.read"])
def test_hanging_guest_is_named_whichever_request_it_leaves_unanswered(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait for the guest's agent no longer than for a disk: here a thirtieth of a second."""
    monkeypatch.setattr("iolab.trial.disk.run_on_disk.HUNG_LIMIT_S", 0.01)
    failure = failure_of_guest(method, NoReply(ping="ping of its agent", waited_ns=3 * S), ends=False)
    assert isinstance(failure, DiskServerSilent)
    assert failure.server == GuestKernel(machine="pc2")


@pytest.mark.parametrize("method", ["process.start", "process.wait", "setting.read"])
def test_ended_guest_is_named_whichever_request_it_leaves_unanswered(method: str) -> None:
    """Include the loss of its agent."""
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


def test_completed_and_pending_requests_are_parsed() -> None:
    """Exclude merges, times, and requests without a sector, as on a lost path."""
    assert progress_of(STATISTICS) == DiskProgress(completed=(8000, 640, 8, 5), in_flight=7)


def test_disk_statistics_of_old_kernels_without_flushes_are_parsed() -> None:
    """Check kernels before 5.5 without flushes, and before 4.18 without discards."""
    assert progress_of("120 3 8000 95 40 2 640 33 7 128 140") == DiskProgress((8000, 640), 7)


@pytest.mark.parametrize("text", ["", "cat: no such file", "1 2 3"])
def test_malformed_disk_statistics_give_no_progress(text: str) -> None:
    """Check a missing disk, and a renamed one."""
    assert progress_of(text) is None


def test_finished_program_returns_its_output_and_times() -> None:
    """Check 25 s with progress, in which no server is asked."""
    looks = tuple(f"0 0 {number} 0 0 0 0 0 7 0 0" for number in range(60))
    bench = Bench(Outcome(stdout="all", duration_ns=25 * S), looks)
    done = run_on_disk(bench.agent, bench.disk, ("fio", "-"), "[job]")
    assert (done.succeeded, done.stdout, done.end_ns - done.begin_ns) == (True, "all", 25 * S)
    assert bench.servers.asked == 0


def test_confinement_is_reported_for_a_program_and_not_for_an_iolab_command() -> None:
    """Report it as read by the agent."""
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
def test_trial_shows_the_confinement_and_warns_of_missing_kernel_features(
    walls: Walls, shown: tuple[str, ...], lacking: tuple[str, ...] | None
) -> None:
    """Accept a user namespace without a dedicated user."""
    assert tuple(walls_in_effect(walls).values()) == shown
    warnings = less_confined(DiskMeasure(kind="disk", program="fio", on="pc2"), walls)
    assert [one.lacking for one in warnings] == ([] if lacking is None else [lacking])
    for one in warnings:
        assert f"the kernel of pc2 lacks {', '.join(one.lacking)}, so fio was confined only by" in in_words(
            one
        )


@pytest.mark.parametrize("condition", [ProcessStopped(pid=7), SILENT])
def test_server_without_a_reply_for_20_s_fails_the_trial_within_30_s(
    condition: Condition,
) -> None:
    """State server, observation and pending requests after earlier completions; end the server."""
    before = STATISTICS.replace("8000", "7992", 1)
    bench = Bench(Outcome(duration_ns=HOUR_NS), (before, STATISTICS), FakeServers(silent(condition)))
    with pytest.raises(LabUnusable) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    failure = failed.value.failure
    assert isinstance(failure, DiskServerSilent)
    assert (failure.server, failure.condition, failure.in_flight) == (TARGET, condition, 7)
    assert 20 * S <= failure.still_ns <= 25 * S
    assert bench.servers.ended
    bench.agent.start("disk-program", ("fio",))  # the ID is free again: the program was ended


def test_ended_server_fails_the_trial_at_once() -> None:
    """Wait for nothing after the first check."""
    bench = Bench(Outcome(duration_ns=HOUR_NS), (STATISTICS,), FakeServers(silent(ProcessGone())))
    with pytest.raises(LabUnusable) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert isinstance(failed.value.failure, DiskServerSilent)
    assert failed.value.failure.still_ns <= 7 * S


def test_trial_waits_two_minutes_for_a_slow_disk_with_responding_servers() -> None:
    """Report pending requests as stuck then."""
    bench = Bench(Outcome(duration_ns=HOUR_NS), (STATISTICS,))
    with pytest.raises(Failed) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert isinstance(failed.value.failure, DiskStandsStill)
    assert 120 * S <= failed.value.failure.still_ns <= 122 * S
    assert bench.servers.asked > 10


def test_disk_that_completes_a_request_every_15_s_does_not_fail() -> None:
    """Restart the count at each completion, although the server is silent in between."""
    looks = tuple(f"0 0 {second // 15} 0 0 0 0 0 7 0 0" for second in range(300))
    bench = Bench(Outcome(duration_ns=200 * S), looks, FakeServers(silent(SILENT)))
    assert run_on_disk(bench.agent, bench.disk, ("fio", "-")).succeeded


def test_program_without_requests_is_ended_after_half_an_hour() -> None:
    """Do not report the idle disk as stuck."""
    bench = Bench(Outcome(duration_ns=HOUR_NS), (IDLE,))
    with pytest.raises(Failed) as failed:
        run_on_disk(bench.agent, bench.disk, ("fio", "-"))
    assert failed.value.failure == ProgramTooLong(
        program="fio", machine="pc2", limit_ns=HOUR_NS // 2, said=""
    )


def test_single_failed_connection_to_a_server_is_retried() -> None:
    """Allow for a busy host; report a stopped process at once."""
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


def test_completion_during_a_server_check_counts_as_progress() -> None:
    """Ignore a server's silence if the disk made progress."""
    watchdog = Watchdog(Patience(), moved_ns=0)
    watchdog.look(0, DiskProgress((1,), 1))
    assert watchdog.is_to_ask(20 * S)
    watchdog.look(22 * S, DiskProgress((2,), 1))
    assert watchdog.answered(22 * S, silent(ProcessStopped(pid=1))) is None
