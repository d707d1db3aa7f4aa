"""Programs of a namespace machine on CPUs of their own: as a level, in the plan, and where they are refused."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, parse
from iolab.lab.hosts.facts import Facts
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.topology import make_topology
from iolab.messages.subjects import ForMachine, KeyOf
from iolab.plan.commands import commands
from iolab.plan.planning import make_plan
from iolab.registry.registry import measure_kinds

LAB = """
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns, program_cpus: [0, 1]}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
"""
STREAM = (
    LAB
    + """
  tcp: {kind: stream, from: near, to: far, duration: 1s}
factors:
  machines.near.program_cpus: {any: [], first: [0]}
blocks: 1
"""
)
PACKETS = LAB + "  frames: {kind: latency, from: near, to: far, rate: 1kpps}\n"
DISK = LAB + "  disk: {kind: disk, program: hdparm, on: far}\n"


def of(machine: str) -> KeyOf:
    """Return what a CPU is needed for."""
    return KeyOf(key="program_cpus", part=ForMachine(machine=machine))


def test_each_program_is_planned_on_its_cpus_and_the_lab_stays(facts: Facts) -> None:
    """The sender is kept to CPU 0 in one of two cells; nothing of the lab is made again for that."""
    experiment = parse(STREAM, "pin.yaml")
    first, second, _ = commands(experiment, make_plan(experiment, facts))
    assert (second.done, second.undone) == ((), ())
    sending = []
    for step in (first, second):
        setup = Resolver(experiment).setup(step.cell)
        serving, client = measure_kinds()["stream"].commands(setup.measures["tcp"], make_topology(setup.lab))
        assert "taskset --cpu-list 0,1 iperf3 --server" in serving
        sending.append("taskset --cpu-list 0 iperf3 --client" in client)
    assert sorted(sending) == [False, True]


def test_each_cpu_must_be_there() -> None:
    """A CPU that the host lacks is said by the plan."""
    lab = Resolver(parse(STREAM, "pin.yaml")).setup({"machines.near.program_cpus": "first"}).lab
    wanted = [one for one in lab_needs(lab) if isinstance(one, Need) and one.kind is NeedKind.CPU]
    assert [(one.name, one.purpose) for one in wanted] == [
        ("0", of("near")),
        ("0", of("far")),
        ("1", of("far")),
    ]


@pytest.mark.parametrize(("text", "place"), [(PACKETS, "frames.to"), (DISK, "disk.on")])
def test_kinds_that_do_not_follow_them_refuse_them(text: str, place: str) -> None:
    """Frames of our own have senders and receivers pinned by iolab; disk programs run where their disks are."""
    with pytest.raises(InputError) as refused:
        parse(text, "pin.yaml")
    said = str(refused.value)
    assert f"measure.{place}" in said
    assert "'far', which has program_cpus" in said
