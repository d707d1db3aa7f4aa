"""Virtual functions of a card: which commands make them, who gets which, and what cannot be."""

import json
from collections.abc import Callable, Mapping

import pytest
from tests.wording import in_words

from iolab.experiment.experiment import Lab
from iolab.lab.actions import Run, StartGuest, Tell, Write
from iolab.lab.compose import compose
from iolab.lab.guests.guest import FunctionBackend
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.links.sriov import function_needs
from iolab.lab.readback.values import LastName, VirtualFunction, value_shown
from iolab.lab.resources import Resource, undo_keys
from iolab.lab.topology import make_topology

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]

PLACE = Place(boot=Boot("K", "I", "R", "M"), folder="F", accel="tcg")
LINKS = {"up": ["t.p0", "host.eth0"], "card": ["host.eth0", "a.p0", "inner.eth0"]}


def machines(**changes: object) -> dict[str, object]:
    """Return a guest with an igb, a namespace and a guest of its own that have functions of it, and a tester."""
    return {
        "t": "none",
        "host": {"kind": "vm", "nic": "igb"},
        "a": {"kind": "netns", "on": "host", "ports": "sr-iov"},
        "inner": {"kind": "vm", "on": "host", "nic": "sr-iov"},
    } | changes


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """Return that lab."""
    return make_lab(machines(), LINKS)


@pytest.fixture
def made(lab: Lab) -> dict[str, Resource]:
    """Return its resources by key."""
    return {resource.key: resource for resource in compose(lab)}


def guest_argv(made: Mapping[str, Resource], name: str) -> str:
    """Return the command line of a guest."""
    (action,) = made[f"vm:{name}"].actions
    assert isinstance(action, StartGuest)
    return " ".join(qemu_argv(action.guest, PLACE))


def test_functions_have_their_addresses_before_a_driver_sees_them(made: dict[str, Resource]) -> None:
    """The card is up first; drivers are kept off until each function has its address."""
    card = made["functions:host.eth0"]
    assert card.kernel == "host"
    assert card.needs == ("card:host.eth0",)
    writes = [(one.path.rpartition("/")[2], one.value) for one in card.actions if isinstance(one, Write)]
    assert writes == [
        ("sriov_drivers_autoprobe", "0"), ("sriov_numvfs", "2"), ("sriov_drivers_autoprobe", "1"),
    ]  # fmt: skip
    names = [type(one).__name__ for one in card.actions]
    assert names == ["Run", "Run", "Write", "Write", "Run", "Run", "Write"]
    assert undo_keys(card) == (
        "setting::/sys/class/net/eth0/device/sriov_drivers_autoprobe",
        "setting::/sys/class/net/eth0/device/sriov_numvfs",
    )


def test_a_namespace_gets_its_function_by_its_address(made: dict[str, Resource]) -> None:
    """It is moved and named at once, for two functions may have had one name."""
    function = made["function:a.p0"]
    assert set(function.needs) >= {"functions:host.eth0", "netns:a"}
    move = next(one for one in function.actions if isinstance(one, Run) and one.find)
    assert move.do.argv == ("ip", "link", "set", "dev", "{found}", "netns", "iolab-a", "name", "p0")
    assert not any(key.startswith(("bridge:", "veth:a")) for key in made)


def test_a_guest_is_started_when_its_function_is_left_to_it(made: dict[str, Resource]) -> None:
    """The hypervisor takes it from vfio-pci, under the address that the parent's kernel tells."""
    told = [one.word for one in made["function:inner.eth0"].actions if isinstance(one, Tell)]
    assert told == ["vfio-pci", "{found}"]
    assert "function:inner.eth0" in made["vm:inner"].needs
    (action,) = made["vm:inner"].actions
    assert isinstance(action, StartGuest)
    backend = action.guest.nics[0].backend
    assert backend == FunctionBackend("eth0", 1)
    place = Place(boot=PLACE.boot, folder="F", accel="kvm", functions={backend: "0000:01:10.2"})
    assert "vfio-pci,host=0000:01:10.2" in qemu_argv(action.guest, place)


def test_the_address_is_the_last_name_that_readlink_shows() -> None:
    """As the kernel links a function to its device."""
    assert value_shown(LastName(), "../0000:01:10.2\n") == "0000:01:10.2"
    assert value_shown(LastName(), "") is None


def test_an_igb_has_a_port_of_its_own_and_its_guest_an_iommu(made: dict[str, Resource]) -> None:
    """Two on one bus would fight for the addresses of their functions."""
    argv = guest_argv(made, "host")
    assert "-device pcie-root-port,id=root0,chassis=1 -device igb,netdev=net0," in argv
    assert ",bus=root0" in argv
    assert "-machine q35,kernel-irqchip=split -device intel-iommu,intremap=on,caching-mode=on" in argv
    assert " intel_iommu=on iommu=pt" in argv
    assert "intel-iommu" not in guest_argv(made, "inner")


def test_functions_of_a_card_are_on_the_network_of_its_port(lab: Lab) -> None:
    """The card's own switch joins them: one segment, and each has an address there."""
    (segment,) = make_topology(lab).segments
    assert [point.ref for point in segment.endpoints] == ["t.p0", "host.eth0", "a.p0", "inner.eth0"]


@pytest.mark.parametrize(
    ("changes", "links", "told"),
    [
        ({"host": {"kind": "vm"}}, LINKS, "the NIC of host, has no virtual functions; set `nic: igb` on host"),
        ({}, LINKS | {"card": ["a.p0", "inner.eth0"]}, "no port of the parent is an end of link card"),
        ({"a": {"kind": "netns", "on": "host"}}, LINKS, "a.p0 of link card would be bridged to the NIC"),
        ({}, LINKS | {"up": {"ends": LINKS["up"], "vlan": 5}}, "VLANs on a NIC with virtual functions"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_are_told_with_advice(
    make_lab: MakeLab, changes: Mapping[str, object], links: Mapping[str, object], told: str
) -> None:
    """In the words of the file."""
    found = [in_words(lack) for lack in function_needs(make_lab(machines(**changes), links))]
    assert any(told in name for name in found), found


def on_real_card(make_lab: MakeLab, forward: str) -> Lab:
    """Return a guest that has a function of a host's card."""
    machines: dict[str, object] = {
        "far": {"kind": "host"},
        "host": {"kind": "host", "ssh": "host"},
        "inner": {"kind": "vm", "on": "host", "nic": "sr-iov", "forward": forward},
    }
    cable = {"ends": ["far.lan0", "host.eth1"], "cable": True}
    return make_lab(machines, {"up": cable, "card": ["host.eth1", "inner.eth0"]})


def test_a_function_of_a_guest_that_bridges_lets_the_frames_of_others_through(make_lab: MakeLab) -> None:
    """It is trusted and not checked for its own address, before a driver sees it; that is read back."""
    let = ("ip", "link", "set", "dev", "eth1", "vf", "0", "trust", "on", "spoofchk", "off")
    for forward, wanted in (("bridge", True), ("route", False)):
        card = {one.key: one for one in compose(on_real_card(make_lab, forward))}["functions:host.eth1"]
        words = [one.do.argv if isinstance(one, Run) else () for one in card.actions]
        assert (let in words) is wanted
        assert ("trust on spoofchk off" in [one.expected for one in card.expect]) is wanted
    told = [{"vf": 0, "spoofchk": False, "trust": True}, {"vf": 1, "spoofchk": True, "trust": False}]
    shown = json.dumps([{"ifname": "eth1", "vfinfo_list": told}])
    assert value_shown(VirtualFunction("eth1", 0), shown) == "trust on spoofchk off"
    assert value_shown(VirtualFunction("eth1", 1), shown) == "trust off spoofchk on"
    assert value_shown(VirtualFunction("eth1", 2), shown) is None


def test_a_card_whose_functions_get_only_their_own_frames_bridges_nothing(make_lab: MakeLab) -> None:
    """The emulated card is of that kind; who routes may have one."""
    for forward, count in (("bridge", 1), ("route", 0)):
        inner = {"kind": "vm", "on": "host", "nic": "sr-iov", "forward": forward}
        found = [in_words(lack) for lack in function_needs(make_lab(machines(inner=inner), LINKS))]
        assert len(found) == count
        assert all(
            "a virtual function of an igb NIC receives only frames to its own address" in name
            for name in found
        )
