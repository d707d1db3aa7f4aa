"""Labs for the tests, from machines and links as written in an experiment file."""

from collections.abc import Callable, Iterable, Mapping

import pytest
from pydantic import TypeAdapter
from tests.wording import in_words

from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.lab.hosts.facts import Facts
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Wanted, lacking, together
from iolab.lab.requirements.part_needs import check_ways, link_needs, machine_needs, measure_needs
from iolab.lab.topology import make_topology
from iolab.lab.volumes.needs import volume_needs
from iolab.messages.unmet import NotSupported

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]


@pytest.fixture(scope="session")
def make_lab() -> MakeLab:
    """Return a maker of labs; a machine written as a word is a namespace with that forwarding mode."""
    adapter = TypeAdapter[Machine](Machine)

    def make(machines: Mapping[str, object], links: Mapping[str, object]) -> Lab:
        written = {
            name: {"kind": "netns", "forward": machine} if isinstance(machine, str) else machine
            for name, machine in machines.items()
        }
        ends = {name: {"ends": link} if isinstance(link, list) else link for name, link in links.items()}
        return Lab(
            {name: adapter.validate_python(machine) for name, machine in written.items()},
            {name: Link.model_validate(link) for name, link in ends.items()},
            {},
        )

    return make


def missing(found: Iterable[Wanted], facts: Facts) -> str | None:
    """Return the unmet requirement as text."""
    return in_words(together(filter(None, (lacking(each, facts) for each in found)))) or None


def needs(setup: Setup) -> tuple[Wanted, ...]:
    """Return all requirements of a lab and its measures, each once, combined as in planning.

    Raises:
        InputError: the parts do not fit together (names, addresses, no way between two machines).
    """
    found: list[Wanted] = []
    for name, machine in setup.lab.machines.items():
        found += machine_needs(name, machine)
    for name, link in setup.lab.links.items():
        found += link_needs(name, link)
    for name, volume in setup.lab.volumes.items():
        found += volume_needs(name, volume)
    whole = not any(isinstance(each, NotSupported) for each in found)
    if whole:
        found += lab_needs(setup.lab)
    topology = make_topology(setup.lab) if whole else None
    for name, measure in setup.measures.items():
        found += measure_needs(name, measure)
        if topology is not None:
            found += check_ways(name, measure, setup.lab, topology)
    return tuple(dict.fromkeys(found))
