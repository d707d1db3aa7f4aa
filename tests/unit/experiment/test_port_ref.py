"""The name of a port: taken apart once, and still its text."""

import json

import pytest

from iolab.experiment.model.links import Link
from iolab.experiment.model.quantities import PortRef


@pytest.mark.parametrize(
    ("text", "machine", "port"),
    [("a.eth0", "a", "eth0"), ("a.eth0.100", "a", "eth0.100"), ("a", "a", ""), ("", "", "")],
)
def test_a_name_is_taken_apart_at_its_first_dot(text: str, machine: str, port: str) -> None:
    """The port may have dots of its own: those of a VLAN."""
    ref = PortRef(text)
    assert (ref.machine, ref.port) == (machine, port)


def test_a_name_is_its_text_wherever_text_is_wanted() -> None:
    """It is a key, a part of other text and JSON as it is."""
    ref = PortRef.of("a", "eth0")
    assert ref == "a.eth0"
    assert {"a.eth0": 1}[ref] == 1
    assert (f"mtu:{ref}", json.dumps([ref])) == ("mtu:a.eth0", '["a.eth0"]')


def test_the_ends_of_a_link_are_names_of_ports_and_are_written_as_text() -> None:
    """The language takes and gives text; the models give parts."""
    link = Link.model_validate({"ends": ["a.eth0", "b.eth1"]})
    assert [end.machine for end in link.ends] == ["a", "b"]
    assert link.model_dump(mode="json")["ends"] == ["a.eth0", "b.eth1"]
