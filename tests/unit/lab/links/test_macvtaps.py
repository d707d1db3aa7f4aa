"""Macvtaps on a port of their guests' parent: nothing is between, and what cannot be reached is said."""

from collections.abc import Callable, Mapping

import pytest
from tests.unit.lab.conftest import needs
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.measures import Stream
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need
from iolab.lab.resources import Resource
from iolab.messages.conflicts import Conflict

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
MACVTAP: dict[str, object] = {"kind": "vm", "on": "pc", "nic": "macvtap"}


def on_host(make_lab: MakeLab, *guests: dict[str, object], port: str = "eth1", **lan: object) -> Lab:
    """Return a host with a cable, and guests that are joined to its port."""
    machines: dict[str, object] = {"far": {"kind": "host"}, "pc": {"kind": "host", "ssh": "pc"}}
    machines |= {f"g{number}": guest for number, guest in enumerate(guests)}
    cable = {"ends": ["far.lan0", f"pc.{port}"], "cable": True, **lan}
    cards = [f"g{number}.eth0" for number in range(len(guests))]
    return make_lab(machines, {"lan": cable, "down": [f"pc.{port}", *cards]})


def made(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def typed(resource: Resource) -> list[str]:
    """Return the commands of a resource."""
    return [" ".join(action.do.argv) for action in resource.actions if isinstance(action, Run)]


def test_a_macvtap_is_on_the_hosts_port_itself(make_lab: MakeLab) -> None:
    """No bridge and no pair is between; it is read back that it is there, and how."""
    found = made(on_host(make_lab, MACVTAP))
    assert not any(key.startswith(("bridge:", "member:", "veth:", "side:")) for key in found)
    macvtap = found["macvtap:g0.eth0"]
    add, _ = typed(macvtap)
    assert add.startswith("ip link add link eth1 name m-g0.eth0 address 02:")
    assert add.endswith(" type macvtap mode passthru")
    assert (macvtap.kernel, macvtap.needs) == ("pc", ("cable:pc.eth1",))
    assert [one.expected for one in macvtap.expect] == ["macvtap", "eth1", "passthru"]
    assert typed(found["mtu:lan:pc.eth1"]) == ["ip link set dev eth1 mtu 1500"]
    assert typed(found["mtu:down:pc"]) == ["ip link set dev m-g0.eth0 mtu 1500"]
    assert "mtu:lan:pc.eth1" in found["mtu:down:pc"].needs
    assert "link:bridge" not in {
        need.name for need in lab_needs(on_host(make_lab, MACVTAP)) if isinstance(need, Need)
    }


def test_with_a_vlan_it_is_on_the_vlans_interface(make_lab: MakeLab) -> None:
    """Frames of the guest are tagged as its host's are."""
    found = made(on_host(make_lab, MACVTAP, vlan=100))
    assert typed(found["macvtap:g0.eth0"])[0].startswith("ip link add link eth1.100 name m-g0.eth0")
    assert found["macvtap:g0.eth0"].needs == ("vlan:pc.eth1",)


def test_several_share_a_port_and_one_that_bridges_needs_one_of_its_own(make_lab: MakeLab) -> None:
    """Among others a macvtap gets only frames to its own address."""
    lab = on_host(make_lab, MACVTAP, MACVTAP)
    assert all(typed(made(lab)[f"macvtap:g{n}.eth0"])[0].endswith("mode bridge") for n in (0, 1))
    (told,) = [
        in_words(one)
        for one in lab_needs(on_host(make_lab, MACVTAP, {**MACVTAP, "forward": "bridge"}))
        if isinstance(one, Conflict)
    ]
    seen = "g1.eth0 is one of several macvtaps on pc.eth1 and receives only frames to its own address"
    assert told.startswith(f"`forward: bridge` on machine g1: {seen}")


def test_beside_another_card_it_is_on_the_bridge_that_this_one_needs(make_lab: MakeLab) -> None:
    """A port is on a bridge or carries macvtaps."""
    found = made(on_host(make_lab, MACVTAP, {**MACVTAP, "nic": "virtio-net"}))
    assert "bridge:pc.iolab-br0" in found
    assert typed(found["macvtap:g0.eth0"])[0].startswith("ip link add dev l-g0.eth0 type veth peer")


@pytest.mark.parametrize(("source", "target"), [("pc", "g0"), ("g0", "pc")])
def test_a_host_does_not_reach_its_own_guest_by_a_macvtap(
    make_lab: MakeLab, source: str, target: str
) -> None:
    """The kernel passes nothing between a macvtap and the stack below; the far host is reached."""
    lab = on_host(make_lab, MACVTAP)
    reached = Stream.model_validate({"kind": "stream", "from": "far", "to": "g0"})
    assert needs(Setup(lab, {"tcp": reached}))
    own = Stream.model_validate({"kind": "stream", "from": source, "to": target})
    with pytest.raises(InputError, match=r"g0 has a macvtap interface on pc\.eth1"):
        needs(Setup(lab, {"tcp": own}))
