"""Cables between hosts: existing interfaces stay, settings are restored, and the hosts' kernels apply them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from tests.unit.lab.conftest import missing, needs

from iolab.experiment.experiment import Lab, Setup
from iolab.lab.actions import Run, filled
from iolab.lab.compose import compose
from iolab.lab.hosts.facts import Facts, InterfaceFact
from iolab.lab.readback.values import HasAddress
from iolab.lab.resources import Resource, difference

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
FACTS = Facts(
    hostname="pc0", kernel="6.1.0", architecture="x86_64", os="Debian", cpu_model="any", cpus=4,
    memory_bytes=8 << 30, clocksource="tsc", load_1min_milli=0,
    interfaces=(InterfaceFact(name="lan0", mtu=1500, up=True),),
)  # fmt: skip


@pytest.fixture
def cabled(make_lab: MakeLab) -> Callable[..., Lab]:
    """Provide a maker of two hosts, the local one and a remote one, with a cable between them."""

    def make(**link: object) -> Lab:
        machines = {"here": {"kind": "host"}, "pc6": {"kind": "host", "ssh": "root@pc6"}}
        ends = ["here.lan0", "pc6.eth0"]
        return make_lab(machines, {"lan": {"ends": ends, "cable": True, **link}})

    return make


def by_key(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def test_no_interface_is_created_or_brought_up_for_a_cable(cabled: Callable[..., Lab]) -> None:
    """Read back that its interfaces are up; bring none up or down."""
    found = by_key(cabled())
    assert found["cable:pc6.eth0"].actions == ()
    assert [one.what for one in found["cable:pc6.eth0"].expect] == ["carrier of pc6.eth0"]
    words = [run.do.argv for one in found.values() for run in one.actions if isinstance(run, Run)]
    assert not any(argv[:3] == ("ip", "link", "add") or argv[-1] in ("up", "down") for argv in words)


def test_each_host_sets_mtu_and_offloads_of_its_end_and_restores_the_originals(
    cabled: Callable[..., Lab],
) -> None:
    """Read the originals first, and keep the first ones at later levels."""
    found = by_key(cabled(mtu=9000, offload={"tso": "off"}))
    assert [found[key].kernel for key in ("mtu:lan:here.lan0", "mtu:lan:pc6.eth0")] == ["", "pc6"]
    (run,) = found["mtu:lan:pc6.eth0"].actions
    assert isinstance(run, Run)
    assert run.undo is not None
    assert filled(run.undo, "1500").argv == ("ip", "link", "set", "dev", "eth0", "mtu", "1500")
    assert found["offload:pc6.eth0:tso"].kernel == "pc6"
    change = difference(
        tuple(found.values()), tuple(by_key(cabled(mtu=4000, offload={"tso": "off"})).values())
    )
    assert change.undo == ()
    assert change.in_place == {"mtu:lan:here.lan0", "mtu:lan:pc6.eth0"}


def test_test_address_is_added_to_the_existing_addresses_of_a_cabled_interface(
    cabled: Callable[..., Lab],
) -> None:
    """Check and remove only the added address."""
    address = by_key(cabled())["address:pc6.eth0"]
    assert address.expect[0].reading.how == HasAddress("eth0", "198.18.0.2/24")
    (run,) = address.actions
    assert isinstance(run, Run)
    assert run.undo is not None
    assert run.undo.argv == ("ip", "addr", "flush", "to", "198.18.0.2/32", "dev", "eth0")


def test_vlan_on_a_cable_is_a_separate_interface(cabled: Callable[..., Lab]) -> None:
    """Create it on each host and remove it again; set its MTU after that of the NIC."""
    found = by_key(cabled(vlan=100, mtu=9000))
    runs = [run.do.argv[4] for run in found["mtu:lan:pc6.eth0"].actions if isinstance(run, Run)]
    assert runs == ["eth0", "eth0.100"]
    (add, up) = found["vlan:pc6.eth0"].actions
    assert isinstance(add, Run)
    assert isinstance(up, Run)
    assert add.do.argv[-4:] == ("type", "vlan", "id", "100")
    assert add.undo is not None


def test_original_qdisc_of_a_nic_is_restored(cabled: Callable[..., Lab]) -> None:
    """Read the original first; a veth has none."""
    shape = {"at": "pc6.eth0", "qdisc": "tbf", "rate": "100Mbit"}
    resource = by_key(cabled(shape=shape))["qdisc:pc6.eth0"]
    run = resource.actions[0]
    assert isinstance(run, Run)
    assert run.undo is not None
    assert run.original is not None
    assert filled(run.undo, "mq").argv == ("tc", "qdisc", "replace", "dev", "eth0", "root", "mq")
    assert resource.kernel == "pc6"


def test_missing_interface_of_a_cable_is_reported(cabled: Callable[..., Lab]) -> None:
    """Check the local interface; the remote one is checked when the host is reached."""
    setup = Setup(cabled(), {})
    assert missing(needs(setup), FACTS) is None
    told = missing(needs(setup), replace(FACTS, interfaces=()))
    assert told == "port here.lan0: this host has no interface lan0, and no other interface either"


def test_cable_on_an_interface_that_carries_the_ssh_connection_is_refused(cabled: Callable[..., Lab]) -> None:
    """Refuse it at either end, because it would cut off the run or its user."""
    setup = Setup(cabled(), {})
    told = missing(needs(setup), replace(FACTS, control_interfaces=("lan0",)))
    assert told is not None
    assert told.startswith("port here.lan0: lan0 carries an SSH connection to or from this host")
    other = replace(FACTS, interfaces=(InterfaceFact(name="eth0", mtu=1500, up=True),))
    other = replace(other, control_interfaces=("eth0",))
    told = missing(needs(setup), replace(FACTS, hosts={"pc6": other}))
    assert told is not None
    assert told.startswith("port pc6.eth0: eth0 carries an SSH connection to or from pc6")
