"""The commands of a plan, as people see them and as JSON."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, parse
from iolab.experiment.experiment import Experiment
from iolab.lab.actions import Command
from iolab.lab.hosts.facts import Facts
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.topology import make_topology
from iolab.messages.places import ForMachine, KeyOf
from iolab.messages.statement import CODE
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.commands import Labs, StepCommands, commands, render, typed
from iolab.plan.plan_json import describe
from iolab.plan.planning import make_plan
from iolab.registry.registry import measure_kinds
from iolab.report.stated import stated

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "plan-json.md"


def every(experiment: Experiment, facts: Facts) -> list[StepCommands]:
    """Return all transitions of one block."""
    return list(commands(Labs(experiment, make_plan(experiment, facts, blocks=1))))


def test_each_step_has_its_transition_and_the_end_takes_all_back(
    experiment: Experiment, facts: Facts
) -> None:
    """18 steps and the teardown; namespaces are made once and removed at the end, in reverse."""
    found = every(experiment, facts)
    assert len(found) == 19
    assert found[-1].step is None
    made = [one.argv[3] for step in found for one in step.done if one.argv[:3] == ("ip", "netns", "add")]
    removed = [one.argv[3] for step in found for one in step.undone if one.argv[:3] == ("ip", "netns", "del")]
    assert made == ["iolab-a", "iolab-b", "iolab-c"]
    assert removed == made[::-1]
    assert found[0].undone == ()
    assert found[-1].done == ()


def test_only_what_differs_is_changed_between_steps(experiment: Experiment, facts: Facts) -> None:
    """Another MTU: its two commands. Another window only: none."""
    found = every(experiment, facts)
    met: set[str] = set()
    for before, after in pairwise(found[:-1]):
        changed = {name for name in after.cell if after.cell[name] != before.cell.get(name)}
        argvs = [one.argv for one in after.done]
        if changed == {"links.lan.mtu"}:
            mtu = after.cell["links.lan.mtu"]
            assert argvs == [("ip", "link", "set", "dev", "eth0", "mtu", mtu)] * 2
            met.add("mtu")
        if not changed & {"links.lan.mtu", "machines.b.forward"}:
            assert (argvs, after.undone) == ([], ())
            met.add("nothing")
    assert met == {"mtu", "nothing"}


def test_lines_can_be_pasted_and_name_their_undo(experiment: Experiment, facts: Facts) -> None:
    """`ip -n` where ip has it, `ip netns exec` elsewhere, settings by sysctl."""
    lines = render(every(experiment, facts)[0])
    assert lines[0].startswith("# block 1, tcp: links.lan.mtu=9000, ")
    assert "ip netns add iolab-a   # undo: ip netns del iolab-a" in lines
    add = "ip -n iolab-a addr add 198.18.0.1/24 dev eth0"
    assert f"{add}   # undo: ip -n iolab-a addr flush to 198.18.0.1/32 dev eth0" in lines
    forward = "ip netns exec iolab-b sysctl -w net.ipv4.ip_forward=1"
    undo = "ip netns exec iolab-b sysctl -w 'net.ipv4.ip_forward={original}'"
    assert f"{forward}   # undo: {undo}" in lines
    assert typed(Command(("tc", "qdisc", "show"))) == "tc qdisc show"
    assert typed(Command(("echo", "a b"), "n")) == "ip netns exec n echo 'a b'"


def test_the_teardown_is_headed_and_has_no_undo_of_its_own(experiment: Experiment, facts: Facts) -> None:
    """After the last step everything is taken back."""
    lines = render(every(experiment, facts)[-1])
    assert lines[0] == "# end: everything is taken back"
    assert "ip netns del iolab-a" in lines
    assert not any("undo:" in line for line in lines)


def test_the_json_form_has_exactly_the_documented_fields(experiment: Experiment, facts: Facts) -> None:
    """The reference page names every field, and the document has no other."""
    document = json.loads(
        json.dumps(describe(Labs(experiment, make_plan(experiment, facts, blocks=1)), stated))
    )
    page = REFERENCE.read_text()
    example = json.loads(page.split("```json\n")[1].split("```")[0])
    assert set(document) == set(example)
    for part in ("factors", "steps", "commands"):
        assert set(document[part][0]) == set(example[part][0])
    assert set(document["commands"][0]["done"][0]) == set(example["commands"][0]["done"][0])
    (lacking,) = example["unsupported"]
    reason = lacking["reason"]
    assert reason == stated(UnmetRequirement.model_validate({CODE: reason["code"], **reason["parameters"]}))
    for field in document:
        assert f"`{field}`" in page
    assert len(document["steps"]) == 18
    assert [one["step"] for one in document["commands"]] == [*(one["key"] for one in document["steps"]), None]


def test_a_device_with_a_thread_shows_where_that_runs(facts: Facts) -> None:
    """CPU and priority of a delay's thread; an XDP program has none."""
    text = """
lab:
  machines: {tester: {kind: netns}, dut: {kind: netns, forward: xdp, device: DEVICE}}
  links: {west: {ends: [tester.p0, dut.eth0]}, east: {ends: [tester.p1, dut.eth1]}}
measure:
  it: {kind: latency, rate: 1kpps, from: tester.p0, to: tester.p1}
"""
    shown = {
        device: [
            one.argv
            for one in every(parse(text.replace("DEVICE", device), "t"), facts)[0].done
            if one.argv[:3] == ("iolab-agent", "device.start", "eth0")
        ]
        for device in ("{delay: 1ms}", "{rate: 1kpps, burst: 8}")
    }
    ((*_, stages, seed, cpu, priority),) = shown["{delay: 1ms}"]
    assert (stages, seed) == ('impairments=[{"kind":"delay","delay_ns":1000000}]', "seed=1")
    assert cpu.startswith("cpu=")
    assert priority.startswith("priority=")
    ((*_, stages, last),) = shown["{rate: 1kpps, burst: 8}"]
    assert ('"burst_frames":8' in stages, last) == (True, "seed=1")


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
    first, second, _ = commands(Labs(experiment, make_plan(experiment, facts)))
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
    assert "'far', which has `program_cpus`" in said
