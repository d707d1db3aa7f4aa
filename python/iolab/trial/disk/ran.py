"""What runs a disk program, and what the program gave on a standing lab, whichever program it was."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from iolab.agent.answers import CommandResult
from iolab.agent.client import Agent
from iolab.agent.messages import Json, Walls
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.frozen import frozen
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metric
from iolab.results.series import Series
from iolab.results.trial import CommandRecord
from iolab.trial.disk.disk_programs import definition_of, row_of
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.ledger import Ledger, Way
from iolab.trial.disk.own import Residency
from iolab.trial.lab_access import Site
from iolab.units import NS_PER_S

PATIENCE_MS = 300_000
"""A look at a cache or a log is over in seconds; a cache of many GB on a busy computer takes longer."""
SLACK_S = 30.0
"""Of the answer, beyond that."""
CAPTURE_BYTES = 4 << 20
"""Of each output, what is kept."""


@frozen
class Patience:
    """How long a program is waited for."""

    look_ms: int = 1_000
    """From one look at the disk to the next."""
    ask_ns: int = 5 * NS_PER_S
    """A disk that has completed nothing for so long has its servers asked, and again each time after that."""
    ask_ms: int = 3_000
    """For them to answer."""
    still_ns: int = 20 * NS_PER_S
    """A disk that has completed nothing for so long, and whose server does not answer, never will."""
    slow_ns: int = 120 * NS_PER_S
    """The same of a disk whose servers answer: open-iscsi too gives a session up after 120 s."""
    longest_ns: int = 1_800 * NS_PER_S
    """Beyond it a program is called stuck."""


PATIENCE = Patience()
"""With every trial of a run."""


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


Running = Callable[[Residency | None], Ran]
"""Runs the program, given what the cache had of the device just before."""


class Runner(ABC):
    """What runs a disk program: a row of the registry names one."""

    @abstractmethod
    def ready(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience
    ) -> AbstractContextManager[Running]:
        """Prepare what the program measures, and take it away afterwards."""

    def reads_device(self, measure: DiskMeasure) -> bool:
        """Return whether the program reads the disk itself through the page cache, as hdparm does."""
        return row_of(measure).reads_device

    def way(self, measure: DiskMeasure, disk: Disk) -> Way:
        """Return what lies between the program and its device."""
        row = row_of(measure)
        return Way(
            direct=row.direct or definition_of(measure).get("direct") is True,
            file_system=disk.fs is not None,
            door=disk.via == "user",
            claimed=row.claims_device,
        )


class PlainRunner(Runner):
    """What runs a program that needs nothing prepared."""

    @abstractmethod
    def run(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience, device: Residency | None
    ) -> Ran:
        """Run the program; `device` is what the cache had of the disk just before.

        Raises:
            TrialFailed: it failed, or its output is not to be understood.
            AgentError: an agent refused it, or is gone.
        """

    def ready(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience
    ) -> AbstractContextManager[Running]:
        """See Runner."""
        return nullcontext(partial(self.run, site, measure, disk, patience))


def own_program(agent: Agent) -> str:
    """Return the agent's own program, as its programs find it."""
    return f"/proc/{agent.hello.pid}/exe"


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
