"""The table of commands, and the group that loads a command's module when the command is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import iolab

if TYPE_CHECKING:  # private to typer, named only to type what is overridden
    from typer._click.core import Command, Context


@dataclass(frozen=True, slots=True)
class Entry:
    """A command, as `--help` and a shell's completion show it."""

    module: str
    """Module of iolab.cli whose `register` adds it."""
    help: str
    """First paragraph of its help, as its function's docstring has it."""


COMMANDS: Mapping[str, Entry] = {
    "check": Entry(
        "experiment_file",
        "Check experiment files and print a summary of each; report every error in all files at once.",
    ),
    "plan": Entry(
        "plan",
        "Show what a run would do: cells, order, duration, and every command with its undo. Change nothing.",
    ),
    "schema": Entry("experiment_file", "Print the JSON Schema of experiment files, for editors."),
    "new": Entry("experiment_file", "Write a small experiment file to start from."),
    "run": Entry("runs", "Run an experiment; the last line of output is the run folder."),
    "resume": Entry("runs", "Run the missing trials of an interrupted run."),
    "extend": Entry("runs", "Extend a run to a larger experiment, and run only the missing trials."),
    "quick": Entry(
        "quick",
        "Measure between two ends without a file: iolab quick tcp a b --mtu 1500,9000. Commas separate "
        "levels.",
    ),
    "list": Entry(
        "results", "List the runs, oldest first, with their progress and the status of their trials."
    ),
    "show": Entry("results", "Show the results of a run."),
    "report": Entry("results", "Write the report of a run, and print its path."),
    "compare": Entry(
        "results", "Compare two runs cell by cell (B divided by A), or a run with published figures."
    ),
    "doctor": Entry(
        "host", "Report which features a host supports, which are missing, and what to do about it."
    ),
    "clean": Entry(
        "host",
        "Undo the changes that killed agents left on a host; on a remote host, also remove the agent's file.",
    ),
    "hosts": Entry(
        "host",
        "Print hosts from an ssh configuration or Ansible inventory as machines, to paste into an experiment.",
    ),
    "calibrate": Entry(
        "calibration",
        "Measure the limits of generator, receiver and time stamps on a host for later runs. Takes half a minute.",
    ),
    "verify-shaper": Entry(
        "shaper",
        "Run an experiment whose measure watches a shaped link, and check the shaper at four time scales.",
    ),
    "image": Entry("image", "Build, list and remove guest images and the newer QEMU."),
}
"""By name, in the order of `--help`. The modules need up to 0.6 s to load, this table none; a test compares the two."""


class _Commands(TyperGroup):
    """Lists commands from the table, and loads one when it is about to run."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # typer's own keywords, handed on
        self.commands = {name: TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()}

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """See TyperGroup. Where a shell completes a command's name there is no option to read, nor pydantic to load."""
        return args if ctx.resilient_parsing and not args else super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> "tuple[str | None, Command | None, list[str]]":
        """See TyperGroup: `args` begins with a command's name."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name is not None else listed, rest


def loaded(name: str) -> "Command":
    """Return a command with its arguments and options."""
    from iolab.own_kinds import provide_own_kinds  # with pydantic, which neither --help nor completion needs

    provide_own_kinds()
    registry = typer.Typer()
    import_module(f"iolab.cli.{COMMANDS[name].module}").register(registry)
    return get_group(registry).commands[name]


app = typer.Typer(
    name="iolab",
    cls=_Commands,
    help="A laboratory for virtual I/O: build a lab, measure it, report what limited each result, restore the host.",
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
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of iolab itself."""
