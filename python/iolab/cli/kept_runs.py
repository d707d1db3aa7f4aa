"""The commands list, note, tag, rename, remove and redact, for the runs in a folder."""

import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import complain, in_words, say
from iolab.cli.language import Language
from iolab.cli.run_names import RUNS, RunName, RunNames, locate
from iolab.errors import ExitCode, InputError, Problem
from iolab.locale import ENGLISH, Phrase, Text
from iolab.printable import one_line, printable
from iolab.store.housekeeping import check_removable, remove, rename, weight
from iolab.store.labels import change_tags, read_label, set_note
from iolab.store.listing import SORT_KEYS, UNREADABLE, ListedRun, filters, in_order, listed
from iolab.store.read import find_runs
from iolab.units import format_bytes

LIST_SCHEMA = 1
"""Version of `list --json`: changed or removed keys increment it, new keys do not."""
FROM_NAMES = ("name", "-name", "started", "-started")
"""Orders for which the folders' names suffice, so that a limit spares reading the other runs."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("list")(list_runs)
    app.command("note")(note_run)
    app.command("tag")(tag_run)
    app.command("rename")(rename_run)
    app.command("remove")(remove_runs)
    app.command("redact")(redact_run)


def _orders(begun: str) -> list[str]:
    """Return the values of `--sort` with a given prefix, for shell completion."""
    return [key for name in SORT_KEYS for key in (name, f"-{name}") if key.startswith(begun)]


def list_runs(
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR")] = RUNS,
    conditions: Annotated[list[str] | None, typer.Option("--filter", metavar="EXPR")] = None,
    order: Annotated[str, typer.Option("--sort", metavar="KEY", autocompletion=_orders)] = "name",
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N")] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    _lang: Language = ENGLISH,
) -> None:
    """List the runs, oldest first, with their progress and the status of their trials."""
    matches = filters(conditions or ())
    paths = find_runs(folder)
    if limit is not None and not conditions and order in FROM_NAMES:
        paths = paths[-limit:] if order.startswith("-") else paths[:limit]
    every = [run for path in paths if matches(run := listed(path))]
    found = in_order(every, order)[:limit]
    if as_json:
        entries = [_entry(run) for run in found]
        say(json.dumps({"schema": LIST_SCHEMA, "runs": entries}, ensure_ascii=False))
        return
    if not found:
        say(
            Phrase("cli.no-runs-match", folder=folder, count=len(paths))
            if paths
            else Phrase("cli.no-runs-in-folder", folder=folder)
        )
    for run in found:
        say(_line(run))


def _entry(run: ListedRun) -> dict[str, object]:
    """Return a run's entry in `list --json`."""
    label = {"started": run.started or None, "tags": run.label.tags, "note": run.label.note}
    if run.status == UNREADABLE:
        return {"folder": str(run.folder), "status": UNREADABLE, "reason": run.reason, **label}
    return {
        "folder": str(run.folder),
        "title": run.title,
        "status": run.status,
        "planned": run.planned,
        "trials": dict(run.trials),
        **label,
    }


def _line(run: ListedRun) -> Text:
    label = "".join(f"  #{tag}" for tag in run.label.tags)
    if run.label.note:
        label += f"  ({one_line(run.label.note)})"
    if run.status == UNREADABLE:
        return Phrase("cli.run-is-unreadable", folder=run.folder, reason=run.reason)
    ended = ", ".join(f"{count} {status}" for status, count in sorted(run.trials.items()))
    return Phrase(
        "cli.run-in-short",
        folder=run.folder,
        status=run.status,
        trials=run.planned,
        ended=ended or Phrase("cli.none-done"),
        title=run.title,
        label=label,
    )


def note_run(
    run: RunName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", show_default=False)] = None,
    _lang: Language = ENGLISH,
) -> None:
    """Print the note of a run, or replace it; an empty text removes the note."""
    path = locate(run)
    if text is None:
        print(printable(read_label(path).note))
    else:
        set_note(path, text)


def tag_run(
    run: RunName,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG", show_default=False)] = None,
    removed: Annotated[list[str] | None, typer.Option("--remove", metavar="TAG")] = None,
    _lang: Language = ENGLISH,
) -> None:
    """Add tags to a run or remove tags, and print the tags of the run."""
    path = locate(run)
    label = change_tags(path, tags or (), removed or ()) if tags or removed else read_label(path)
    say(" ".join(label.tags))


def rename_run(
    run: RunName,
    title: Annotated[str, typer.Argument(metavar="TITLE", show_default=False)],
    _lang: Language = ENGLISH,
) -> None:
    """Rename a run folder to its start time and a new title, and print the path."""
    say(str(rename(locate(run), title)))


def remove_runs(
    runs: RunNames,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    _lang: Language = ENGLISH,
) -> int:
    """Remove run folders with all their records, after a confirmation."""
    paths = list(dict.fromkeys(locate(run) for run in runs))
    for path in paths:
        check_removable(path)
    if not yes and not _confirmed(paths):
        complain(Phrase("cli.nothing-removed"))
        return ExitCode.DONE
    for path in paths:
        remove(path)
        say(Phrase("cli.run-removed", folder=path))
    return ExitCode.DONE


def _confirmed(paths: Sequence[Path]) -> bool:
    """Ask the user whether to remove runs.

    Raises:
        InputError: no user can answer, because the standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        seen, allowed = Phrase("cli.no-terminal"), Phrase("cli.yes-or-terminal")
        raise InputError([Problem("remove", Phrase("cli.confirming-removal"), seen, allowed)])
    for path in paths:
        files, size = weight(path)
        complain(Phrase("cli.run-to-remove", folder=path, count=files, bytes=format_bytes(size)))
    return typer.confirm(printable(in_words(Phrase("cli.remove-runs", count=len(paths)))), err=True)


def redact_run(
    run: RunName,
    copy: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)],
    words: Annotated[list[str] | None, typer.Option("--word", metavar="WORD")] = None,
    _lang: Language = ENGLISH,
) -> None:
    """Write a copy of a run in which names are replaced, and print its path."""
    from iolab.store.redaction.copying import (
        redact,
    )  # loads the language, which the other commands do without

    made = redact(locate(run), copy, words or (), secrets.token_bytes(32))
    for path in made.left_out:
        complain(Phrase("cli.left-out-of-copy", path=path))
    counts = [Phrase("cli.redacted-count", kind=kind, number=number) for kind, number in made.counts.items()]
    complain(Phrase("cli.run-redacted", counts=counts))
    complain(Phrase("cli.read-before-publishing"))
    say(str(copy))
