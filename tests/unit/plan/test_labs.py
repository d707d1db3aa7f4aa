"""The labs of a plan: composed from the plan alone, with the CPUs of every reached host."""

from dataclasses import replace

from iolab.experiment import parse
from iolab.lab.actions import PinGuest, PinNapi
from iolab.lab.hosts.facts import Facts, ImageFact, InterfaceFact, ProcessorFacts
from iolab.plan.commands import Labs, commands
from iolab.plan.plan_file import decode_plan, encode_plan
from iolab.plan.plan_json import describe
from iolab.plan.planning import make_plan
from iolab.report.stated import stated

PACKETS = """
lab:
  machines: {tester: {kind: netns}, dut: {kind: netns, forward: bridge}}
  links: {west: {ends: [tester.p0, dut.eth0]}, east: {ends: [tester.p1, dut.eth1]}}
measure:
  it: {kind: latency, rate: 1kpps, from: tester.p0, to: tester.p1}
"""
GUEST = """
lab:
  machines:
    pc1: {kind: host, ssh: root@pc1}
    t: {kind: netns, on: pc1}
    dut: {kind: vm, on: pc1, cpus: 2, pin: auto}
  links: {lan: {ends: [t.p0, dut.eth0]}}
measure:
  tcp: {kind: stream, protocol: tcp, from: t, to: dut}
"""


def test_plan_lines_and_plan_json_use_the_same_cpus(facts: Facts) -> None:
    """Check a host of eight CPUs, with separate CPUs for device and receiver."""
    experiment = parse(PACKETS, "p.yaml")
    plan = make_plan(experiment, replace(facts, cpus=8))
    pins = [a.cpu for one in Labs(experiment, plan).of(plan.steps[0]).resources for a in one.actions
            if isinstance(a, PinNapi)]  # fmt: skip
    assert pins == [1, 2]
    shown = [
        one.argv[3] for one in next(iter(commands(Labs(experiment, plan)))).done if one.argv[0] == "taskset"
    ]
    assert shown == ["1", "2"]
    document = str(describe(Labs(experiment, plan), stated))
    assert all(f"['taskset', '-c', '-p', '{cpu}'" in document for cpu in shown)


def test_cpus_of_remote_hosts_are_stored_in_the_plan(facts: Facts) -> None:
    """Pin a remote guest near its NIC by that host's facts; a run reads the same from plan.json."""
    nodes = ProcessorFacts(online="0-7", nodes={"0": "0-3", "1": "4-7"})
    card = InterfaceFact(name="eth1", mtu=1500, up=True, numa_node=1)
    there = replace(facts, cpus=8, processors=nodes, interfaces=(card,))
    here = replace(facts, images=(ImageFact(flavour="linux"),), hosts={"pc1": there})
    experiment = parse(GUEST, "g.yaml")
    plan = make_plan(experiment, here)
    assert plan.computers["pc1"].order("eth1")[:4] == (4, 5, 6, 7)
    again = decode_plan(encode_plan(plan))
    assert again == plan
    for one in (plan, again):
        resources = Labs(experiment, one).of(one.steps[0]).resources
        (pin,) = (a for resource in resources for a in resource.actions if isinstance(a, PinGuest))
        assert pin.vcpus == (1, 2)
        assert pin.carriers == (3, 4, 5, 6, 7)
