"""The commands of a plan, as text and as JSON."""

import json
import re
from dataclasses import replace
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
from iolab.plan.commands import MOST_LABS, Labs, StepCommands, commands, render, typed
from iolab.plan.plan_json import describe
from iolab.plan.planning import make_plan
from iolab.registry.registry import measure_kinds
from iolab.report.stated import stated

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "plan-json.md"


def every(experiment: Experiment, facts: Facts) -> list[StepCommands]:
    """Return all transitions of one block."""
    return list(commands(Labs(experiment, make_plan(experiment, facts, blocks=1))))


def test_each_planned_step_has_its_commands_and_the_end_undoes_all_changes(
    experiment: Experiment, facts: Facts
) -> None:
    """Check 18 steps and the teardown; namespaces are created once and removed at the end, in reverse order."""
    found = every(experiment, facts)
    assert len(found) == 19
    assert found[-1].step is None
    made = [one.argv[3] for step in found for one in step.done if one.argv[:3] == ("ip", "netns", "add")]
    removed = [one.argv[3] for step in found for one in step.undone if one.argv[:3] == ("ip", "netns", "del")]
    assert [name[5:] for name in made] == ["-a", "-b", "-c"]
    assert made[0][:5].isalpha()
    assert len({name[:5] for name in made}) == 1
    assert removed == made[::-1]
    assert found[0].undone == ()
    assert found[-1].done == ()


def test_only_settings_that_differ_are_changed_between_steps(experiment: Experiment, facts: Facts) -> None:
    """Run two commands for a different MTU, and none for a different window."""
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


def plain(line: str) -> str:
    """Return a line with TAG instead of the lab's tag."""
    return re.sub(r"\b[a-z]{5}-(?=[abc]\b)", "TAG-", line)


def test_command_lines_can_be_pasted_and_show_their_undo(experiment: Experiment, facts: Facts) -> None:
    """Use `ip -n` if possible, otherwise `ip netns exec`, and sysctl for settings."""
    lines = [plain(str(line)) for line in render(every(experiment, facts)[0])]
    assert lines[0].startswith("# block 1, tcp: links.lan.mtu=9000, ")
    assert "ip netns add TAG-a   # undo: ip netns del TAG-a" in lines
    add = "ip -n TAG-a addr add 198.18.0.1/24 dev eth0"
    assert f"{add}   # undo: ip -n TAG-a addr flush to 198.18.0.1/32 dev eth0" in lines
    forward = "ip netns exec TAG-b sysctl -w net.ipv4.ip_forward=1"
    undo = "ip netns exec TAG-b sysctl -w 'net.ipv4.ip_forward={original}'"
    assert f"{forward}   # undo: {undo}" in lines
    assert typed(Command(("tc", "qdisc", "show"))) == "tc qdisc show"
    assert typed(Command(("echo", "a b"), "n")) == "ip netns exec n echo 'a b'"


def test_teardown_is_printed_with_a_heading_and_without_undo_commands(
    experiment: Experiment, facts: Facts
) -> None:
    """Undo everything after the last step."""
    lines = [plain(str(line)) for line in render(every(experiment, facts)[-1])]
    assert lines[0] == "# end: all changes are undone"
    assert "ip netns del TAG-a" in lines
    assert not any("undo:" in line for line in lines)


def test_json_form_has_exactly_the_documented_fields(experiment: Experiment, facts: Facts) -> None:
    """Compare with the reference page."""
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


def test_device_with_a_thread_is_shown_with_cpu_and_priority(facts: Facts) -> None:
    """Show CPU and priority of a delay's thread, and none of an XDP program."""
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
    """Return the purpose of a CPU requirement."""
    return KeyOf(key="program_cpus", part=ForMachine(machine=machine))


def test_program_cpus_are_applied_per_cell_without_changing_the_lab(facts: Facts) -> None:
    """Pin the sender to CPU 0 in one of two cells without recreating anything."""
    experiment = parse(STREAM, "pin.yaml")
    first, second, _ = commands(Labs(experiment, make_plan(experiment, facts)))
    assert (second.done, second.undone) == ((), ())
    sending = []
    for step in (first, second):
        setup = Resolver(experiment).setup(step.cell)
        lines = measure_kinds()["stream"].commands(setup.measures["tcp"], make_topology(setup.lab))
        serving, client = map(str, lines)
        assert "taskset --cpu-list 0,1 iperf3 --server" in serving
        sending.append("taskset --cpu-list 0 iperf3 --client" in client)
    assert sorted(sending) == [False, True]


def test_program_cpus_must_exist_on_the_host() -> None:
    """Report a missing CPU in the plan."""
    lab = Resolver(parse(STREAM, "pin.yaml")).setup({"machines.near.program_cpus": "first"}).lab
    wanted = [one for one in lab_needs(lab) if isinstance(one, Need) and one.kind is NeedKind.CPU]
    assert [(one.name, one.purpose) for one in wanted] == [
        ("0", of("near")),
        ("0", of("far")),
        ("1", of("far")),
    ]


@pytest.mark.parametrize(("text", "place"), [(PACKETS, "frames.to"), (DISK, "disk.on")])
def test_program_cpus_are_refused_for_measures_that_ignore_them(text: str, place: str) -> None:
    """Refuse them for packet measures, whose threads iolab pins, and for disk programs."""
    with pytest.raises(InputError) as refused:
        parse(text, "pin.yaml")
    said = str(refused.value)
    assert f"measure.{place}" in said
    assert "'far', which has `program_cpus`" in said


def test_leases_of_a_plan_include_those_of_every_lab(facts: Facts) -> None:
    """Use more labs than are kept in memory: a lab that is no longer in memory is not mistaken for another lab."""
    text = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure:
  tcp: {kind: stream, from: a, to: b, duration: 1s}
factors: {machines.a.program_cpus: [CPUS]}
blocks: 1
"""
    count = 2 * MOST_LABS
    experiment = parse(text.replace("CPUS", ", ".join(f"[{cpu}]" for cpu in range(count))), "cpus.yaml")
    leases = Labs(experiment, make_plan(experiment, replace(facts, cpus=count))).leases()
    assert {f"cpu:{cpu}" for cpu in range(count)} <= set(leases[""])
