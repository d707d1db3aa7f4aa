"""Virtual functions of a NIC: their commands, their machines, and conflicts."""

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
    """Return a guest with an igb NIC, a namespace and a nested guest with its functions, and a tester."""
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


def test_virtual_functions_get_their_addresses_before_a_driver_is_bound(made: dict[str, Resource]) -> None:
    """Bring the NIC up first; disable driver autoprobe until each function has its address."""
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


def test_namespace_gets_the_virtual_function_with_its_address(made: dict[str, Resource]) -> None:
    """Move and rename it in one command, because two functions may have the same name."""
    function = made["function:a.p0"]
    assert set(function.needs) >= {"functions:host.eth0", "netns:a"}
    move = next(one for one in function.actions if isinstance(one, Run) and one.find)
    assert move.do.argv == ("ip", "link", "set", "dev", "{found}", "netns", "iolab-a", "name", "p0")
    assert not any(key.startswith(("bridge:", "veth:a")) for key in made)


def test_guest_is_started_with_its_virtual_function_bound_to_vfio(made: dict[str, Resource]) -> None:
    """Pass it from vfio-pci at the PCI address of the parent's kernel."""
    told = [one.word for one in made["function:inner.eth0"].actions if isinstance(one, Tell)]
    assert told == ["vfio-pci", "{found}"]
    assert "function:inner.eth0" in made["vm:inner"].needs
    (action,) = made["vm:inner"].actions
    assert isinstance(action, StartGuest)
    backend = action.guest.nics[0].backend
    assert backend == FunctionBackend("eth0", 1)
    place = Place(boot=PLACE.boot, folder="F", accel="kvm", functions={backend: "0000:01:10.2"})
    assert "vfio-pci,host=0000:01:10.2" in qemu_argv(action.guest, place)


def test_pci_address_is_the_last_component_of_the_readlink_output() -> None:
    """Parse the kernel's link from a function to its device."""
    assert value_shown(LastName(), "../0000:01:10.2\n") == "0000:01:10.2"
    assert value_shown(LastName(), "") is None


def test_igb_nic_has_a_separate_pci_port_and_its_guest_an_iommu(made: dict[str, Resource]) -> None:
    """Use separate ports, because two NICs on one bus would share function addresses."""
    argv = guest_argv(made, "host")
    assert "-device pcie-root-port,id=root0,chassis=1 -device igb,netdev=net0," in argv
    assert ",bus=root0" in argv
    assert "-machine q35,kernel-irqchip=split -device intel-iommu,intremap=on,caching-mode=on" in argv
    assert " intel_iommu=on iommu=pt" in argv
    assert "intel-iommu" not in guest_argv(made, "inner")


def test_virtual_functions_are_on_the_segment_of_their_nics_port(lab: Lab) -> None:
    """Use the NIC's own switch: one segment, with an address for each."""
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
def test_invalid_virtual_functions_are_refused_with_advice(
    make_lab: MakeLab, changes: Mapping[str, object], links: Mapping[str, object], told: str
) -> None:
    """Use the terms of the file."""
    found = [in_words(lack) for lack in function_needs(make_lab(machines(**changes), links))]
    assert any(told in name for name in found), found


def on_real_card(make_lab: MakeLab, forward: str) -> Lab:
    """Return a guest with a function of a host's NIC."""
    machines: dict[str, object] = {
        "far": {"kind": "host"},
        "host": {"kind": "host", "ssh": "host"},
        "inner": {"kind": "vm", "on": "host", "nic": "sr-iov", "forward": forward},
    }
    cable = {"ends": ["far.lan0", "host.eth1"], "cable": True}
    return make_lab(machines, {"up": cable, "card": ["host.eth1", "inner.eth0"]})


def test_virtual_function_of_a_bridging_guest_is_trusted_and_not_spoof_checked(make_lab: MakeLab) -> None:
    """Trust it without a spoof check before a driver is bound, and read that back."""
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


def test_bridging_over_a_virtual_function_of_an_igb_nic_is_refused(make_lab: MakeLab) -> None:
    """Refuse bridging over the emulated NIC; accept routing."""
    for forward, count in (("bridge", 1), ("route", 0)):
        inner = {"kind": "vm", "on": "host", "nic": "sr-iov", "forward": forward}
        found = [in_words(lack) for lack in function_needs(make_lab(machines(inner=inner), LINKS))]
        assert len(found) == count
        assert all(
            "a virtual function of an igb NIC receives only frames to its own address" in name
            for name in found
        )
