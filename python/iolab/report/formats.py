"""The report formats: a function per format, and the table of formats for the commands. Nothing is printed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from iolab.analysis.types import Analysis
from iolab.experiment.experiment import Experiment
from iolab.report import crate, openmetrics, readme, spreadsheet
from iolab.report.console import terminal
from iolab.report.interchange import comparison_json, show_json
from iolab.report.locale import EN, Words
from iolab.report.readme import PukiWiki
from iolab.report.sentences import is_functional
from iolab.report.side_by_side import beside_published, beside_published_text, comparison, comparison_text
from iolab.report.wire import trial_over_time
from iolab.results.series import Series
from iolab.store.read import stacks_of
from iolab.store.records import StoredRun
from iolab.store.series import series_of

__all__ = [
    "FILE_NAMES",
    "FORMATS",
    "Wanted",
    "beside_published",
    "beside_published_text",
    "comparison",
    "comparison_json",
    "comparison_text",
    "csv",
    "html",
    "is_functional",
    "markdown",
    "pukiwiki",
    "show_json",
    "terminal",
    "trial_over_time",
    "xlsx",
]


def html(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,
    version: str,
    read_series: Callable[[str], Sequence[Series]] = lambda _: (),
    words: Words = EN,
    read_stacks: Callable[[str], Mapping[str, str]] = lambda _: {},
) -> str:
    """Return a run as one HTML file without external resources.

    `read_series` returns the series of the trial with a key; `read_stacks` returns its profiles as folded stacks, by
    machine.
    """
    from iolab.report.page import render  # the JavaScript of the charts is slow to import

    return render.page(run, analysis, experiment, version, read_series, read_stacks, words)


def markdown(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,
    words: Words = EN,
) -> str:
    """Return a run as Markdown for a repository or a pull request."""
    return readme.text(run, analysis, version, words)


def pukiwiki(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,
    words: Words = EN,
) -> str:
    """Return a run as a PukiWiki page."""
    return readme.text(run, analysis, version, words, PukiWiki())


def xlsx(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,
    words: Words = EN,
) -> bytes:
    """Return a run as a workbook with a sheet per table."""
    from iolab.report.workbook import workbook

    return workbook(run, analysis, version, words)


def csv(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,  # noqa: ARG001
    rows: spreadsheet.Rows = "estimates",
    words: Words = EN,
) -> str:
    """Return a run as CSV: a row per estimate, trial, ratio of directions, verdict or drop."""
    return spreadsheet.table(run, analysis, rows, words)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Parameters with which a report is requested."""

    run: StoredRun
    analysis: Analysis
    experiment: Experiment
    version: str
    """Version of iolab."""
    rows: spreadsheet.Rows
    """Which rows a CSV report contains."""
    words: Words
    """Language of the report."""

    def by(self, write: Callable[[StoredRun, Analysis, Experiment, str, Words], str | bytes]) -> str | bytes:
        """Return the report from a format function that needs no further parameters."""
        return write(self.run, self.analysis, self.experiment, self.version, self.words)


def _page(wanted: Wanted) -> str:
    run = wanted.run
    return html(
        run,
        wanted.analysis,
        wanted.experiment,
        wanted.version,
        series_of(run.folder),
        wanted.words,
        stacks_of(run.folder),
    )


FORMATS: Mapping[str, Callable[[Wanted], str | bytes]] = MappingProxyType(
    {
        "html": _page,
        "md": lambda wanted: wanted.by(markdown),
        "csv": lambda wanted: csv(
            wanted.run, wanted.analysis, wanted.experiment, wanted.version, wanted.rows, wanted.words
        ),
        "xlsx": lambda wanted: wanted.by(xlsx),
        "pukiwiki": lambda wanted: wanted.by(pukiwiki),
        "openmetrics": lambda wanted: openmetrics.text(wanted.run, wanted.analysis, wanted.version),
        "crate": lambda wanted: crate.metadata(wanted.run, wanted.version, wanted.words),
    }
)
"""Format functions by their names in `--format`."""
FILE_NAMES: Mapping[str, str] = {"crate": crate.METADATA}
"""Names of the files in run folders, by format; other formats are written to `report.FORMAT`."""
