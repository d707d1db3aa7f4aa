"""The progress of a run: a live line on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from iolab.cli.console import in_words, words
from iolab.locale import Phrase, Text
from iolab.plan.types import Plan, Step
from iolab.printable import printable
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
"""Units of disk rates."""


def _left(time: str) -> str:
    """Return the remaining time as text."""
    return in_words(Phrase("run.time-left", time=time))


class LiveProgress:
    """A progress bar with the current cell, completed trials and remaining time.

    Unsuccessful trials remain on the screen.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(in_words(Phrase("run.starting")), total=None, left=_left("?"))

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
        self._bar.update(
            self._task, description=describe_step(step, cell), left=_left(format_duration(left_ns))
        )

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self._bar.advance(self._task)
        if record.result.status is not Status.OK:
            self._console.print(escape(in_words(describe_record(record))), highlight=False, soft_wrap=True)

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""
        self._bar.update(self._task, description=in_words(describe_start(names)))


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
        """Do nothing: there is no display to remove."""

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """See Observer."""
        self._total, self._done = steps + already, already
        self._say(Phrase("run.trials-to-do", count=steps, done=already))

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """See Observer."""

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self._done += 1
        left = format_duration(left_ns)
        record_in_short = describe_record(record)
        self._say(
            Phrase("run.trial-done-of", done=self._done, total=self._total, left=left, trial=record_in_short)
        )

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""
        self._say(describe_start(names))

    def _say(self, text: Text) -> None:
        self._console.print(escape(in_words(text)), highlight=False, soft_wrap=True)


def describe_start(names: Sequence[str]) -> Text:
    """Return one line about guests that are about to be started."""
    return Phrase("run.starting-guests", guests=names)


def describe_step(step: Step, cell: Mapping[str, str]) -> str:
    """Return one line that identifies a trial."""
    return printable(in_words(trial_in_block(step.block, step.measure, cell)))


def trial_in_block(block: int, measure: str, cell: Mapping[str, str]) -> Phrase:
    """Return the number of a trial in its block as text."""
    levels = ", ".join(f"{factor}={label}" for factor, label in cell.items())
    return Phrase("run.trial-in-block", block=block, trial=f"{measure} {levels}".rstrip())


def describe_record(record: TrialRecord) -> Text:
    """Return one line about the result of a trial."""
    name = trial_in_block(record.block, record.measure, record.cell)
    if record.result.status is not Status.OK:
        return Phrase(
            "run.trial-went-wrong",
            trial=name,
            status=record.result.status.value,
            reason=words().said.say_any(record.result.reason),
        )
    received, forwarded = map(record.result.metrics.get, ("received_bps", "forwarded_fps"))
    if received is not None:
        return Phrase("run.rate-received", trial=name, rate=format_bits_per_second(received.value))
    if forwarded is not None:
        rate = format_frames_per_second(forwarded.value)
        return Phrase(
            "run.rate-forwarded",
            trial=name,
            rate=words().text("at_least", figure=rate) if forwarded.limited_by else rate,
        )
    rates = {one.quantity: one.value for one in record.result.metrics if one.name in DISK_RATES}
    if rates:
        from iolab.analysis.analyse import leading_metric  # slow to import: not before the first trial

        leads = leading_metric(rates, record.kind)
        return Phrase(
            "errors.failed-with-reason",
            what=name,
            reason=f"{leads.dimensions.part} {DISK_RATES[leads.name](rates[leads])}",
        )
    return Phrase("run.trial-is-ok", trial=name)
