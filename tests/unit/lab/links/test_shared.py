"""Links whose ends are macvlans or ipvlans: what is made, what they need, and what cannot be."""

from collections.abc import Callable, Mapping

import pytest
from tests.unit.lab.conftest import needs
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.measures import Stream
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.links.link_topology import mac_of
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need
from iolab.messages.unmet import UnmetRequirement

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
PODS: dict[str, object] = {
    "outside": "none",
    "pc": "none",
    "a": {"kind": "netns", "on": "pc"},
    "b": {"kind": "netns", "on": "pc"},
}


def pair(make_lab: MakeLab, forward: str = "none", **link: object) -> Lab:
    """Return two namespaces on a link."""
    return make_lab({"a": forward, "b": "none"}, {"lan": {"ends": ["a.eth0", "b.eth0"], **link}})


def on_port(make_lab: MakeLab, pc: str = "none", **pods: object) -> Lab:
    """Return two namespaces on the port of their parent, which has another one outside."""
    links = {
        "cable": ["outside.eth0", "pc.eth0"],
        "pods": {"ends": ["pc.eth0", "a.eth0", "b.eth0"], "join": "macvlan", **pods},
    }
    return make_lab({**PODS, "pc": pc}, links)


def typed(lab: Lab, key: str) -> list[str]:
    """Return the commands of a resource."""
    (found,) = [resource for resource in compose(lab) if resource.key == key]
    return [" ".join(action.do.argv) for action in found.actions if isinstance(action, Run)]


def said(lab: Lab) -> str:
    """Return what is lacking whatever a computer has."""
    return "; ".join(in_words(one) for one in lab_needs(lab) if isinstance(one, UnmetRequirement))


@pytest.mark.parametrize(
    ("join", "mode", "words"),
    [
        ("macvlan", None, "type macvlan mode bridge"),
        ("ipvlan", None, "type ipvlan mode l2"),
        ("ipvlan", "l3s", "type ipvlan mode l3s"),
    ],
)
def test_ports_are_made_beside_what_they_share_and_sent_to_their_namespaces(
    make_lab: MakeLab, join: str, mode: str | None, words: str
) -> None:
    """What an engineer would type; the kernel must have the kind."""
    lab = pair(make_lab, join=join, mode=mode)
    add, up = typed(lab, f"{join}:a.eth0")
    own = f"address {mac_of(lab, PortRef('a.eth0'))} " if join == "macvlan" else ""
    assert add == f"ip link add link shared0 name eth0 {own}netns iolab-a {words}"
    assert up == "ip link set dev eth0 up"
    assert f"link:{join}" in {need.name for need in lab_needs(lab) if isinstance(need, Need)}


def test_on_the_parents_port_nothing_else_is_made(make_lab: MakeLab) -> None:
    """The port is what they share; it is up, and as large as they are, before them."""
    keys = {resource.key: resource for resource in compose(on_port(make_lab))}
    assert not any(key.startswith(("bridge:", "shared:", "netns:link")) for key in keys)
    assert keys["macvlan:a.eth0"].needs == ("netns:a", "veth:cable")
    assert "mtu:cable" in keys["mtu:pods"].needs


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"forward": "bridge", "join": "macvlan"}, "a.eth0 receives only frames to its own address"),
        ({"join": "ipvlan", "vlan": 5}, "an ipvlan cannot carry a VLAN"),
        (
            {"join": "macvlan", "wire": {"delay": "1ms"}},
            "an emulated link or pacer of iolab connects the ends itself",
        ),
        (
            {"join": "veth", "shape": {"at": "a.eth0", "qdisc": "pacer", "rate": "1Mbit"}},
            "connects the ends itself",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_made(
    make_lab: MakeLab, change: dict[str, object], why: str
) -> None:
    """In words that say what to do instead."""
    assert why in said(pair(make_lab, **change))  # type: ignore[arg-type]


def test_a_pair_has_two_ends(make_lab: MakeLab) -> None:
    """More are on a bridge."""
    lab = make_lab(
        {"a": "none", "b": "none", "c": "none"}, {"lan": {"ends": ["a.p", "b.p", "c.p"], "join": "veth"}}
    )
    assert "a veth pair needs exactly two ends" in said(lab)


def test_guests_have_cards_and_no_macvlans(make_lab: MakeLab) -> None:
    """A macvtap is the same for them."""
    lab = make_lab({"a": "none", "g": {"kind": "vm"}}, {"lan": {"ends": ["a.p", "g.p"], "join": "macvlan"}})
    assert "only namespaces" in said(lab)
    assert "nic: macvtap" in said(lab)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pc": "bridge"}, "pc.eth0 is on a bridge"),
        ({"join": "ipvlan", "mode": "l3"}, "the ports do not answer ARP"),
    ],
)
def test_a_port_is_shared_or_bridged(make_lab: MakeLab, change: dict[str, object], why: str) -> None:
    """Never both, and only by what answers for its addresses."""
    assert why in said(on_port(make_lab, **change))  # type: ignore[arg-type]


def test_a_parent_and_its_macvlans_do_not_meet(make_lab: MakeLab) -> None:
    """Planning says so, where frames would be lost."""
    stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "pc"})
    with pytest.raises(InputError, match=r"a has a macvlan interface on pc\.eth0"):
        needs(Setup(on_port(make_lab), {"tcp": stream}))
