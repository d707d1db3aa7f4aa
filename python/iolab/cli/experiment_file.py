"""check, schema, new: what can be done with an experiment file without measuring."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from iolab.aliases import OldName
from iolab.cli.console import say, sentence
from iolab.cli.options import On, counted
from iolab.errors import ExitCode, InputError, Problem
from iolab.experiment import cells, json_schema, load, starter
from iolab.experiment.experiment import Experiment
from iolab.experiment.factors.product import names
from iolab.plan.support import check_cells, left_out

STANDARD_INPUT = Path("/dev/stdin")
CHECK_SCHEMA = 1
"""Version of `check --json`: additions keep it, changes and removals raise it."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(check)
    app.command()(schema)
    app.command()(new)


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Experiment files (YAML); - is standard input.", show_default=False
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: what each file means, or what is wrong.")
    ] = False,
    on: On = None,
) -> int:
    """Check experiment files and say what they mean; every error of all of them at once."""
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
            {key: str(value) for key, value in asdict(problem).items()}
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
    parts = ", ".join(
        counted(len(lab[kind]), kind[:-1]) for kind in ("machines", "links", "volumes") if lab.get(kind)
    )
    say(f"{file}: {experiment.title}")
    say(f"  lab: {parts}; measures: {', '.join(measures)}")
    if experiment.site is not None:
        _print_site(experiment)
    for name, labels in names(experiment.factors).items():
        say(f"  {name}: {', '.join(labels)}")
    text = f"{counted(cell_count, 'cell')}, {counted(experiment.blocks, 'block')}"
    say(f"  {text}, seed {experiment.seed}: correct")


def _print_site(experiment: Experiment) -> None:
    """Print where the machines are, and which levels there are not."""
    site = experiment.site
    assert site is not None
    for name, place in site.hosts.items():
        guests = [machine for machine, host in site.on.items() if host == name]
        say(f"  {name}: {place or 'this computer'}{', with ' + ', '.join(guests) if guests else ''}")
    for link, ends in site.cables.items():
        say(f"  {link}: the cable {' - '.join(ends)}")
    for reason in left_out(experiment):
        say(f"  left out: {sentence(reason)}")


def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    say(json.dumps(json_schema(), indent=2))


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the experiment; NAME.yaml is written.")
    ],
) -> None:
    """Write a small experiment to start from."""
    if not Path(name).name.strip(".") or "\0" in name:
        problem = Problem(
            "new", "naming an experiment", ascii(name), "the name of a file, e.g. `iolab new first`"
        )
        raise InputError([problem])
    path = Path(name).with_suffix(".yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(path.stem))
    except FileExistsError:
        raise InputError(
            [Problem(str(path), "writing a new experiment", "the file exists", "a new name")]
        ) from None
    except OSError as error:
        problem = Problem(
            str(path), "writing a new experiment", str(error.strerror), "a folder that can be written to"
        )
        raise InputError([problem]) from None
    say(f"{path} written; try: iolab check {path}, iolab plan {path}, iolab run {path}")
