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
    list[str] | None, typer.Option(metavar="EXPR", help="factor=level|level,...: only these cells.")
]
Skip = Annotated[bool, typer.Option("--skip-unsupported", help="Leave out cells that this host cannot do.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Only the cells that the file calls quick, in one block.")
]
On = Annotated[
    Path | None,
    typer.Option(
        "--on", metavar="SITE", help="Where to run it: a file that names hosts, guests there, cables."
    ),
]
Blocks = Annotated[
    int | None, typer.Option(min=1, max=MOST_BLOCKS, help="Blocks instead of the file's.", metavar="N")
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=LARGEST_SEED, help="Seed of the order instead of the file's.", metavar="S"),
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
        help="Wait this long (10m) for another lab that holds a host; refused at once otherwise.",
    ),
]
AllowSetting = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-setting", metavar="NAME", help="Let the file set this kernel setting: kernel.core_pattern."
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
        "--lang", metavar="CODE", callback=_speak, help=f"Language of what is said: {', '.join(languages())}."
    ),
]
"""Not taken from the environment: one command gives one text everywhere."""


def counted_cells(count: int) -> Phrase:
    """Return how many cells there are."""
    return Phrase("meaning.count-of-cells", count=count)


def counted_blocks(count: int) -> Phrase:
    """Return how many blocks there are."""
    return Phrase("meaning.count-of-blocks", count=count)
