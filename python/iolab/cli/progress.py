"""How a run looks while it goes on: a live line on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from iolab.plan.types import Plan, Step
from iolab.printable import printable
from iolab.report.locale import EN
from iolab.results.trial import Status
from iolab.store.records import TrialRecord
from iolab.units import (
    format_bits_per_second,
    format_bytes_per_second,
    format_duration,
    format_frames_per_second,
)

DISK_RATES: Mapping[str, Callable[[float], str]] = {
    "disk_bytes_per_s": format_bytes_per_second,
    "disk_operations_per_s": "{:.0f} op/s".format,
}
"""How a disk program's rates are written."""


class LiveProgress:
    """A bar with the current cell, trials done and time left; trials that went wrong stay on the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]} left"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, left="?")

    def __enter__(self) -> "LiveProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """See Observer."""
        self._bar.update(self._task, total=steps + already, completed=already)

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """See Observer."""
        self._bar.update(self._task, description=describe_step(step, cell), left=format_duration(left_ns))

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self._bar.advance(self._task)
        if record.result.status is not Status.OK:
            self._console.print(escape(describe_record(record)), highlight=False, soft_wrap=True)

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""
        self._bar.update(self._task, description=describe_start(names))


class PlainProgress:
    """One line per trial, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._done = 0

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put away."""

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """See Observer."""
        self._total, self._done = steps + already, already
        self._say(f"trials to do: {steps}, done before: {already}")

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """See Observer."""

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self._done += 1
        self._say(f"[{self._done}/{self._total}, {format_duration(left_ns)} left] {describe_record(record)}")

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""
        self._say(describe_start(names))

    def _say(self, text: str) -> None:
        self._console.print(escape(text), highlight=False, soft_wrap=True)


def describe_start(names: Sequence[str]) -> str:
    """Return one line for guests that are about to be started."""
    return f"starting {', '.join(names)}"


def describe_step(step: Step, cell: Mapping[str, str]) -> str:
    """Return one line that names a trial."""
    levels = ", ".join(f"{factor}={label}" for factor, label in cell.items())
    return printable(f"block {step.block} {step.measure} {levels}".rstrip())


def describe_record(record: TrialRecord) -> str:
    """Return one line that tells how a trial ended."""
    levels = ", ".join(f"{factor}={label}" for factor, label in record.cell.items())
    name = f"block {record.block} {record.measure} {levels}".rstrip()
    if record.result.status is not Status.OK:
        return f"{name}: {record.result.status.value}: {EN.said.say_any(record.result.reason)}"
    received, forwarded = map(record.result.metrics.get, ("received_bps", "forwarded_fps"))
    if received is not None:
        return f"{name}: {format_bits_per_second(received.value)} received"
    if forwarded is not None:
        rate = format_frames_per_second(forwarded.value)
        return f"{name}: {EN.text('at_least', figure=rate) if forwarded.limited_by else rate} forwarded"
    rates = {one.quantity: one.value for one in record.result.metrics if one.name in DISK_RATES}
    if rates:
        from iolab.analysis.analyse import leading_metric  # slow to load: not before the first trial

        leads = leading_metric(rates, record.kind)
        return f"{name}: {leads.dimensions.part} {DISK_RATES[leads.name](rates[leads])}"
    return f"{name}: ok"
