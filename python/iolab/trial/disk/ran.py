"""Define the runner of a disk program, and its result, independent of the program."""

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
"""Time limit of a cache or log check [ms]; checks take seconds, and longer for a cache of many GB on a busy host."""
SLACK_S = 30.0
"""Additional time for the agent's reply [s]."""
CAPTURE_BYTES = 4 << 20
"""Maximum number of bytes kept of each output."""


@frozen
class Patience:
    """Time limits for disk programs."""

    look_ms: int = 1_000
    """Period of progress checks [ms]."""
    ask_ns: int = 5 * NS_PER_S
    """Time without completed requests after which the disk's servers are checked, and period of further checks
    [ns]."""
    ask_ms: int = 3_000
    """Time limit for a server's reply [ms]."""
    still_ns: int = 20 * NS_PER_S
    """Time without completed requests after which a disk whose server does not answer has failed [ns]."""
    slow_ns: int = 120 * NS_PER_S
    """Time without completed requests after which a disk whose servers answer has failed [ns]; open-iscsi also uses
    120 s."""
    longest_ns: int = 1_800 * NS_PER_S
    """Maximum run time of a program [ns]."""


PATIENCE = Patience()
"""Time limits of all trials in a run."""


@frozen(kw_only=True)
class ConfinedResult(CommandResult):
    """Result of a program that ran to its end on a disk."""

    walls: Walls | None
    """Confinement of the program; None: not confined."""


@frozen(kw_only=True)
class Ran:
    """Result of one program."""

    figures: tuple[DiskFigure, ...]
    """Phases."""
    proved: bool
    """Whether the page cache of the program's kernel was in the declared state."""
    commands: tuple[CommandRecord, ...]
    """Commands with their times."""
    prepared: tuple[CommandRecord, ...] = ()
    """Commands that wrote the measured data before the program ran."""
    walls: Walls | None
    """Confinement of the measuring program; None: not confined."""
    said: Mapping[str, Json]
    """Raw request and output."""
    warnings: tuple[TrialWarning, ...] = ()
    """Warnings about the figures."""
    metrics: tuple[Metric, ...] = ()
    """Additional metrics."""
    ledgers: tuple[Ledger, ...] = ()
    """Layer comparisons of each run of a job file with several runs; empty: one comparison covers the whole trial."""
    series: Callable[[int], tuple[Series, ...]] | None = None
    """Function that returns the rates over time, given the start of the measurement [ns, monotonic clock]; None: no
    rates over time exist."""


Running = Callable[[Residency | None], Ran]
"""Function that runs the program, given the cache content of the device just before the start."""


class Runner(ABC):
    """Runner of a disk program, to which a registry row refers."""

    @abstractmethod
    def ready(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience
    ) -> AbstractContextManager[Running]:
        """Prepare the measured data, and remove it afterwards."""

    def reads_device(self, measure: DiskMeasure) -> bool:
        """Whether the program reads the disk itself through the page cache, as hdparm does."""
        return row_of(measure).reads_device

    def way(self, measure: DiskMeasure, disk: Disk) -> Way:
        """Return the layers between the program and its device."""
        row = row_of(measure)
        return Way(
            direct=row.direct or definition_of(measure).get("direct") is True,
            file_system=disk.fs is not None,
            door=disk.via == "user",
            claimed=row.claims_device,
        )


class PlainRunner(Runner):
    """Runner of a program that needs no preparation."""

    @abstractmethod
    def run(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience, device: Residency | None
    ) -> Ran:
        """Run the program; `device` is the cache content of the device just before the program starts.

        Raises:
            TrialFailed: the program failed, or its output is invalid.
            AgentError: an agent refused the request, or is lost.
        """

    def ready(
        self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience
    ) -> AbstractContextManager[Running]:
        """See Runner."""
        return nullcontext(partial(self.run, site, measure, disk, patience))


def own_program(agent: Agent) -> str:
    """Return the path of the agent's program for its child processes."""
    return f"/proc/{agent.hello.pid}/exe"


def run_to_end(agent: Agent, argv: tuple[str, ...], request: str = "") -> CommandResult:
    """Run a short program, such as a check, to its end, with `request` as input. Raises AgentError."""
    asked: dict[str, Json] = {
        "argv": list(argv),
        "stdin": request,
        "timeout_ms": PATIENCE_MS,
        "capture_bytes": CAPTURE_BYTES,
    }
    return agent.ask(CommandResult, "command.run", asked, PATIENCE_MS / 1000 + SLACK_S)


def recorded(machine: str, kernel: str, argv: tuple[str, ...], done: CommandResult) -> CommandRecord:
    """Return the record of a finished program for commands.jsonl."""
    return CommandRecord(
        machine=machine, kernel=kernel, netns=None, argv=argv, undo=None,
        exit_status=done.exit_status, duration_ns=done.end_ns - done.begin_ns,
    )  # fmt: skip
