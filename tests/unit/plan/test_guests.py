"""Plans with guests: the studies, shown commands, the slowest factor, durations."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.wording import in_words

from iolab.experiment import load, parse
from iolab.experiment.experiment import Experiment
from iolab.lab.hosts.facts import ONLINE_CPUS, Facts, ImageFact
from iolab.lab.resources import Resource, difference, guests
from iolab.plan.commands import Labs, commands, render
from iolab.plan.planning import make_plan

STUDIES = Path(__file__).parents[1] / "experiment" / "studies"
TEXT = """
title: Small
lab:
  machines:
    t: {kind: netns}
    dut: {kind: vm, cpus: 2, forward: bridge}
  links:
    west: {ends: [t.p0, dut.eth0]}
    east: {ends: [t.p1, dut.eth1]}
measure:
  ndr: {kind: forwarding, from: t.p0, to: t.p1, frame_size: 64, search: fast}
factors:
  machines.dut.nic: [e1000, virtio-net]
  machines.dut.pin: [none, auto]
  ndr.frame_size: [64, 1518]
blocks: 2
"""


@pytest.fixture
def able(facts: Facts) -> Facts:
    """Return a host that has every guest image."""
    images = tuple(ImageFact(flavour=name) for name in ("linux", "nested", "xen"))
    return replace(facts, cpus=4, images=images)


@pytest.fixture
def small() -> Experiment:
    """Return an experiment with a guest: two NICs, two pins, two frame sizes, two blocks."""
    return parse(TEXT, "small.yaml")


def starts(experiment: Experiment, facts: Facts) -> list[tuple[str, ...]]:
    """Return the guests that each step of a plan starts."""
    plan = make_plan(experiment, facts)
    labs = Labs(experiment, plan)
    found: list[tuple[str, ...]] = []
    standing: tuple[Resource, ...] = ()
    for step in plan.steps:
        wanted = labs.of(step).resources
        change = difference(standing, wanted)
        found.append(tuple(name for resource in change.do for name in guests(resource)))
        standing = wanted
    return found


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_study_is_planned_without_an_error(path: Path, able: Facts) -> None:
    """Return a reason for unsupported cells, never an error."""
    plan = make_plan(load(path), able)
    assert plan.steps or plan.unsupported
    assert all(":" in in_words(one.reason) for one in plan.unsupported)


def test_guest_studies_are_runnable_if_the_images_exist(able: Facts) -> None:
    """Plan all cells of the Xen study, and those of the forwarding study that the kernel supports."""
    xen = make_plan(load(STUDIES / "xen-vlan.yaml"), able)
    assert (len(xen.steps), xen.unsupported) == (360, ())
    without = replace(able, features={"device:vhost-net": False})
    forwarding = make_plan(load(STUDIES / "kvm-forwarding.yaml"), without)
    assert {one.cell["machines.dut.nic"] for one in forwarding.unsupported} == {"vhost-net"}
    assert "put tester and dut in a VM" in in_words(forwarding.unsupported[0].reason)


def test_only_the_pin_level_with_a_missing_cpu_is_left_out(able: Facts) -> None:
    """Check the requirements of each level separately."""
    there = replace(able, settings={ONLINE_CPUS: "0-1"})
    text = TEXT.replace("pin: [none, auto]", "pin: {there: [0, 1], not there: [0, 99]}")
    found = make_plan(parse(text, "small.yaml"), there).unsupported
    assert {one.cell["machines.dut.pin"] for one in found} == {"not there"}
    assert {in_words(one.reason) for one in found} == {
        "pin of machine dut: this host has no CPU 99; its online CPUs are 0-1"
    }


SERVER = """
title: A server in a guest
lab:
  machines:
    a: {kind: netns}
    dut: {kind: vm, install: [wrk], run: {rules: none}}
  links: {lan: {ends: [a.eth0, dut.eth0]}}
measure: {get: {kind: command, on: dut, run: [wrk, "http://{a}"]}}
factors:
  machines.dut.run.rules:
    {none: none, some: {do: [fwctl, add], undo: [fwctl, del]}, nft: {do: [nft, x], undo: [nft, y]}}
"""


def test_programs_and_modules_that_only_a_later_level_needs_are_checked(able: Facts) -> None:
    """Check the image with the experiment's packages, and its kernel."""
    image = ImageFact(
        flavour="linux:wrk", features={"firewall:nftables": False}, programs={"fwctl": False, "wrk": True}
    )
    found = make_plan(parse(SERVER, "f.yaml"), replace(able, images=(*able.images, image))).unsupported
    assert {one.cell["machines.dut.run.rules"]: in_words(one.reason) for one in found} == {
        "some": "machine dut: guest image linux:wrk has no program fwctl; add `install: [PACKAGE]` to the machine, "
        "where PACKAGE is the Debian package with that program, or specify the program's path",
        "nft": "machine dut: the kernel of guest image linux:wrk has no module nf_tables; use a different image",
    }


def test_image_with_installed_packages_is_a_separate_image(able: Facts) -> None:
    """Name the image to build; a nested guest has its parent's."""
    (reason,) = {one.reason for one in make_plan(parse(SERVER, "f.yaml"), able).unsupported}
    assert "there is no guest image linux:wrk yet" in in_words(reason)
    inner = SERVER.replace("dut: {kind: vm,", "out: {kind: vm, memory: 1G}\n    dut: {kind: vm, on: out,")
    inner = inner.replace("a: {kind: netns}", "a: {kind: netns, on: out}")
    (reason, *_) = (one.reason for one in make_plan(parse(inner, "f.yaml"), able).unsupported)
    assert (
        "install of machine dut: a guest on a guest uses the image of its parent out; install the packages on out"
        in in_words(reason)
    )


def test_guest_is_started_once_per_block_and_nic(small: Experiment, able: Facts) -> None:
    """Change pins and frame sizes at run time; only the NIC changes slowest."""
    assert make_plan(small, able).grouping == ("machines.dut.nic",)
    found = starts(small, able)
    assert len(found) == 16
    assert sum(one == ("dut",) for one in found) in (3, 4)  # two consecutive blocks may use the same NIC
    assert all(one in ((), ("dut",)) for one in found)


def test_change_of_vlan_or_machine_pair_restarts_no_domain(able: Facts) -> None:
    """Start the four guests of the Xen study once in 10 blocks."""
    found = starts(load(STUDIES / "xen-vlan.yaml"), able)
    assert sorted(found[0]) == ["pc6", "pc6dom1", "pc7", "pc7dom1"]
    assert set(found[1:]) == {()}


def test_duration_estimate_includes_the_start_of_guests(small: Experiment, able: Facts) -> None:
    """Add the start for a level that restarts the guest, and nothing for other levels."""

    def estimate_s(old: str, new: str) -> float:
        return make_plan(parse(TEXT.replace(old, new), "more.yaml"), able).estimate_ns / 1e9

    plain_s = make_plan(small, able).estimate_ns / 1e9
    cards_s = estimate_s("[e1000, virtio-net]", "[e1000, virtio-net, vmxnet3]")
    pins_s = estimate_s("[none, auto]", "[none, auto, [1]]")
    assert plain_s < pins_s < cards_s < pins_s + 2 * 3


def test_guest_is_shown_as_its_start_command(small: Experiment, able: Facts) -> None:
    """Use capitals for values found at run time, and the guest's prompt for its commands."""
    plan = make_plan(small, able, blocks=1)
    shown = list(commands(Labs(small, plan)))
    lines = [*map(str, render(shown[0]))]
    (start,) = [line for line in lines if line.startswith("qemu-system-x86_64 -name dut,")]
    assert "-accel ACCEL" in start
    assert "-kernel IMAGE/vmlinux" in start
    assert start.endswith("# undo: iolab-agent process.stop guest:dut")
    assert "dut# ip link add dev br0 address" in "\n".join(lines)
    assert lines.index(start) < next(i for i, line in enumerate(lines) if line.startswith("dut# "))
    last = [*map(str, render(shown[-1]))]
    assert "iolab-agent process.stop guest:dut" in last
    assert not any(line.startswith("dut# ") for line in last)


def test_vhost_user_switch_is_shown_before_its_guest_and_ends_after_it(able: Facts) -> None:
    """Start it in the namespace of its tap."""
    needed = ("qemu-system-x86_64", "qemu 8", "iperf3", "ip", "tc", "ethtool", "taskset", "ps")
    able = replace(able, programs=dict.fromkeys(needed, "10.0"))
    experiment = parse(TEXT.replace("[e1000, virtio-net]", "[vhost-user]"), "small.yaml")
    shown = list(commands(Labs(experiment, make_plan(experiment, able, blocks=1))))
    lines = [*map(str, render(shown[0]))]
    (first, _) = [number for number, line in enumerate(lines) if "dpdk-testpmd" in line]
    assert lines[first][len("ip netns exec TAGGE") :].startswith(
        "-t env RUNTIME_DIRECTORY=FOLDER dpdk-testpmd "
    )
    assert "--vdev=net_vhost0,iface=FOLDER/eth0.sock,queues=1 --vdev=net_tap0,iface=p0" in lines[first]
    assert lines[first].endswith("# undo: iolab-agent process.stop switch:dut.eth0")
    assert first < next(number for number, line in enumerate(lines) if line.startswith("qemu-system"))
    end = [*map(str, render(shown[-1]))]
    assert end.index("iolab-agent process.stop guest:dut") < end.index(
        "iolab-agent process.stop switch:dut.eth0"
    )


def test_xen_domain_is_shown_with_its_configuration_and_xl_commands(able: Facts) -> None:
    """Include services, folder, configuration and scripts before `xl create`; use Xen's CPU numbers."""
    experiment = load(STUDIES / "xen-vlan.yaml")
    first = next(iter(commands(Labs(experiment, make_plan(experiment, able, blocks=1)))))
    typed = [one.argv for one in first.done if one.machine == "pc6dom1" and one.kernel == "pc6"]
    made = [argv[0] for argv in typed if argv[0] in ("modprobe", "flock", "mkdir", "mount", "sh", "xl")]
    assert made[:8] == ["modprobe", "flock", "mkdir", "mount", "sh", "sh", "sh", "xl"]
    assert ("xl", "create", "-q", "FOLDER/domain.cfg") in typed
    (configuration,) = [argv[-1] for argv in typed if argv[-2] == "FOLDER/domain.cfg"]
    assert 'name = "pc6dom1"\ntype = "pv"' in configuration
    assert {argv[:2] for argv in typed if "pin" in argv[1]} == {("xl", "vcpu-pin")}
    assert not any(argv[0] == "taskset" for argv in typed)
