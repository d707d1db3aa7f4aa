"""The command quick: an experiment on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import say
from iolab.cli.options import Seed, Wait
from iolab.cli.runs import run_experiment
from iolab.errors import ExitCode, InputError, Problem
from iolab.experiment import parse
from iolab.experiment.check import MOST_BLOCKS
from iolab.experiment.one_line import DOING, OneLine, experiment_of, short_forms
from iolab.locale import Phrase

SOURCE = "iolab quick --print"
"""Name that messages show in place of a file name: the option that prints the file."""


def register(app: typer.Typer) -> None:
    """Add this command."""
    extra = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(context_settings=extra)(quick)


def quick(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND")],
    first: Annotated[str, typer.Argument(metavar="A")],
    second: Annotated[str, typer.Argument(metavar="B")],
    blocks: Annotated[int, typer.Option(min=1, max=MOST_BLOCKS, metavar="N")] = 5,
    seed: Seed = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR")] = Path("runs"),
    only_print: Annotated[bool, typer.Option("--print")] = False,
    wait: Wait = 0,
) -> int:
    """Measure between two ends without a file: iolab quick tcp a b --mtu 1500,9000. Commas separate levels."""
    if kind not in short_forms():
        raise InputError([Problem("KIND", DOING, kind, ", ".join(short_forms()))])
    program, levels = _rest(context.args)
    line = OneLine(kind, (first, second), program, levels, blocks)
    text = experiment_of(line)
    if only_print:
        say(text.rstrip("\n"))
        return ExitCode.DONE
    return run_experiment(parse(text, SOURCE), output, seed=seed, wait_s=wait)


def _rest(words: Sequence[str]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the program, if there is one, and the levels of each key."""
    programs, levels = [], dict[str, tuple[str, ...]]()
    left = iter(words)
    for word in left:
        if not word.startswith("--"):
            programs.append(word)
            continue
        key, given, value = word.removeprefix("--").partition("=")
        value = value if given else next(left, "")
        if not value:
            raise InputError(
                [Problem(word, DOING, Phrase("cli.no-value"), Phrase("cli.one-or-several-levels"))]
            )
        levels[key] = tuple(value.split(","))
    if len(programs) > 1:
        advice = Phrase("cli.program-in-quotes")
        raise InputError([Problem("program", DOING, " ".join(programs), Phrase("cli.one-text"), advice)])
    return "".join(programs), levels
