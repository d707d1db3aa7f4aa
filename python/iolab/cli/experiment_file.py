"""The commands check, schema and new, which work on experiment files without measuring."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from iolab.aliases import OldName
from iolab.cli.console import in_words, say, sentence
from iolab.cli.language import Language
from iolab.cli.options import On, counted_blocks, counted_cells
from iolab.errors import ExitCode, InputError, Problem
from iolab.experiment import cells, json_schema, load, starter
from iolab.experiment.experiment import Experiment
from iolab.experiment.factors.product import names
from iolab.locale import ENGLISH, Phrase
from iolab.plan.support import check_cells, left_out

PARTS: Mapping[str, Callable[[int], Phrase]] = {
    "machines": lambda count: Phrase("meaning.count-of-machines", count=count),
    "links": lambda count: Phrase("meaning.count-of-links", count=count),
    "volumes": lambda count: Phrase("meaning.count-of-volumes", count=count),
}
"""Parts of a lab, each with a function from their number to a text such as "2 machines"."""
STANDARD_INPUT = Path("/dev/stdin")
CHECK_SCHEMA = 1
"""Version of `check --json`: changed or removed keys increment it, new keys do not."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(check)
    app.command()(schema)
    app.command()(new)


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
    on: On = None,
    _lang: Language = ENGLISH,
) -> int:
    """Check experiment files and print a summary of each; report every error in all files at once."""
    wrong: list[InputError] = []
    correct: list[Experiment] = []
    with warnings.catch_warnings(record=as_json) as noticed:
        for file in files:
            try:
                correct.append(_checked(file, on))
            except InputError as error:
                wrong.append(error)
    if as_json:
        notices = [str(each.message) for each in noticed or () if issubclass(each.category, OldName)]
        say(json.dumps({**_checked_json(correct, wrong), "notices": notices}, ensure_ascii=False))
        return ExitCode.INPUT_WRONG if wrong else ExitCode.DONE
    for experiment in correct:
        _print_meaning(experiment)
    if wrong:
        raise InputError([problem for error in wrong for problem in error.problems])
    return ExitCode.DONE


def _checked(file: Path, on: Path | None) -> Experiment:
    experiment = load(STANDARD_INPUT if str(file) == "-" else file, on)
    check_cells(experiment)
    return experiment


def _checked_json(correct: Sequence[Experiment], wrong: Sequence[InputError]) -> dict[str, object]:
    return {
        "schema": CHECK_SCHEMA,
        "correct": [
            {
                "file": one.source,
                "title": one.title,
                "factors": {name: list(labels) for name, labels in names(one.factors).items()},
                "cells": sum(1 for _ in cells(one)),
                "blocks": one.blocks,
                "seed": one.seed,
            }
            for one in correct
        ],
        "problems": [
            {field.name: in_words(getattr(problem, field.name)) for field in fields(problem)}
            for error in wrong
            for problem in error.problems
        ],
    }


def _print_meaning(experiment: Experiment) -> None:
    file = experiment.source
    cell_count = sum(1 for _ in cells(experiment))
    lab, measures = experiment.tree["lab"], experiment.tree["measure"]
    assert isinstance(lab, dict)
    assert isinstance(measures, dict)
    numbers = {kind: len(lab[kind]) for kind in PARTS if lab.get(kind)}
    parts = [PARTS[kind](number) for kind, number in numbers.items()]
    say(f"{file}: {experiment.title}")
    say(Phrase("meaning.lab-and-measures", parts=parts, measures=[*measures]))
    if experiment.site is not None:
        _print_site(experiment)
    for name, labels in names(experiment.factors).items():
        say(f"  {name}: {', '.join(labels)}")
    numbers_of_all = [counted_cells(cell_count), counted_blocks(experiment.blocks)]
    say(Phrase("meaning.file-is-correct", numbers=numbers_of_all, seed=experiment.seed))


def _print_site(experiment: Experiment) -> None:
    """Print the hosts of the machines, and the levels that cannot be set on the site."""
    site = experiment.site
    assert site is not None
    for name, place in site.hosts.items():
        guests = [machine for machine, host in site.on.items() if host == name]
        where = place or Phrase("check.this-computer")
        guests_there = Phrase("meaning.host-with-guests", host=where, guests=guests) if guests else where
        say(Phrase("meaning.host-of-site", name=name, host=guests_there))
    for link, ends in site.cables.items():
        say(Phrase("meaning.link-is-the-cable", link=link, ends=" - ".join(ends)))
    for reason in left_out(experiment):
        say(Phrase("meaning.cell-left-out", reason=sentence(reason)))


def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    say(json.dumps(json_schema(), indent=2))


def new(
    name: Annotated[str, typer.Argument(metavar="NAME")],
) -> None:
    """Write a small experiment file to start from."""
    if not Path(name).name.strip(".") or "\0" in name:
        problem = Problem("new", Phrase("cli.naming-experiment"), ascii(name), Phrase("cli.name-of-a-file"))
        raise InputError([problem])
    path = Path(name).with_suffix(".yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(in_words(starter(path.stem)))
    except FileExistsError:
        raise InputError(
            [
                Problem(
                    str(path),
                    Phrase("cli.writing-new-experiment"),
                    Phrase("cli.file-exists"),
                    Phrase("cli.new-name"),
                )
            ]
        ) from None
    except OSError as error:
        problem = Problem(
            str(path),
            Phrase("cli.writing-new-experiment"),
            str(error.strerror),
            Phrase("cli.folder-to-write-in"),
        )
        raise InputError([problem]) from None
    say(Phrase("cli.file-is-written", path=path))
