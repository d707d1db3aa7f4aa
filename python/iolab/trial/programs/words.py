"""Words of a program of the user's own, with the addresses of machines in the place of their names. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping

from iolab.errors import InputError, Problem
from iolab.experiment.commands import CommandMeasure, Program
from iolab.experiment.port_ref import PortRef
from iolab.lab.topology import Endpoint, Topology

PLACE = re.compile(r"\{([A-Za-z][A-Za-z0-9_.-]*)\}")
"""Where the name of a machine, or of its port, may stand for an address."""
WITH_INPUT = ("sh", "-c", 'input=$1; shift; printf %s "$input" | "$@"', "sh")
"""Gives a program its standard input; its end is that of the program."""
PLAIN_LANGUAGE = {"LC_ALL": "C"}
"""Numbers are written with points."""


def argv_of(program: Program, folder: str | None, fill: Callable[[str], str]) -> tuple[str, ...]:
    """Return what is run for a program in a folder, if it is known; `fill` puts addresses in the place of names."""
    words = ("sh", "-c", fill(program.shell)) if program.shell is not None else tuple(map(fill, program.run))
    if program.stdin is not None:
        words = (*WITH_INPUT, fill(program.stdin), *words)
    return words if folder is None else ("env", f"--chdir={folder}", *words)


def environment_of(program: Program, fill: Callable[[str], str]) -> dict[str, str]:
    """Return what is added to a program's environment."""
    return PLAIN_LANGUAGE | {name: fill(value) for name, value in program.environment.items()}


def name_of(program: Program) -> str:
    """Return what a program is called in messages."""
    return "sh" if program.shell is not None else next(iter(program.run), "")


def filler(measure: CommandMeasure, program: Program, topology: Topology) -> Callable[[str], str]:
    """Return what puts addresses in the place of names in the texts of one program of a measure."""
    addresses = addresses_of(measure, program, topology)
    return lambda text: PLACE.sub(lambda found: addresses.get(found[1], found[0]), text)


def addresses_of(measure: CommandMeasure, program: Program, topology: Topology) -> Mapping[str, str]:
    """Return the addresses that are named in a program's texts, by name.

    Raises:
        InputError: a machine of the lab is named to which no way leads.
    """
    known = {*topology.machines, *(port.ref for port in topology.ports())}
    named = dict.fromkeys(name for text in _texts(program) for name in PLACE.findall(text) if name in known)
    partners = tuple(dict.fromkeys(one.on for one in (measure, *measure.servers.values())))
    return {name: _endpoint(name, program.on, partners, topology).address for name in named}


def _texts(program: Program) -> Iterable[str]:
    yield from program.run
    yield from program.environment.values()
    yield program.shell or ""
    yield program.stdin or ""


def _endpoint(name: str, here: str, partners: tuple[str, ...], topology: Topology) -> Endpoint:
    """Return the endpoint that a name stands for on machine `here`; of its own, that towards its partners."""
    own = PortRef(here).machine
    if PortRef(name).machine != own:
        return topology.endpoint(name, towards=here)
    others = [partner for partner in partners if PortRef(partner).machine != own]
    if others:
        return topology.endpoint(name, towards=others[0])
    points = topology.endpoints(name)
    if len(points) != 1:
        seen, allowed = f"{name}, which has {len(points)} addresses", f"machine.port, such as {own}.eth0"
        raise InputError([Problem("measure", "finding an address", seen, allowed)])
    return points[0]
