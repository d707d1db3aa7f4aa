"""Arguments and options that several commands share."""

import re
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import speak
from iolab.experiment.check import LARGEST_SEED, MOST_BLOCKS
from iolab.locale import Phrase, languages
from iolab.units import NS_PER_S, parse_nanoseconds

File = Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file (YAML).", show_default=False)]
Only = Annotated[
    list[str] | None, typer.Option(metavar="EXPR", help="Only these cells: factor=level|level,...")
]
Skip = Annotated[bool, typer.Option("--skip-unsupported", help="Skip cells that this host does not support.")]
Quick = Annotated[bool, typer.Option("--quick", help="Only the cells of the file's `quick`, in one block.")]
On = Annotated[
    Path | None,
    typer.Option(
        "--on", metavar="SITE", help="Site file: the hosts, the guests on each host, and the cables."
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_BLOCKS, help="Number of blocks, instead of the file's.", metavar="N"),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=LARGEST_SEED, help="Seed of the order, instead of the file's.", metavar="S"),
]


def _seconds(text: str | float) -> float:
    """Return a duration of the command line in seconds."""
    try:
        return parse_nanoseconds(re.sub(r"(?<=[0-9])m$", "min", str(text))) / NS_PER_S
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="TIME",
        parser=_seconds,
        help="Wait this long (10m) for a host that another lab uses, instead of refusing at once.",
    ),
]
AllowSetting = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-setting",
        metavar="NAME",
        help="Allow the file to set this kernel setting, e.g. kernel.core_pattern.",
    ),
]


def _speak(language: str) -> str:
    """Print in a language from now on. Raises typer.BadParameter: there is none of that name."""
    if language not in languages():
        raise typer.BadParameter(
            str(Phrase("cli.no-such-language", language=repr(language), languages=languages()))
        )
    speak(language)
    return language


Language = Annotated[
    str,
    typer.Option(
        "--lang", metavar="CODE", callback=_speak, help=f"Language of the messages: {', '.join(languages())}."
    ),
]
"""Not taken from the environment: one command gives one text everywhere."""


def counted_cells(count: int) -> Phrase:
    """Return how many cells there are."""
    return Phrase("meaning.count-of-cells", count=count)


def counted_blocks(count: int) -> Phrase:
    """Return how many blocks there are."""
    return Phrase("meaning.count-of-blocks", count=count)
