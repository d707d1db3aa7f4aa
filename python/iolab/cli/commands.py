"""The table of commands, and the command group that imports a command's module when the command is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import iolab
from iolab.cli.language import Language, explain, explain_parameters, help_texts
from iolab.locale import ENGLISH

if TYPE_CHECKING:  # private to typer, imported only for the types of overridden methods
    from typer._click.core import Command, Context


NAME = "iolab"
COMMANDS: Mapping[str, str] = {
    "check": "experiment_file",
    "plan": "plan",
    "schema": "experiment_file",
    "new": "experiment_file",
    "run": "runs",
    "resume": "runs",
    "extend": "runs",
    "quick": "quick",
    "list": "kept_runs",
    "show": "results",
    "report": "results",
    "compare": "results",
    "gate": "gate",
    "note": "kept_runs",
    "tag": "kept_runs",
    "rename": "kept_runs",
    "remove": "kept_runs",
    "redact": "kept_runs",
    "pack": "library",
    "library": "library",
    "doctor": "host",
    "clean": "host",
    "hosts": "host",
    "calibrate": "calibration",
    "verify-shaper": "shaper",
    "image": "image",
}
"""Module of iolab.cli whose `register` adds a command, by command name, in the order of `--help`. Importing such a
module takes up to 0.6 s."""


class _Commands(TyperGroup):
    """Lists the commands from the table, and imports a command's module when it is about to run."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # typer's own keywords, handed on
        texts = help_texts()
        self.help = texts[NAME]
        explain_parameters(self, NAME, texts)
        self.commands = {name: TyperCommand(name, help=texts[name]) for name in COMMANDS}

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """See TyperGroup.

        When a shell completes a command name, there are no options to parse, and pydantic is not imported.
        """
        return args if ctx.resilient_parsing and not args else super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> "tuple[str | None, Command | None, list[str]]":
        """See TyperGroup: `args` starts with the name of a command."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name is not None else listed, rest


def loaded(name: str) -> "Command":
    """Return a command with its arguments and options."""
    from iolab.own_kinds import (
        provide_own_kinds,
    )  # imports pydantic, which neither --help nor completion needs

    provide_own_kinds()
    registry = typer.Typer()
    import_module(f"iolab.cli.{COMMANDS[name]}").register(registry)
    command = get_group(registry).commands[name]
    explain(command, name, help_texts())
    return command


app = typer.Typer(
    name=NAME,
    cls=_Commands,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"iolab {iolab.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
    _lang: Language = ENGLISH,
) -> None:
    """Options of iolab itself."""
