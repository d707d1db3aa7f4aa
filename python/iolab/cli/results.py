"""The commands show, report and compare, which read run folders."""

import sys
import webbrowser
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import iolab
from iolab.cli.console import complain, in_words, say
from iolab.cli.console import words as words_spoken
from iolab.cli.language import Language
from iolab.cli.run_names import RunName, complete, locate
from iolab.cli.screen import console
from iolab.errors import ExitCode, InputError, Problem, StoreError
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.files import write_whole
from iolab.locale import ENGLISH, Phrase
from iolab.messages.notes import ExperimentEdited
from iolab.plan.planning import gives_plan
from iolab.plan.selection import asked_summaries
from iolab.printable import printable
from iolab.report.locale import Words
from iolab.store.read import experiment_text, load_run, read_packets
from iolab.store.records import EXPERIMENT, REDACTED, RunStatus, StoredRun, TrialRecord, records_folder
from iolab.units import format_bytes

if TYPE_CHECKING:
    from iolab.analysis.expectations import Judged
    from iolab.analysis.types import Analysis
    from iolab.store.pack import Packed

EXPECT = "expect"
"""Key of the expectations in an experiment file."""
MOST_LISTED = 12
"""Maximum number of trials that an error message lists."""
Overs = Annotated[list[str] | None, typer.Option("--over", metavar="FACTOR")]
Ratios = Annotated[list[str] | None, typer.Option("--ratio", metavar="FACTOR=LEVEL/LEVEL")]


class Rows(StrEnum):
    """Kind of the rows in a CSV report."""

    ESTIMATES = "estimates"
    TRIALS = "trials"
    LEVELS = "levels"
    LEVEL_RATIOS = "level-ratios"
    RATIOS = "ratios"
    LIMITS = "limits"
    DROPS = "drops"
    IN_EFFECT = "in-effect"


class Format(StrEnum):
    """The formats of a report, equal to the keys of `report.formats.FORMATS`, which is slow to import."""

    HTML = "html"
    MD = "md"
    CSV = "csv"
    XLSX = "xlsx"
    PUKIWIKI = "pukiwiki"
    OPENMETRICS = "openmetrics"
    CRATE = "crate"


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(show)
    app.command()(report)
    app.command()(compare)


def print_results(path: Path, screen: Console) -> ExitCode:
    """Print the result table of a run; return the exit status for its expectations."""
    from iolab.report import formats as reports  # numpy and scipy are slow to import

    run = load_run(path)
    analysis = _analysed(run)
    screen.print(reports.terminal(run, analysis, words_spoken()))
    return met(analysis)


def pack_at_end(path: Path) -> None:
    """Pack a large run that has ended. A failure is printed, and changes neither the figures nor the exit status."""
    from iolab.store.pack import is_packed_at_end, pack

    if load_run(path).status is not RunStatus.COMPLETE or not is_packed_at_end(path):
        return
    try:
        complain(packed_in_words(path, pack(path)))
    except KeyboardInterrupt:
        complain(Phrase("cli.packing-interrupted", path=path))
    except StoreError as error:
        complain(in_words(error))


def packed_in_words(path: Path, packed: "Packed") -> Phrase:
    """Return the effect of packing a run."""
    return Phrase(
        "cli.run-packed",
        folder=path,
        files_before=packed.files_before,
        files_after=packed.files_after,
        bytes_before=format_bytes(packed.bytes_before),
        bytes_after=format_bytes(packed.bytes_after),
    )


def _analysed(run: StoredRun) -> "Analysis":
    """Analyse a run; raw samples are read from its folder on demand."""
    from iolab.analysis import analyse
    from iolab.analysis.expectations import judge
    from iolab.analysis.path_product import swept_paths

    def experiment() -> Experiment:
        return parse(experiment_text(run.folder), str(run.folder / EXPERIMENT))

    found = analyse(run.trials, run.plan, partial(read_packets, run.folder))
    expectations: tuple[Judged, ...] = ()
    if expects(run):
        expected = parse(experiment_text(run.folder), str(run.folder / EXPERIMENT), stored=True).expectations
        expectations = judge(expected, run.trials, run.plan, found.leading)
    return replace(found, paths=swept_paths(run.plan, experiment), expectations=expectations)


def expects(run: StoredRun) -> bool:
    """Whether the experiment of a run may have expectations; most experiments have none, and need not be parsed
    again."""
    return EXPECT in experiment_text(run.folder)


def met(analysis: "Analysis") -> ExitCode:
    """Return the exit status for the expectations of a run."""
    from iolab.analysis.expectations import Result, overall

    codes = {Result.MET: ExitCode.DONE, Result.NOT_MET: ExitCode.NOT_MET}
    return codes.get(overall(analysis.expectations), ExitCode.NOT_DECIDED)


def show(
    run: RunName,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    trial: Annotated[str | None, typer.Option("--trial", metavar="KEY")] = None,
    over: Overs = None,
    ratio: Ratios = None,
    _lang: Language = ENGLISH,
) -> int:
    """Show the results of a run; the exit status says whether they are as expected."""
    from iolab.report import formats as reports  # numpy and scipy are slow to import

    words = words_spoken()
    if trial is not None:
        from iolab.store.series import read_series

        asked = load_run(locate(run))
        found = asked_trial(asked, trial)
        series = read_series(asked.folder, found.key)
        console().print(reports.trial_over_time(found, series, asked.plan, words))
        return ExitCode.DONE
    stored = _asked(load_run(locate(run)), over, ratio)
    analysis = _analysed(stored)
    if as_json:
        say(reports.show_json(stored, analysis, words))
    else:
        console().print(reports.terminal(stored, analysis, words))
    return met(analysis)


def asked_trial(run: StoredRun, key: str) -> TrialRecord:
    """Return the last trial whose key starts with the given text.

    Raises:
        InputError: no trial or several trials match.
    """
    last = {each.key: each for each in run.trials}
    found = [each for each in last.values() if each.key.startswith(key)]
    if len(found) == 1:
        return found[0]
    listed = [
        Phrase(
            "cli.trial-with-key",
            key=each.key,
            measure=each.measure,
            levels=", ".join([*each.cell.values(), ""]),
            block=each.block,
        )
        for each in list(found or last.values())[:MOST_LISTED]
    ]
    seen = Phrase("cli.trials-with-keys-beginning", count=len(found), key=repr(key))
    raise InputError(
        [
            Problem(
                run.name,
                Phrase("cli.choosing-a-trial"),
                seen,
                Phrase("cli.one-of-such-as", count=len(last), trials=listed),
            )
        ]
    )


def _asked(run: StoredRun, over: list[str] | None, ratio: list[str] | None) -> StoredRun:
    """Return the run with the requested summaries, or with its own summaries if none were requested."""
    asked = asked_summaries(over or (), ratio or (), run.plan)
    return replace(run, plan=replace(run.plan, summaries=asked)) if asked else run


def report(
    run: RunName,
    form: Annotated[Format, typer.Option("--format")] = Format.HTML,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="PATH")] = None,
    rows: Annotated[Rows, typer.Option("--rows")] = Rows.ESTIMATES,
    over: Overs = None,
    ratio: Ratios = None,
    _lang: Language = ENGLISH,
    show_it: Annotated[bool, typer.Option("--open")] = False,
) -> None:
    """Write the report of a run, and print its path."""
    from iolab.report import formats as reports  # numpy and scipy are slow to import

    path, words = locate(run), words_spoken()
    stored = _asked(load_run(path), over, ratio)
    analysis = _analysed(stored)
    experiment = parse(experiment_text(path), str(path / EXPERIMENT), stored=True)
    is_own_plan = (path / REDACTED).is_file() or gives_plan(experiment, stored.plan, stored.facts)
    if not is_own_plan:
        stored = replace(stored, notes=(*stored.notes, ExperimentEdited()))
    _refuse_unsuitable(form, output, stored)
    wanted = reports.Wanted(stored, analysis, experiment, iolab.__version__, rows.value, words)
    text = reports.FORMATS[form.value](wanted)
    if isinstance(text, str) and str(output) == "-":
        sys.stdout.write(
            f"{_printed(text.rstrip())}\n"
        )  # line ends are unchanged, because a program reads the output
        return
    target = output or path / reports.FILE_NAMES.get(form.value, f"report.{form.value}")
    try:
        write_whole(target, text)
    except OSError as error:
        raise StoreError(Phrase("cli.report-not-written", target=target, reason=error.strerror)) from error
    say(str(target))
    if show_it and not webbrowser.open(target.resolve().as_uri()):
        complain(Phrase("cli.no-browser-found", target=target))


def _refuse_unsuitable(form: Format, output: Path | None, run: StoredRun) -> None:
    """Raise InputError if a run or an output is unsuitable for a format: a workbook is not text, and a crate describes
    the files next to it."""
    is_printed = str(output) == "-"
    problem = None
    if form is Format.XLSX and is_printed:
        problem = Problem(
            "report", Phrase("cli.printing-a-workbook"), "-o -", Phrase("cli.output-to-workbook-file")
        )
    elif form is Format.CRATE and output is not None and not is_printed:
        problem = Problem(
            "report", Phrase("cli.writing-a-crate"), f"-o {output}", Phrase("cli.crate-without-output")
        )
    elif form is Format.CRATE and not (run.trials and records_folder(run.folder) == run.folder):
        seen = Phrase("cli.no-trials") if not run.trials else Phrase("store.a-revision")
        problem = Problem(run.name, Phrase("cli.writing-a-crate"), seen, Phrase("cli.run-with-trials"))
    if problem is not None:
        raise InputError([problem])


def _printed(text: str) -> str:
    """Return a text without terminal control characters; line ends of CSV are unchanged."""
    return "\r\n".join(printable(part) for part in text.split("\r\n"))


def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", show_default=False, autocompletion=complete)],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
    _lang: Language = ENGLISH,
) -> None:
    """Compare two runs cell by cell (B divided by A), or a run with published figures."""
    from iolab.analysis import compare as compare_runs
    from iolab.report import formats as reports

    if run_b.endswith(".csv"):
        if as_json:
            seen, allowed = Phrase("cli.json-with-published-figures"), Phrase("cli.two-runs")
            raise InputError(
                [Problem("--json", Phrase("cli.comparing-with-published-figures"), seen, allowed)]
            )
        _compare_published(load_run(locate(run_a)), Path(run_b), words_spoken())
        return
    first, second = load_run(locate(run_a)), load_run(locate(run_b))
    compared = compare_runs(first, second)
    if not compared.cells:
        seen = Phrase("cli.no-common-cells", name=first.name)
        raise InputError(
            [Problem(second.name, Phrase("cli.comparing-two-runs"), seen, Phrase("cli.cells-of-same-labels"))]
        )
    if as_json:
        say(reports.comparison_json(compared, words_spoken()))
        return
    console().print(reports.comparison(compared, words_spoken()))


def _compare_published(run: StoredRun, file: Path, words: Words) -> None:
    from iolab.analysis.published import lay_beside, wanted_summaries
    from iolab.analysis.published_file import parse_published
    from iolab.report import formats as reports

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        seen = (error.strerror or str(error)) if isinstance(error, OSError) else Phrase("cli.not-utf-8")
        allowed = Phrase("cli.csv-of-published-figures")
        raise InputError(
            [Problem(str(file), Phrase("cli.opening-published-figures"), seen, allowed)]
        ) from error
    figures = parse_published(text, str(file))
    run = replace(run, plan=replace(run.plan, summaries=wanted_summaries(figures, run.plan)))
    found = lay_beside(
        figures, file.name, run.name, run.plan, _analysed(run), functional=reports.is_functional(run.trials)
    )
    console().print(reports.beside_published(found, words))
