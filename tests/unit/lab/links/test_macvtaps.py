"""Macvtaps directly on a port of their guests' parent, and their unreachable peers."""

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
    """Return a host with a cable, and guests connected to its port."""
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


def test_macvtap_is_created_directly_on_the_hosts_port(make_lab: MakeLab) -> None:
    """Read it back; use no bridge and no veth pair."""
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


def test_macvtap_with_a_vlan_is_created_on_the_vlan_interface(make_lab: MakeLab) -> None:
    """Tag the frames of the guest like those of its host."""
    found = made(on_host(make_lab, MACVTAP, vlan=100))
    assert typed(found["macvtap:g0.eth0"])[0].startswith("ip link add link eth1.100 name m-g0.eth0")
    assert found["macvtap:g0.eth0"].needs == ("vlan:pc.eth1",)


def test_macvtaps_share_a_port_unless_one_of_their_guests_is_a_bridge(make_lab: MakeLab) -> None:
    """Give a bridging guest a separate port, because a macvtap receives only frames to its own address."""
    lab = on_host(make_lab, MACVTAP, MACVTAP)
    assert all(typed(made(lab)[f"macvtap:g{n}.eth0"])[0].endswith("mode bridge") for n in (0, 1))
    (told,) = [
        in_words(one)
        for one in lab_needs(on_host(make_lab, MACVTAP, {**MACVTAP, "forward": "bridge"}))
        if isinstance(one, Conflict)
    ]
    seen = "g1.eth0 is one of several macvtaps on pc.eth1 and receives only frames to its own address"
    assert told.startswith(f"`forward: bridge` on machine g1: {seen}")


def test_macvtap_with_another_nic_type_on_the_port_is_connected_to_the_bridge(make_lab: MakeLab) -> None:
    """Allow either a bridge or macvtaps on a port."""
    found = made(on_host(make_lab, MACVTAP, {**MACVTAP, "nic": "virtio-net"}))
    assert "bridge:pc.iolab-br0" in found
    assert typed(found["macvtap:g0.eth0"])[0].startswith("ip link add dev l-g0.eth0 type veth peer")


@pytest.mark.parametrize(("source", "target"), [("pc", "g0"), ("g0", "pc")])
def test_stream_between_a_host_and_a_guest_whose_macvtap_is_on_that_host_is_refused(
    make_lab: MakeLab, source: str, target: str
) -> None:
    """Report it, because the kernel passes nothing between a macvtap and the stack below."""
    lab = on_host(make_lab, MACVTAP)
    reached = Stream.model_validate({"kind": "stream", "from": "far", "to": "g0"})
    assert needs(Setup(lab, {"tcp": reached}))
    own = Stream.model_validate({"kind": "stream", "from": source, "to": target})
    with pytest.raises(InputError, match=r"g0 has a macvtap interface on pc\.eth1"):
        needs(Setup(lab, {"tcp": own}))
