"""Words of a program of the user's own, with the addresses of machines in the place of their names. Pure."""

from collections.abc import Callable, Iterable, Mapping

from iolab.experiment.model.measures import CommandMeasure, Program
from iolab.lab import programs
from iolab.lab.topology import Topology

WITH_INPUT = ("sh", "-c", 'input=$1; shift; printf %s "$input" | "$@"', "sh")
"""Gives a program its standard input; its end is that of the program."""
PLAIN_LANGUAGE = {"LC_ALL": "C"}
"""Numbers are written with points."""


def argv_of(program: Program, folder: str | None, fill: Callable[[str], str]) -> tuple[str, ...]:
    """Return what is run for a program in a folder, if it is known; `fill` puts addresses in the place of names."""
    argv = ("sh", "-c", fill(program.shell)) if program.shell is not None else tuple(map(fill, program.run))
    if program.stdin is not None:
        argv = (*WITH_INPUT, fill(program.stdin), *argv)
    return argv if folder is None else ("env", f"--chdir={folder}", *argv)


def environment_of(program: Program, fill: Callable[[str], str]) -> dict[str, str]:
    """Return what is added to a program's environment."""
    return PLAIN_LANGUAGE | {name: fill(value) for name, value in program.environment.items()}


def name_of(program: Program) -> str:
    """Return what a program is called in messages."""
    return "sh" if program.shell is not None else next(iter(program.run), "")


def filler(measure: CommandMeasure, program: Program, topology: Topology) -> Callable[[str], str]:
    """Return what puts addresses in the place of names in the texts of one program of a measure."""
    return programs.filler(addresses_of(measure, program, topology))


def addresses_of(measure: CommandMeasure, program: Program, topology: Topology) -> Mapping[str, str]:
    """Return the addresses that are named in a program's texts, by name.

    Raises:
        InputError: a machine of the lab is named to which no way leads.
    """
    partners = tuple(dict.fromkeys(one.on for one in (measure, *measure.servers.values())))
    return programs.addresses_in(_texts(program), program.on, partners, topology, "measure", measure.ip)


def _texts(program: Program) -> Iterable[str]:
    yield from program.run
    yield from program.environment.values()
    yield program.shell or ""
    yield program.stdin or ""
