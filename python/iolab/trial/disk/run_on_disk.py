"""A program that works on a disk, run to its end, or until it is clear that it will not come: the disk stands still."""

import contextlib
from dataclasses import dataclass

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import CommandResult, ProcessEnded
from iolab.errors import AgentError
from iolab.statements.program_failures import DiskStandsStill, ProgramTooLong
from iolab.trial.disk.ran import CAPTURE_BYTES
from iolab.trial.failed import Failed

PROCESS = "disk-program"
END_GRACE_MS = 1_000
NS_PER_MS = 1_000_000
SHOW_STATISTICS = 'cat "/sys/class/block/$(basename "$(readlink -f "$0")")/stat"'
"""Of the kernel's Documentation/block/stat.rst, whatever name the disk has."""
COMPLETED, IN_FLIGHT = (0, 4, 11, 15), 8
"""Columns: reads, writes, discards and flushes that are done; requests that are under way."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a program is waited for."""

    look_ms: int = 10_000
    """From one look at the disk to the next."""
    still_looks: int = 12
    """A disk that answered nothing for so many looks never will: open-iscsi too gives a session up after 120 s."""
    most_looks: int = 180
    """Beyond half an hour a program is called stuck."""


PATIENCE = Patience()
"""With every trial of a run."""


@dataclass(frozen=True, slots=True)
class WorkedOn:
    """The disk that a program works on."""

    machine: str
    """Whose it is."""
    node: str
    """Where its kernel has it."""


@dataclass(frozen=True, slots=True)
class DiskProgress:
    """How far a disk has come."""

    completed: tuple[int, ...]
    """Requests done, of each kind."""
    in_flight: int
    """Requests that it has not answered."""


def run_on_disk(
    agent: Agent,
    disk: WorkedOn,
    argv: tuple[str, ...],
    request: str = "",
    patience: Patience = PATIENCE,
    before: tuple[str, ...] = (),
) -> CommandResult:
    """Run a program that works on a disk, with `request` as its input, to its end.

    `before`: words that stand before it, by which its memory is limited.

    Raises:
        Failed: the disk answers nothing any more, or the program does not end.
        AgentError: the agent refused it, or is gone.
    """
    agent.start(PROCESS, (*before, *argv), stdin=request, capture_bytes=CAPTURE_BYTES)
    try:
        return _result(_awaited(agent, disk, argv[0], patience))
    except BaseException:  # also where the run is interrupted: its lab could not be taken down beside it
        with contextlib.suppress(AgentError):
            # One that waits for the disk cannot even be killed: its end is the disk's business then.
            agent.call("process.stop", {"id": PROCESS, "grace_ms": END_GRACE_MS})
        raise


def _awaited(agent: Agent, disk: WorkedOn, program: str, patience: Patience) -> ProcessEnded:
    """Wait for the program's end. Raises Failed, AgentError."""
    still, before = 0, None
    for _ in range(patience.most_looks):
        if (ended := _ended(agent, patience.look_ms)) is not None:
            return ended
        now = progress_of(agent.run(("sh", "-c", SHOW_STATISTICS, disk.node)).stdout)
        still = still + 1 if stands_still(before, now) else 0
        if still >= patience.still_looks and now is not None:
            raise Failed(
                DiskStandsStill(
                    program=program,
                    machine=disk.machine,
                    still_ns=still * patience.look_ms * NS_PER_MS,
                    in_flight=now.in_flight,
                )
            )
        before = now
    limit_ns = patience.most_looks * patience.look_ms * NS_PER_MS
    raise Failed(ProgramTooLong(program=program, machine=disk.machine, limit_ns=limit_ns, said=""))


def progress_of(text: str) -> DiskProgress | None:
    """Return what a disk's statistics say; None: they are not to be understood."""
    words = text.split()
    if len(words) <= IN_FLIGHT or not all(word.isdecimal() for word in words):
        return None
    numbers = [int(word) for word in words]
    return DiskProgress(tuple(numbers[at] for at in COMPLETED if at < len(numbers)), numbers[IN_FLIGHT])


def stands_still(before: DiskProgress | None, now: DiskProgress | None) -> bool:
    """Tell whether a disk had work at both looks, and did none of it."""
    if before is None or now is None:
        return False
    return before.in_flight > 0 and now.in_flight > 0 and before.completed == now.completed


def _ended(agent: Agent, look_ms: int) -> ProcessEnded | None:
    """Wait until the next look; None: the program goes on."""
    try:
        return agent.wait(PROCESS, look_ms)
    except Refused as error:
        if not error.is_deadline:
            raise
        return None


def _result(ended: ProcessEnded) -> CommandResult:
    return CommandResult(
        exit_status=ended.exit_status,
        signal=ended.signal,
        timed_out=False,
        stdout=ended.stdout,
        stderr=ended.stderr,
        stdout_dropped_bytes=ended.stdout_dropped_bytes,
        stderr_dropped_bytes=ended.stderr_dropped_bytes,
        begin_ns=ended.begin_ns,
        end_ns=ended.end_ns,
    )
