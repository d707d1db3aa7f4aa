"""Build command lines of user programs, with machine names replaced by addresses. Pure."""

from collections.abc import Callable, Iterable, Mapping

from iolab.experiment.model.measures import CommandMeasure, Program
from iolab.lab import programs
from iolab.lab.topology import Topology

WITH_INPUT = ("sh", "-c", 'input=$1; shift; printf %s "$input" | "$@"', "sh")
"""Script that passes text to a program's standard input, and ends when the program ends."""
PLAIN_LANGUAGE = {"LC_ALL": "C"}
"""Environment variables that make programs print numbers with decimal points."""


def argv_of(program: Program, folder: str | None, fill: Callable[[str], str]) -> tuple[str, ...]:
    """Return the command of a program, in a folder if there is one; `fill` replaces names with addresses."""
    argv = ("sh", "-c", fill(program.shell)) if program.shell is not None else tuple(map(fill, program.run))
    if program.stdin is not None:
        argv = (*WITH_INPUT, fill(program.stdin), *argv)
    return argv if folder is None else ("env", f"--chdir={folder}", *argv)


def environment_of(program: Program, fill: Callable[[str], str]) -> dict[str, str]:
    """Return the additional environment variables of a program."""
    return PLAIN_LANGUAGE | {name: fill(value) for name, value in program.environment.items()}


def name_of(program: Program) -> str:
    """Return a program's name in messages."""
    return "sh" if program.shell is not None else next(iter(program.run), "")


def filler(measure: CommandMeasure, program: Program, topology: Topology) -> Callable[[str], str]:
    """Return the function that replaces names with addresses in the texts of one program of a measure."""
    return programs.filler(addresses_of(measure, program, topology))


def addresses_of(measure: CommandMeasure, program: Program, topology: Topology) -> Mapping[str, str]:
    """Return the addresses of the names in a program's texts, by name.

    Raises:
        InputError: a text names a machine of the lab that is not reachable.
    """
    partners = tuple(dict.fromkeys(one.on for one in (measure, *measure.servers.values())))
    return programs.addresses_in(_texts(program), program.on, partners, topology, "measure", measure.ip)


def _texts(program: Program) -> Iterable[str]:
    yield from program.run
    yield from program.environment.values()
    yield program.shell or ""
    yield program.stdin or ""
