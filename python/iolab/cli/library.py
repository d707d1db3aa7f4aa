"""The commands pack and library, for runs that are kept."""

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iolab.cli.console import complain, in_words, say, spoken
from iolab.cli.language import Language
from iolab.cli.options import seconds
from iolab.cli.results import packed_in_words
from iolab.cli.run_names import RunName, RunNames, locate
from iolab.cli.screen import console
from iolab.clock import SystemClock
from iolab.errors import ExitCode, InputError, Problem, StoreError
from iolab.files import write_whole
from iolab.locale import ENGLISH, Phrase
from iolab.printable import printable
from iolab.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from iolab.analysis.history import History

Folder = Annotated[Path, typer.Option("--library", "-l", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json")]
LIBRARY = Path("library")
"""Default folder of the library."""
LIST_SCHEMA = 1
"""Version of `library list --json`."""
MOST_LISTED = 12
"""Maximum number of measures that an error message lists."""

group = typer.Typer()


def _bytes(text: str | int) -> int:
    """Return a size option in bytes."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(in_words(error)) from error


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("pack")(pack_run)
    group.command("add")(add_runs)
    group.command("list")(list_library)
    group.command("query")(query_library)
    group.command("history")(history_of)
    group.command("check")(check_library)
    group.command("compact")(compact_library)
    app.add_typer(group, name="library")


def pack_run(run: RunName, _lang: Language = ENGLISH) -> None:
    """Pack a run: few files instead of two per trial, and the figures as Parquet tables."""
    from iolab.store.pack import pack

    path = locate(run)
    say(packed_in_words(path, pack(path)))


def add_runs(runs: RunNames, library: Folder = LIBRARY, _lang: Language = ENGLISH) -> None:
    """Add runs to a library; for runs that are already in the library, add their new trials."""
    from iolab.store.library.adding import State, add
    from iolab.store.run_tables import open_run

    for path in [locate(run) for run in runs]:
        added = add(library, open_run(path))
        manifest = added.manifest
        if added.state is State.ADDED and manifest is not None:
            rows = sum(part.rows for part in manifest.parts if part.table == "trials")
            say(Phrase("library.added", name=path.name, trials=manifest.trials, rows=rows))
        elif added.state is State.REMOVED:
            say(Phrase("library.run-was-removed", name=path.name))
        else:
            trials = open_run(path).identity.trials if manifest is None else manifest.trials
            say(Phrase("library.exists", name=path.name, trials=trials))


def list_library(library: Folder = LIBRARY, as_json: AsJson = False, _lang: Language = ENGLISH) -> None:
    """List the runs in a library."""
    from iolab.store.library.checkpoints import contents

    runs = contents(library).runs
    if as_json:
        rows = [
            {
                "run": each.run,
                "name": each.name,
                "title": each.title,
                "trials": each.trials,
                "host_class": each.host_class,
                "hosts": each.hosts,
            }
            for each in runs
        ]
        say(json.dumps({"schema": LIST_SCHEMA, "runs": rows}, ensure_ascii=False))
        return
    for each in sorted(runs, key=lambda run: run.name):
        say(
            Phrase(
                "library.run-in-library",
                run=each.run,
                trials=each.trials,
                hosts=each.host_class,
                name=each.name,
                title=each.title,
            )
        )


def query_library(
    sql: Annotated[str, typer.Argument(metavar="SQL", show_default=False)],
    library: Folder = LIBRARY,
    as_json: AsJson = False,
    _lang: Language = ENGLISH,
) -> None:
    """Print the result of one SELECT over the tables trials, factors, series and runs, as CSV."""
    from iolab.report.spreadsheet import as_field
    from iolab.store.library.reading import query

    rows = query(library, sql)
    if as_json:
        for row in rows.to_pylist(maps_as_pydicts="lossy"):
            say(json.dumps(row, default=str, ensure_ascii=False))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([as_field(printable(name)) for name in rows.column_names])
    for batch in rows.to_batches():
        for values in zip(
            *(column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns), strict=True
        ):
            writer.writerow(
                [as_field(shown) if isinstance(shown := _shown(value), str) else shown for value in values]
            )


def _shown(value: object) -> object:
    if isinstance(value, list | dict):
        value = json.dumps(value, default=str, ensure_ascii=False)
    return printable(value) if isinstance(value, str) else value


def history_of(
    measure: Annotated[str, typer.Argument(metavar="MEASURE", show_default=False)],
    library: Folder = LIBRARY,
    metric: Annotated[str | None, typer.Option("--metric", metavar="NAME")] = None,
    as_json: AsJson = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE")] = None,
    _lang: Language = ENGLISH,
) -> None:
    """Show every cell of a measure over the runs of a library, with suspected changes."""
    from iolab.report import over_runs

    found = _histories(library, measure, metric)
    if as_json:
        say(over_runs.as_json(measure, found))
    elif output is not None:
        try:
            write_whole(output, over_runs.as_page(measure, found, spoken()))
        except OSError as error:
            raise StoreError(
                Phrase("cli.report-not-written", target=output, reason=error.strerror)
            ) from error
        say(str(output))
    else:
        console().print(over_runs.as_table(found, spoken()))
        say(Phrase("history.suspects-only"))


def _histories(library: Path, measure: str, metric: str | None) -> "tuple[History, ...]":
    """Return the series of a measure: those of its leading metric, unless a metric is chosen.

    Raises:
        InputError: the library has no such figures.
    """
    from pyarrow import compute as pc

    from iolab.analysis.analyse import leading_metric
    from iolab.analysis.history import histories
    from iolab.results.metric import Quantity
    from iolab.store.library.checkpoints import contents
    from iolab.store.library.reading import described, trials_of

    of = contents(library)
    factors, series = described(of)
    rows = [row for row in series.to_pylist() if row["measure"] == measure]
    if metric is None and rows:
        whole = [row for row in rows if not row["dimensions"]] or rows
        metric = leading_metric([Quantity(row["metric"]) for row in whole], whole[0]["kind"]).name
    if not any(row["metric"] == metric for row in rows):
        pairs = sorted({f"{row['measure']} {row['metric']}" for row in series.to_pylist()})
        seen = Phrase(
            "library.no-figures", measure=repr(measure), metric=metric or Phrase("library.any-metric")
        )
        allowed = Phrase("library.known-measures", known=pairs[:MOST_LISTED])
        raise InputError([Problem("library history", Phrase("library.reading-history"), seen, allowed)])
    wanted: Any = (
        (pc.field("measure") == measure) & (pc.field("metric") == metric) & (pc.field("status") == "ok")
    )
    trials = trials_of(of).to_table(columns=["series", "run", "time", "value"], filter=wanted)
    return histories(trials, series, factors)


def check_library(library: Folder = LIBRARY, _lang: Language = ENGLISH) -> int:
    """Compare every file of a library with its manifest."""
    from iolab.store.library.checking import check

    found = check(library)
    for path in found.unnamed:
        complain(Phrase("library.unnamed", path=path))
    for problem in found.problems:
        complain(problem)
    say(
        Phrase(
            "library.state",
            runs=found.runs,
            trials=found.trials,
            rows=found.rows,
            bytes=format_bytes(found.bytes),
            superseded=found.superseded,
        )
    )
    if found.problems:
        raise StoreError(Phrase("library.is-damaged", library=library))
    return ExitCode.DONE


def compact_library(
    library: Folder = LIBRARY,
    min_files: Annotated[int | None, typer.Option("--min-files", min=2, metavar="N")] = None,
    months: Annotated[int | None, typer.Option("--keep-months", min=1, metavar="N")] = None,
    size: Annotated[int | None, typer.Option("--max-size", metavar="SIZE", parser=_bytes)] = None,
    grace: Annotated[float | None, typer.Option("--grace", metavar="TIME", parser=seconds)] = None,
    _lang: Language = ENGLISH,
) -> None:
    """Merge the files of a library, remove runs beyond the limits, and delete files that are no longer needed."""
    from iolab.store.library.compaction import GRACE_S, MIN_FILES, Limits, compact

    done = compact(
        library,
        SystemClock().wall(),
        limits=Limits(months=months, bytes=size),
        min_files=MIN_FILES if min_files is None else min_files,
        grace_s=GRACE_S if grace is None else grace,
    )
    for each in done.removed:
        say(Phrase("library.run-removed", run=each.run, name=each.name, title=each.title))
    say(
        Phrase(
            "library.compacted",
            files_before=done.files_before,
            files_after=done.files_after,
            deleted=done.deleted,
            bytes=format_bytes(done.deleted_bytes),
        )
    )
