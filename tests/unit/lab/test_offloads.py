"""Offloads on a machine's way to its own children: the card, the parent's side of it, and the bridge between."""

from collections.abc import Callable, Mapping

import pytest

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.lab.compose import compose
from iolab.lab.difference import difference
from iolab.lab.resources import Resource, Run

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
        "br6": {"ends": ["pc6.eth0", "dom1.eth0"], "offload": offload},
    }
    return make_lab(machines, links)


def offloads(lab: Lab) -> dict[str, Resource]:
    """Return the resources that set offloads."""
    return {one.key: one for one in compose(lab) if one.key.startswith("offload:")}


def test_the_whole_way_to_a_guest_gets_its_offloads(make_lab: MakeLab) -> None:
    """Each is set on its own kernel, read back by name, and put back as it was."""
    found = offloads(dom0(make_lab, tx_checksum="off"))
    ways = {
        "offload:dom1.eth0:tx": ("dom1", "eth0", "tx of dom1.eth0"),
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


def test_only_what_is_sent_is_asked_of_the_parents_side(make_lab: MakeLab) -> None:
    """What a bridge and a vif do for received frames is not theirs to choose."""
    found = offloads(dom0(make_lab, gro="off", rx_checksum="off"))
    assert set(found) == {"offload:pc6.eth0:tx", "offload:pc7.eth0:tx", "offload:dom1.eth0:rx+gro"}


def test_another_level_is_set_in_place(make_lab: MakeLab) -> None:
    """No machine restarts, and the first original is kept."""
    labs = (tuple(compose(dom0(make_lab, tx_checksum=switch))) for switch in ("on", "off"))
    change = difference(*labs)
    assert change.undo == ()
    assert change.in_place == {"offload:dom1.eth0:tx", "offload:dom1.eth0:side:tx", "offload:pc6.br0:tx"}


def test_two_links_of_one_bridge_must_agree(make_lab: MakeLab) -> None:
    """The bridge is one."""
    machines = {"pc": {"kind": "vm", "memory": "1G", "forward": "bridge"}, "near": "none"} | {
        name: {"kind": "netns", "on": "pc"} for name in "ab"
    }
    links = {"up": ["near.p0", "pc.eth0"]} | {
        f"down-{name}": {"ends": ["pc.eth0", f"{name}.eth0"], "offload": {"tso": switch}}
        for name, switch in (("a", "on"), ("b", "off"))
    }
    with pytest.raises(
        InputError, match="tso off, and tso on on link down-a, whose ports are on the same bridge"
    ):
        compose(make_lab(machines, links))
