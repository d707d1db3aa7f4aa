"""Ports: offload settings and static neighbour entries."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.ports.addresses import MOST_ENDPOINTS
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.resources import Resource, difference
from iolab.messages.conflicts import Conflict

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]


def dom0(make_lab: MakeLab, **offload: str) -> Lab:
    """Return two hosts with Xen, one of them with a domain whose link has these offloads."""
    machines = {
        "pc6": {"kind": "vm", "image": "xen", "memory": "2G"},
        "pc7": {"kind": "vm", "image": "xen", "memory": "2G"},
        "dom1": {"kind": "vm", "engine": "xen", "on": "pc6", "memory": "256M"},
    }
    links = {
        "lan": {"ends": ["pc6.eth0", "pc7.eth0"], "offload": {"tx_checksum": "on"}},
        "br6": {"ends": ["pc6.eth0", "dom1.eth0"], "host_offload": offload},
    }
    return make_lab(machines, links)


def offloads(lab: Lab) -> dict[str, Resource]:
    """Return the resources that set offloads."""
    return {one.key: one for one in compose(lab) if one.key.startswith("offload:")}


def test_offloads_are_set_on_every_interface_of_the_path_to_a_guest(make_lab: MakeLab) -> None:
    """Set each on its own kernel, read it back by name, and restore it."""
    found = offloads(dom0(make_lab, tx_checksum="off"))
    ways = {
        "offload:dom1.eth0:side:tx": ("pc6", "dom1.eth0", "tx of the parent's side of dom1.eth0"),
        "offload:pc6.br0:tx": ("pc6", "br0", "tx of the bridge of pc6"),
    }
    for key, (kernel, interface, what) in ways.items():
        (run,) = found[key].actions
        assert isinstance(run, Run)
        assert run.undo is not None
        assert found[key].kernel == kernel
        assert run.do.argv == ("ethtool", "-K", interface, "tx", "off")
        assert run.undo.argv == ("ethtool", "-K", interface, "{original}")
        assert [(one.expected, one.what) for one in found[key].expect] == [("tx off", what)]
    assert found["offload:pc6.eth0:tx"].expect[0].expected == "tx on"


def refused(make_lab: MakeLab, links: Mapping[str, Mapping[str, Any]], **pc: object) -> list[str]:
    """Return the conflicts of a lab with a parent and its child."""
    machines = {"near": "none", "pc": {"kind": "vm", "memory": "1G", **pc}, "d": {"kind": "netns", "on": "pc"},
                "m": {"kind": "vm", "on": "pc", "memory": "256M", "nic": "macvtap"},
                "x": {"kind": "vm", "on": "pc", "memory": "256M", "engine": "xen"}}  # fmt: skip
    used = {"near", "pc"} | {str(end).partition(".")[0] for link in links.values() for end in link["ends"]}
    lab = make_lab({name: machines[name] for name in machines if name in used}, links)
    return [in_words(each) for each in lab_needs(lab) if isinstance(each, Conflict)]


UP = {"ends": ["near.p0", "pc.eth0"]}


@pytest.mark.parametrize(
    ("links", "told"),
    [
        ({"up": {**UP, "host_offload": {"tso": "off"}}},
         "host_offload of link up: `host_offload` applies only to links that bridge a machine's port to its guests"),
        ({"up": UP, "down": {"ends": ["pc.eth0", "m.eth0"], "host_offload": {"tso": "off"}}},
         "host_offload of link down: "),
        ({"up": UP, "down": {"ends": ["pc.eth0", "x.eth0"], "offload": {"tx_checksum": "off"}}},
         "offload.tx_checksum of link down: the NIC driver of a Xen domain (x.eth0) cannot turn this offload off"),
    ],
)  # fmt: skip
def test_offload_that_cannot_be_switched_is_refused_before_the_run(
    make_lab: MakeLab, links: Mapping[str, Mapping[str, Any]], told: str
) -> None:
    """Check a link without a bridge to children, a macvtap, and a Xen NIC, whose driver does not allow it."""
    (seen,) = refused(make_lab, links, image="xen" if "x.eth0" in str(links) else "nested")
    assert seen.startswith(told)


def test_offload_change_is_applied_in_place(make_lab: MakeLab) -> None:
    """Restart no machine, and keep the first original."""
    labs = (tuple(compose(dom0(make_lab, tx_checksum=switch))) for switch in ("on", "off"))
    change = difference(*labs)
    assert change.undo == ()
    assert change.in_place == {"offload:dom1.eth0:side:tx", "offload:pc6.br0:tx"}


def test_conflicting_offloads_of_two_links_on_one_bridge_are_refused(make_lab: MakeLab) -> None:
    """Report the bridge that both links share."""
    machines = {"pc": {"kind": "vm", "memory": "1G", "forward": "bridge"}, "near": "none"} | {
        name: {"kind": "netns", "on": "pc"} for name in "ab"
    }
    links = {"up": ["near.p0", "pc.eth0"]} | {
        f"down-{name}": {"ends": ["pc.eth0", f"{name}.eth0"], "host_offload": {"tso": switch}}
        for name, switch in (("a", "on"), ("b", "off"))
    }
    with pytest.raises(
        InputError, match="tso is off here and on on link down-a, and the ports of both links are on the same"
    ):
        compose(make_lab(machines, links))


def entries(links: Mapping[str, Mapping[str, object]], **machines: dict[str, object]) -> dict[str, Resource]:
    """Return the entries of a lab of namespaces."""
    made = {name: Netns.model_validate({"kind": "netns"} | one) for name, one in machines.items()}
    lab = Lab(made, {name: Link.model_validate(one) for name, one in links.items()}, {})
    found = {resource.key: resource for resource in compose(lab)}
    return {key: one for key, one in found.items() if key.startswith("neighbour:")}


WIRE = {"loss": "1%"}
NETEM = {"loss": "1%", "emulator": "netem"}


def test_ends_of_an_emulated_link_have_permanent_neighbour_entries() -> None:
    """Add them without ARP, and without a read-back in each trial."""
    found = entries({"path": {"ends": ["a.eth0", "b.eth0"], "wire": WIRE}}, a={}, b={})
    assert set(found) == {"neighbour:a.eth0:b.eth0", "neighbour:b.eth0:a.eth0"}
    for entry in found.values():
        (action,) = entry.actions
        assert isinstance(action, Run)
        assert action.do.argv[:3] == ("ip", "neigh", "replace")
        assert "permanent" in action.do.argv
        assert entry.expect == ()


def test_ends_of_a_netem_link_have_permanent_neighbour_entries() -> None:
    """Add them, because netem loses ARP requests, too."""
    assert entries({"path": {"ends": ["a.eth0", "b.eth0"], "wire": NETEM}}, a={}, b={})


def test_ends_of_links_without_emulation_have_no_static_neighbour_entries() -> None:
    """Leave other links unchanged, even next to an emulated link."""
    links: dict[str, dict[str, object]] = {
        "path": {"ends": ["a.eth0", "r.eth0"], "wire": WIRE},
        "lan": {"ends": ["r.eth1", "b.eth0"]},
    }
    found = entries(links, a={}, r={"forward": "route"}, b={})
    assert set(found) == {"neighbour:a.eth0:r.eth0", "neighbour:r.eth0:a.eth0"}


def test_machines_bridged_behind_an_emulated_link_have_static_neighbour_entries() -> None:
    """Add them, because an ARP request would pass the link."""
    links: dict[str, dict[str, object]] = {
        "path": {"ends": ["a.eth0", "s.eth0"], "wire": WIRE},
        "lan": {"ends": ["s.eth1", "b.eth0"]},
    }
    found = entries(links, a={}, s={"forward": "bridge"}, b={})
    assert {"neighbour:a.eth0:b.eth0", "neighbour:b.eth0:a.eth0"} <= set(found)


def test_network_segment_with_many_machines_has_no_static_neighbour_entries() -> None:
    """Avoid entries that grow with the square of the number of endpoints."""

    def star(clients: int) -> dict[str, Resource]:
        links: dict[str, dict[str, object]] = {
            f"l{n}": {"ends": [f"c{n}.eth0", f"s.eth{n}"], "wire": WIRE} for n in range(clients)
        }
        return entries(links, s={"forward": "bridge"}, **{f"c{n}": {} for n in range(clients)})

    assert len(star(3)) >= 6
    assert star(MOST_ENDPOINTS + 1) == {}
