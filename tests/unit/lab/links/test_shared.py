"""Links with macvlan or ipvlan ends: their commands, requirements, and conflicts."""

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
    """Return two namespaces on the port of their parent, which is connected to an external machine."""
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
    """Return the requirements that no computer can meet."""
    return "; ".join(in_words(one) for one in lab_needs(lab) if isinstance(one, UnmetRequirement))


@pytest.mark.parametrize(
    ("join", "mode", "words"),
    [
        ("macvlan", None, "type macvlan mode bridge"),
        ("ipvlan", None, "type ipvlan mode l2"),
        ("ipvlan", "l3s", "type ipvlan mode l3s"),
    ],
)
def test_macvlan_and_ipvlan_ports_are_created_on_a_shared_parent_and_moved_to_their_namespaces(
    make_lab: MakeLab, join: str, mode: str | None, words: str
) -> None:
    """Compare the commands with manual ones; require the kernel's link type."""
    lab = pair(make_lab, join=join, mode=mode)
    add, up = typed(lab, f"{join}:a.eth0")
    own = f"address {mac_of(lab, PortRef('a.eth0'))} " if join == "macvlan" else ""
    assert add == f"ip link add link shared0 name eth0 {own}netns iolab-a {words}"
    assert up == "ip link set dev eth0 up"
    assert f"link:{join}" in {need.name for need in lab_needs(lab) if isinstance(need, Need)}


def test_macvlans_on_a_parents_port_need_no_bridge(make_lab: MakeLab) -> None:
    """Use the parent's port directly; bring it up with its MTU first."""
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
def test_invalid_macvlan_or_ipvlan_link_is_refused_with_a_remedy(
    make_lab: MakeLab, change: dict[str, object], why: str
) -> None:
    """Report a remedy."""
    assert why in said(pair(make_lab, **change))  # type: ignore[arg-type]


def test_veth_link_with_three_ends_is_refused(make_lab: MakeLab) -> None:
    """Refuse it, because more ends need a bridge."""
    lab = make_lab(
        {"a": "none", "b": "none", "c": "none"}, {"lan": {"ends": ["a.p", "b.p", "c.p"], "join": "veth"}}
    )
    assert "a veth pair needs exactly two ends" in said(lab)


def test_macvlan_link_with_a_guest_is_refused_with_macvtap_as_remedy(make_lab: MakeLab) -> None:
    """Suggest macvtap, the equivalent for guests."""
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
def test_conflicting_use_of_a_port_by_macvlans_and_a_bridge_is_refused(
    make_lab: MakeLab, change: dict[str, object], why: str
) -> None:
    """Refuse both at once."""
    assert why in said(on_port(make_lab, **change))  # type: ignore[arg-type]


def test_stream_between_a_parent_and_its_macvlan_is_refused(make_lab: MakeLab) -> None:
    """Report it at planning, because frames would be lost."""
    stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "pc"})
    with pytest.raises(InputError, match=r"a has a macvlan interface on pc\.eth0"):
        needs(Setup(on_port(make_lab), {"tcp": stream}))
