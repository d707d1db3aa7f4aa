"""Port names: split once, and still text."""

import json

import pytest

from iolab.experiment.model.links import Link
from iolab.experiment.model.quantities import PortRef


@pytest.mark.parametrize(
    ("text", "machine", "port"),
    [("a.eth0", "a", "eth0"), ("a.eth0.100", "a", "eth0.100"), ("a", "a", ""), ("", "", "")],
)
def test_port_reference_is_split_at_its_first_dot(text: str, machine: str, port: str) -> None:
    """Allow dots in the port, as for a VLAN."""
    ref = PortRef(text)
    assert (ref.machine, ref.port) == (machine, port)


def test_port_reference_is_usable_as_text() -> None:
    """Use it as a key, in other text, and in JSON."""
    ref = PortRef.of("a", "eth0")
    assert ref == "a.eth0"
    assert {"a.eth0": 1}[ref] == 1
    assert (f"mtu:{ref}", json.dumps([ref])) == ("mtu:a.eth0", '["a.eth0"]')


def test_link_ends_are_port_references_and_serialized_as_text() -> None:
    """Check text on input and output, and parts in the models."""
    link = Link.model_validate({"ends": ["a.eth0", "b.eth1"]})
    assert [end.machine for end in link.ends] == ["a", "b"]
    assert link.model_dump(mode="json")["ends"] == ["a.eth0", "b.eth1"]
