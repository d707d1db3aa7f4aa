"""What a disk program gave on a standing lab, whichever program it was; and how programs are run there."""

from collections.abc import Callable, Mapping

from iolab.agent.client import Agent
from iolab.agent.messages import CommandResult, Json, Walls
from iolab.frozen import frozen
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metric
from iolab.results.series import Series
from iolab.results.trial import CommandRecord
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.ledger import Ledger

PATIENCE_MS = 300_000
"""A look at a cache or a log is over in seconds; a cache of many GB on a busy computer takes longer."""
SLACK_S = 30.0
"""Of the answer, beyond that."""
CAPTURE_BYTES = 4 << 20
"""Of each output, what is kept."""


@frozen(kw_only=True)
class ConfinedResult(CommandResult):
    """A program that worked on a disk, and ran to its end."""

    walls: Walls | None
    """What it was limited by; None: it was not confined."""


@frozen(kw_only=True)
class Ran:
    """What one program gave."""

    figures: tuple[DiskFigure, ...]
    """Its phases."""
    proved: bool
    """Whether the cache of its own kernel was seen to be as declared."""
    commands: tuple[CommandRecord, ...]
    """What was run, with its times."""
    prepared: tuple[CommandRecord, ...] = ()
    """What was run before, to write what it measures."""
    walls: Walls | None
    """What the program that measured was limited by."""
    said: Mapping[str, Json]
    """What it was asked and what it printed, whole."""
    warnings: tuple[TrialWarning, ...] = ()
    """What to know about the figures."""
    metrics: tuple[Metric, ...] = ()
    """What it gave beside its phases."""
    ledgers: tuple[Ledger, ...] = ()
    """Of each run of a job file that has several; empty: one of the whole trial says as much."""
    series: Callable[[int], tuple[Series, ...]] | None = None
    """Its rates over time, given when the trial began to measure [ns, monotonic]; None: it has none."""


def run_to_end(agent: Agent, argv: tuple[str, ...], request: str = "") -> CommandResult:
    """Run a program that looks at something, with `request` as its input, to its end. Raises AgentError."""
    asked: dict[str, Json] = {
        "argv": list(argv),
        "stdin": request,
        "timeout_ms": PATIENCE_MS,
        "capture_bytes": CAPTURE_BYTES,
    }
    return agent.ask(CommandResult, "command.run", asked, PATIENCE_MS / 1000 + SLACK_S)


def recorded(machine: str, kernel: str, argv: tuple[str, ...], done: CommandResult) -> CommandRecord:
    """Return the line of commands.jsonl of a program that ran."""
    return CommandRecord(
        machine=machine, kernel=kernel, netns=None, argv=argv, undo=None,
        exit_status=done.exit_status, duration_ns=done.end_ns - done.begin_ns,
    )  # fmt: skip
