"""Offloads on a machine's way to its own children: its side of each child's card, and the bridge to them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.lab.actions import Run
from iolab.lab.compose import compose
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


def test_the_whole_way_to_a_guest_gets_its_offloads(make_lab: MakeLab) -> None:
    """Each is set on its own kernel, read back by name, and put back as it was."""
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
    """Return what of a lab with a parent and its child does not go together."""
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
         "host_offload of link up: it does not lead from a port of a machine to its own children by a bridge"),
        ({"up": UP, "down": {"ends": ["pc.eth0", "m.eth0"], "host_offload": {"tso": "off"}}},
         "host_offload of link down: "),
        ({"up": UP, "down": {"ends": ["pc.eth0", "x.eth0"], "offload": {"tx_checksum": "off"}}},
         "offload.tx_checksum of link down: the driver of a domain's card (x.eth0) has it always on"),
    ],
)  # fmt: skip
def test_what_cannot_be_switched_is_told_before_anything_starts(
    make_lab: MakeLab, links: Mapping[str, Mapping[str, Any]], told: str
) -> None:
    """A link without a bridge to children, a macvtap, and the card of a Xen domain, whose driver has it fixed."""
    (seen,) = refused(make_lab, links, image="xen" if "x.eth0" in str(links) else "nested")
    assert seen.startswith(told)


def test_another_level_is_set_in_place(make_lab: MakeLab) -> None:
    """No machine restarts, and the first original is kept."""
    labs = (tuple(compose(dom0(make_lab, tx_checksum=switch))) for switch in ("on", "off"))
    change = difference(*labs)
    assert change.undo == ()
    assert change.in_place == {"offload:dom1.eth0:side:tx", "offload:pc6.br0:tx"}


def test_two_links_of_one_bridge_must_agree(make_lab: MakeLab) -> None:
    """The bridge is one."""
    machines = {"pc": {"kind": "vm", "memory": "1G", "forward": "bridge"}, "near": "none"} | {
        name: {"kind": "netns", "on": "pc"} for name in "ab"
    }
    links = {"up": ["near.p0", "pc.eth0"]} | {
        f"down-{name}": {"ends": ["pc.eth0", f"{name}.eth0"], "host_offload": {"tso": switch}}
        for name, switch in (("a", "on"), ("b", "off"))
    }
    with pytest.raises(
        InputError, match="tso off, and tso on on link down-a, whose ports are on the same bridge"
    ):
        compose(make_lab(machines, links))
