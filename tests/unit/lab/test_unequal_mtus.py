"""Links that bridges join need one MTU."""

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.overlays import unequal_mtus
from iolab.lab.topology import make_topology


def lab(forward: str, mtu: int) -> Lab:
    """Two links with a machine between."""
    return Lab(
        {
            "a": Netns(kind="netns"),
            "s": Netns.model_validate({"kind": "netns", "forward": forward}),
            "b": Netns(kind="netns"),
        },
        {
            "left": Link(ends=(PortRef("a.eth0"), PortRef("s.p0")), mtu=9000),
            "right": Link(ends=(PortRef("s.p1"), PortRef("b.eth0")), mtu=mtu),
        },
        {},
    )


def test_a_bridge_between_links_of_different_mtus_is_warned_of_and_a_router_is_not() -> None:
    """A router answers, or fragments; a bridge drops."""

    def found(one: Lab) -> list[dict[str, int]]:
        segments = (segment.links for segment in make_topology(one).segments)
        return [
            {link.link: link.mtu_bytes for link in warning.links} for warning in unequal_mtus(one, segments)
        ]

    assert found(lab("bridge", 1500)) == [{"left": 9000, "right": 1500}]
    assert found(lab("bridge", 9000)) == []
    assert found(lab("route", 1500)) == []
