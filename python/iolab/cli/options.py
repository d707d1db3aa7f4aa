"""Arguments and options that several commands share."""

import re
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import in_words
from iolab.experiment.check import LARGEST_SEED, MOST_BLOCKS
from iolab.locale import Phrase
from iolab.units import NS_PER_S, parse_nanoseconds

File = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]
Only = Annotated[list[str] | None, typer.Option(metavar="EXPR")]
Skip = Annotated[bool, typer.Option("--skip-unsupported")]
Quick = Annotated[bool, typer.Option("--quick")]
On = Annotated[Path | None, typer.Option("--on", metavar="SITE")]
Blocks = Annotated[int | None, typer.Option(min=1, max=MOST_BLOCKS, metavar="N")]
Seed = Annotated[int | None, typer.Option(min=0, max=LARGEST_SEED, metavar="S")]


def seconds(text: str | float) -> float:
    """Return a duration option in seconds."""
    try:
        return parse_nanoseconds(re.sub(r"(?<=[0-9])m$", "min", str(text))) / NS_PER_S
    except ValueError as error:
        raise typer.BadParameter(in_words(error)) from error


Wait = Annotated[float, typer.Option("--wait", metavar="TIME", parser=seconds)]
AllowSetting = Annotated[list[str] | None, typer.Option("--allow-setting", metavar="NAME")]


AllowWrites = Annotated[list[str] | None, typer.Option("--allow-writes", metavar="ID")]
DestroyData = Annotated[list[str] | None, typer.Option("--destroy-data", metavar="ID")]


def counted_cells(count: int) -> Phrase:
    """Return the number of cells as text."""
    return Phrase("meaning.count-of-cells", count=count)


def counted_blocks(count: int) -> Phrase:
    """Return the number of blocks as text."""
    return Phrase("meaning.count-of-blocks", count=count)
