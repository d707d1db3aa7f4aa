"""Flows: the addresses that they come from."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.packets import Forwarding
from iolab.lab.packets.flow_addresses import FIELDS, Sweep, flow_sweeps, source_addresses
from iolab.lab.packets.placement import ways
from iolab.lab.topology import make_topology

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]


@pytest.mark.parametrize(
    ("addresses", "flows", "expected"),
    [
        ({}, 1, ("198.18.0.1", 1)),
        ({}, 64, ("198.18.0.4", 64)),
        ({}, 4096, ("198.18.0.4", 251)),
        ({"tester.p0": "198.18.9.1/29", "tester.p1": "198.18.9.2/29"}, 8, ("198.18.9.4", 3)),
    ],
)
def test_flows_come_from_addresses_that_no_machine_has(
    make_lab: MakeLab, addresses: Mapping[str, str], flows: int, expected: tuple[str, int]
) -> None:
    """So a card that chooses a queue by addresses spreads them, and a router lets them in; as many as have room."""
    machines = {"tester": "none", "dut": "bridge"}
    links = {
        "west": {"ends": ["tester.p0", "dut.eth0"],
                 "addresses": {end: value for end, value in addresses.items() if end.endswith("p0")}},
        "east": {"ends": ["tester.p1", "dut.eth1"],
                 "addresses": {end: value for end, value in addresses.items() if end.endswith("p1")}},
    }  # fmt: skip
    lab = make_lab(machines, links)
    measure = Forwarding.model_validate({"kind": "forwarding", "from": "tester.p0", "to": "tester.p1"})
    (way,) = ways(lab, make_topology(lab), measure)
    assert source_addresses(way, way.source, flows) == expected


def sweeps(index: int = 0, **keys: Any) -> dict[str, Sweep]:
    """Return what the flows of a direction have in each field."""
    made, wanted = lab(), measure(**keys)
    return flow_sweeps(wanted, ways(made, make_topology(made), wanted)[index], index)


def told_apart(found: dict[str, Sweep], flows: int) -> int:
    """Count the flows that differ, as the agent walks the ranges."""
    parts = [(one.count, one.every) for one in found.values()]
    return len({tuple(flow // every % count for count, every in parts) for flow in range(flows)})


def test_without_rules_address_and_port_change_together() -> None:
    """Whichever a card looks at, each flow is another one to it."""
    found = sweeps(flows=100)
    assert (found["source_address"].count, found["source_port"].count) == (100, 100)
    assert {one.every for one in found.values()} == {1}


def test_more_flows_than_ports_have_every_combination() -> None:
    """A /24 has room for 250 addresses: times 64 512 ports."""
    found = sweeps(flows=1_000_000)
    assert found["source_port"] == Sweep(1024, 64_512, 1, found["source_address"].count)
    assert told_apart(found, 1_000_000) == 1_000_000


def test_rules_give_every_combination_in_their_order() -> None:
    """Source addresses change first, destination ports last."""
    rules = {
        "source": "198.18.0.10-198.18.0.19", "destination": "198.19.0.0/28",
        "source_port": "5000-5004", "destination_port": "80-81",
    }  # fmt: skip
    found = sweeps(flows=1600, flow_rules=rules)
    assert [found[name].every for name in FIELDS] == [1, 10, 160, 800]
    assert told_apart(found, 1600) == 1600


def test_what_no_rule_gives_changes_only_where_the_rules_are_not_enough() -> None:
    """A hundred ports are a hundred flows; of the hundred and first the source address is another one."""
    found = sweeps(flows=200, flow_rules={"source_port": "2000-2099"})
    assert found["source_port"].every == 1
    assert found["source_address"].every == 100


def test_flows_of_the_way_back_have_them_the_other_way_round() -> None:
    """As answers would."""
    rules = {"source": "198.18.0.10", "destination": "198.19.0.5", "destination_port": 80}
    found = sweeps(1, direction="both-ways", flow_rules=rules)
    assert (found["source_address"].first, found["destination_address"].first) == (
        "198.19.0.5",
        "198.18.0.10",
    )
    assert found["source_port"].first == 80


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"flows": 11, "flow_rules": {"source": "198.18.0.1-198.18.0.10", "source_port": 9}},
            "at most 10 flows",
        ),
        ({"flow_rules": {"source": "2001:2::1"}}, "addresses of IPv4"),
        ({"protocol": "icmp", "flow_rules": {"destination_port": 9}}, "destination_port with protocol: icmp"),
    ],
)
def test_rules_that_do_not_give_the_flows_are_refused(keys: Mapping[str, Any], words: str) -> None:
    """Before anything is built."""
    with pytest.raises(InputError) as caught:
        sweeps(**keys)
    assert words in str(caught.value.problems[0])
