"""Labs for the tests, from machines and links as they are written in an experiment file."""

from collections.abc import Callable, Mapping

import pytest
from pydantic import TypeAdapter

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Link
from iolab.experiment.machines import Machine

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]


@pytest.fixture(scope="session")
def make_lab() -> MakeLab:
    """Return a maker of labs; a machine written as a word is a namespace that forwards so."""
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
