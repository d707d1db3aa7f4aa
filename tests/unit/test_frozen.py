"""Frozen classes: equivalent to `dataclass(frozen=True, slots=True)`, without compiling code."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace

import pytest

from iolab.frozen import frozen


@frozen
class Port:
    """A class with a default, a default factory, and a field that is neither compared nor shown."""

    name: str
    index: int = 1
    peers: list[str] = field(default_factory=list, compare=False)
    answers: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)


@frozen(kw_only=True)
class Tagged(Port):
    """A class with a keyword-only field after the fields of its base."""

    vlan: int


@frozen
class Named:
    """A class with a computed field."""

    text: str
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.text))


@frozen
class Nothing:
    """A class without fields."""


def test_frozen_objects_are_compared_hashed_and_shown_by_their_fields() -> None:
    """Exclude uncompared fields and different classes."""
    port = Port("eth0", 2, ["eth1"])
    assert port == Port("eth0", index=2)
    assert hash(port) == hash(Port("eth0", 2))
    assert port != Port("eth0")
    assert port != Tagged("eth0", 2, vlan=1)
    assert repr(port) == "Port(name='eth0', index=2, peers=['eth1'])"
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_default_factories_are_called_for_each_object() -> None:
    """Share no mutable default."""
    first, second = Port("a"), Port("b")
    first.peers.append("c")
    assert second.peers == []
    assert first.answers is not second.answers


def test_fields_of_a_frozen_object_cannot_be_changed_added_or_removed() -> None:
    """Require a new object for a new value."""
    port = Port("eth0")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        port.name = "eth1"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        port.speed = 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        del port.name
    assert not hasattr(port, "__dict__")


def test_constructor_arguments_of_a_frozen_object_are_checked() -> None:
    """Raise TypeError like a function."""
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Port()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional arguments but 5"):
        Tagged("eth0", 1, [], 7)  # type: ignore[call-arg]
    assert Tagged("eth0", vlan=7).vlan == 7


def test_frozen_objects_work_with_dataclass_functions_match_copy_and_pickle() -> None:
    """Check `replace`, `fields`, `asdict`, `match`, copies and pickles."""
    port = Tagged("eth0", vlan=7)
    assert replace(port, index=3) == Tagged("eth0", 3, vlan=7)
    assert [each.name for each in fields(port)] == ["name", "index", "peers", "answers", "vlan"]
    assert asdict(Named("abc")) == {"text": "abc", "length": 3}
    assert copy.deepcopy(port) == pickle.loads(pickle.dumps(port)) == port
    match Port("eth0", 4):
        case Port(name, index):
            assert (name, index) == ("eth0", 4)
