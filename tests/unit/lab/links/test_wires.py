"""A link with `wire:` as resources: what changes while it runs, its memory, and where it cannot be."""

import pytest

from iolab.experiment.experiment import Lab
from iolab.experiment.impairments import Impairments
from iolab.experiment.links import Link
from iolab.experiment.machines import Netns
from iolab.lab.compose import compose
from iolab.lab.difference import difference
from iolab.lab.links.wires import MARGIN_BYTES, wire_memory
from iolab.lab.needs.lab_needs import lab_needs
from iolab.lab.needs.need import Need, NeedKind
from iolab.lab.resources import ImpairWire, StartWire
from iolab.statements.unbuilt import WireUnbuilt


def wired(done: dict[str, object] | None, *ends: str) -> Lab:
    """Return a lab of one link."""
    ends = ends or ("near.eth0", "far.eth0")
    machines = {end.split(".", maxsplit=1)[0]: Netns.model_validate({"kind": "netns"}) for end in ends}
    link = Link.model_validate({"ends": list(ends)} | ({"wire": done} if done else {}))
    return Lab(machines, {"path": link}, {})


def test_a_wire_makes_both_ends_and_is_impaired_by_a_resource_of_its_own() -> None:
    """The taps come with the wire; nothing is a veth pair."""
    found = {resource.key: resource for resource in compose(wired({"delay": "1ms"}))}
    assert "veth:path" not in found
    start, done = found["wire:path"].actions[0], found["impairments:path"].actions[0]
    assert isinstance(start, StartWire)
    assert isinstance(done, ImpairWire)
    assert start.ends == (("iolab-near", "eth0"), ("iolab-far", "eth0"))
    assert done.impairments.delay == 1_000_000


def test_another_level_changes_the_wire_and_nothing_else() -> None:
    """The lab stands; a link without a wire is another link."""
    first, second = (compose(wired({"delay": delay})) for delay in ("1ms", "10ms"))
    change = difference(first, second)
    assert ([one.key for one in change.undo], [one.key for one in change.do]) == ([], ["impairments:path"])
    assert "wire:path" in [one.key for one in difference(first, compose(wired(None))).undo]


@pytest.mark.parametrize(
    ("given", "beyond"),
    [
        ({"delay": "1s"}, 1_250_000_000),
        ({"delay": "100ms", "rate": "1Gbit", "queue": "1M"}, 12_500_000 + (1 << 20)),
        ({"loss": 0.1}, 0),
    ],
)
def test_memory_is_rate_times_delay_and_the_queue(given: dict[str, object], beyond: int) -> None:
    """10 Gbit/s for a second is 1.25 GB."""
    assert wire_memory(Impairments.model_validate(given)) == beyond + MARGIN_BYTES


def test_a_wire_needs_taps_and_memory_and_two_ends() -> None:
    """More ends are a bridge, where no wire is built yet."""
    wanted = lab_needs(wired({"delay": "1s"}))
    needs = {need.kind: need.name for need in wanted if isinstance(need, Need)}
    assert needs[NeedKind.MEMORY] == str(2 * (1_250_000_000 + MARGIN_BYTES))
    assert needs[NeedKind.FEATURE] == "link:tun"
    more = lab_needs(wired({"delay": "1s"}, "near.eth0", "far.eth0", "third.eth0"))
    assert any(isinstance(need, WireUnbuilt) for need in more)
