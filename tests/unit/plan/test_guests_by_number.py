"""Counted guests in a packet measure."""

from iolab.experiment.check import parse
from iolab.experiment.factors.resolve import Resolver
from iolab.experiment.model.packets import Packets
from iolab.lab.packets.placement import ways
from iolab.lab.topology import make_topology

TEXT = """
title: Guests by number
lab:
  machines:
    tester: {kind: netns}
    dut: {kind: vm, memory: 256M, cpus: 1, forward: bridge, count: 1}
  links:
    "west[*]": {ends: ["tester.dut[*]a", "dut[*].eth0"]}
    "east[*]": {ends: ["tester.dut[*]b", "dut[*].eth1"]}
measure:
  rate: {kind: forwarding, from: tester.dut1a, to: tester.dut1b,
         pairs: [{from: "tester.dut[*]a", to: "tester.dut[*]b"}]}
factors:
  machines.dut.count: [1, 2, 4, 8]
baseline: {machines.dut.count: 1}
"""


def test_number_of_guests_is_a_factor_of_a_forwarding_measure() -> None:
    """Give each guest a pair of ports, all measured at once."""
    resolver = Resolver(parse(TEXT, "guests.yaml"))
    for count in (1, 2, 4, 8):
        setup = resolver.setup({"machines.dut.count": str(count)})
        measure = setup.measures["rate"]
        assert isinstance(measure, Packets)
        directions = ways(setup.lab, make_topology(setup.lab), measure)
        assert [way.hops[0][1] for way in directions] == [
            f"dut{number}.eth0" for number in range(1, count + 1)
        ]
