"""Commands of programs: replace names of machines and ports with addresses, and pin programs to their machine's CPUs.

Pure.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from iolab.errors import InputError, Problem
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import Endpoint, Topology
from iolab.locale import Phrase

PLACE = re.compile(r"\{([A-Za-z][A-Za-z0-9_.-]*)\}")
"""Placeholder with the name of a machine or of its port, which stands for an address."""


def filler(addresses: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces names with addresses; other words in braces are unchanged."""
    return lambda text: PLACE.sub(lambda found: addresses.get(found[1], found[0]), text)


def addresses_in(
    texts: Iterable[str],
    here: str,
    partners: tuple[str, ...],
    topology: Topology,
    doing: str,
    ip: int | None = None,
) -> Mapping[str, str]:
    """Return the address of each name in the texts of machine `here`.

    If a machine names itself, its address on the path to its partners is used. `ip` is the IP version of the addresses;
    default: 4 if the links have both.

    Raises:
        InputError: a machine in the texts cannot be reached, or the machine's own address is ambiguous.
    """
    known = {*topology.machines, *(port.ref for port in topology.ports()), *topology.aliases}
    named = dict.fromkeys(name for text in texts for name in PLACE.findall(text) if name in known)
    return {name: _endpoint(name, here, partners, topology, doing, ip).address for name in named}


def _endpoint(
    name: str, here: str, partners: tuple[str, ...], topology: Topology, doing: str, ip: int | None
) -> Endpoint:
    own = PortRef(here).machine
    if PortRef(name).machine != own:
        return topology.endpoint(name, towards=here, ip=ip)
    others = [partner for partner in partners if PortRef(partner).machine != own]
    if others:
        return topology.endpoint(name, towards=others[0], ip=ip)
    points = topology.endpoints(name)
    if len(points) != 1:
        seen = Phrase("lab.has-several-addresses", name=name, count=len(points))
        allowed = Phrase("lab.port-by-name", machine=own)
        raise InputError([Problem(doing, Phrase("lab.finding-an-address"), seen, allowed)])
    return points[0] if ip is None else points[0].of(ip) or points[0]


def on_cpus(argv: Sequence[str], cpus: Sequence[int]) -> tuple[str, ...]:
    """Return the command that runs a program only on these CPUs; if no CPUs are given, on all CPUs of its kernel."""
    return ("taskset", "--cpu-list", ",".join(map(str, cpus)), *argv) if cpus else tuple(argv)
