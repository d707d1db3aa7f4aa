"""The formats of a report, a function each, and the table of them: what the commands call. Nothing is printed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from iolab.analysis.types import Analysis
from iolab.experiment.experiment import Experiment
from iolab.report import readme, spreadsheet
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
    """Render a run as one HTML file that fetches nothing.

    `read_series` gives the series of a trial by its key, `read_stacks` its profiles by machine, as folded stacks.
    """
    from iolab.report.page import render  # the charts' JavaScript is slow to load

    return render.page(run, analysis, experiment, version, read_series, read_stacks, words)


def markdown(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,
    words: Words = EN,
) -> str:
    """Render a run as Markdown for a repository or a pull request."""
    return readme.text(run, analysis, version, words)


def pukiwiki(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,
    words: Words = EN,
) -> str:
    """Render a run as a page of PukiWiki."""
    return readme.text(run, analysis, version, words, PukiWiki())


def xlsx(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,  # noqa: ARG001
    version: str,
    words: Words = EN,
) -> bytes:
    """Render a run as a workbook: a sheet per table."""
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
    """Render a run as CSV: a row per estimate, trial, ratio of directions, verdict or drop."""
    return spreadsheet.table(run, analysis, rows, words)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A report that is asked for."""

    run: StoredRun
    analysis: Analysis
    experiment: Experiment
    version: str
    """Of iolab."""
    rows: spreadsheet.Rows
    """What a row of a CSV is."""
    words: Words
    """Its language."""

    def by(self, write: Callable[[StoredRun, Analysis, Experiment, str, Words], str | bytes]) -> str | bytes:
        """Return it as a function writes it that needs nothing else."""
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
    }
)
"""By the name that `--format` has for each, which is its file's suffix as well."""
