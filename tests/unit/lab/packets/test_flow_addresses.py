"""Flows: the addresses that they come from."""

from collections.abc import Callable, Mapping

import pytest

from iolab.experiment.experiment import Lab
from iolab.experiment.measures import Forwarding
from iolab.lab.packets.flow_addresses import source_addresses
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
    assert source_addresses(lab, way, flows) == expected
