"""Exported volumes and their initiators: a daemon, a guest's hypervisor, a guest's own kernel."""

import pytest
from tests.unit.lab.conftest import needs
from tests.wording import in_words

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab, Setup
from iolab.lab.actions import Run, StartGuest
from iolab.lab.compose import compose
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.resources import Resource
from iolab.lab.volumes.exports import port_of

HEAD = """
title: x
lab:
  machines:
    pc2: {{kind: netns}}
    pc3: {{kind: {holder}}}
    dut: {{kind: vm, on: {parent}, disks: [{disk}]}}
  links:
    san: {{ends: [pc2.eth0, pc3.eth0, dut.eth1]}}
    inside: {{ends: [pc2.vm0, dut.eth0]}}
  volumes: {{v: {{size: 64M, on: pc3, {volume}}}}}
measure: {{tcp: {{kind: stream, from: pc2, to: pc3}}}}
"""
CHAP = "chap: {user: lab, secret: notasecret12}"


def lab_of(disk: str, volume: str, holder: str = "netns", parent: str = "pc2") -> Lab:
    """Return a lab with a guest whose disk is exported by pc3."""
    experiment = parse(HEAD.format(disk=disk, volume=volume, holder=holder, parent=parent), "x")
    return Resolver(experiment).setup(next(cells(experiment))).lab


def made(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def told(resource: Resource) -> list[str]:
    """Return the arguments of a resource's scripts and programs, without the scripts."""
    runs = [action for action in resource.actions if isinstance(action, Run)]
    return [" ".join(word for word in run.do.argv if ";" not in word) for run in runs]


def guest_in(lab: Lab) -> Guest:
    """Return the guest that is started."""
    (action,) = (one for one in made(lab)["vm:dut"].actions if isinstance(one, StartGuest))
    return action.guest


def lacks(lab: Lab) -> list[str]:
    """Return the conflicts as text."""
    return [in_words(one) for one in needs(Setup(lab, {})) if not isinstance(one, Need)]


@pytest.mark.parametrize(("bus", "device"), [("virtio-blk", "virtio-blk-pci"), ("ide", "ide-hd,bus=ide.0")])
def test_hypervisor_of_a_guest_logs_in_to_the_target_from_the_parents_namespace(
    bus: str, device: str
) -> None:
    """Wait for target and address; show the guest a normal disk without the parent's cache."""
    lab = lab_of(f"{{volume: v, via: hypervisor, bus: {bus}}}", "export: iscsi")
    guest = guest_in(lab)
    assert guest.netns == "iolab-pc2"
    assert {"export:v", "address:pc2.eth0"} <= set(made(lab)["vm:dut"].needs)
    argv = " ".join(qemu_argv(guest, Place(boot=Boot("k", "i", "r", "m"), folder="f", accel="tcg")))
    assert (
        "if=none,id=disk0,file.driver=iscsi,file.transport=tcp,file.portal=198.18.0.2:3260,"
        "file.target=iqn.2026-01.net.iolab:v,file.lun=1,file.initiator-name=iqn.2026-01.net.iolab:pc2,"
        f"format=raw,cache=none -device {device},drive=disk0,serial=v"
    ) in argv
    assert lacks(lab) == []


def test_file_system_of_a_guest_is_created_inside_the_guest() -> None:
    """Mount it in the guest, too."""
    mount = made(lab_of("{volume: v, via: hypervisor, fs: ext4}", "export: iscsi"))["mount:dut.v"]
    assert (mount.kernel, mount.needs) == ("dut", ("disks:dut",))


def test_cache_mode_of_a_disk_is_passed_to_qemu() -> None:
    """Use QEMU's name of the mode."""
    guest = guest_in(lab_of("{volume: v, via: hypervisor, cache: unsafe}", "export: nbd"))
    argv = " ".join(qemu_argv(guest, Place(boot=Boot("k", "i", "r", "m"), folder="f", accel="tcg")))
    assert "file.driver=nbd,file.server.type=inet,file.server.host=198.18.0.2,file.server.port=10809" in argv
    assert "file.export=v,format=raw,cache=unsafe" in argv


def test_disk_throttle_is_applied_by_qemu() -> None:
    """Use its drive in a guest, and a node above the daemon's in a namespace."""
    slow = "throttle: {bytes: 40M, operations: 500}"
    guest = guest_in(lab_of(f"{{volume: v, via: hypervisor, {slow}}}", "export: iscsi"))
    argv = " ".join(qemu_argv(guest, Place(boot=Boot("k", "i", "r", "m"), folder="f", accel="tcg")))
    assert "cache=none,throttling.bps-total=41943040,throttling.iops-total=500 -device" in argv
    text = HEAD.format(disk="", volume="export: iscsi", holder="netns", parent="pc2").replace("disks: []", "")
    text = text.replace(
        "pc2: {kind: netns}", f"pc2: {{kind: netns, disks: [{{volume: v, via: user, {slow}}}]}}"
    )
    experiment = parse(text, "x")
    lab = Resolver(experiment).setup(next(cells(experiment))).lab
    daemon = next(line for line in told(made(lab)["disk:pc2.v"]) if "qemu-storage-daemon" in line)
    assert (
        "--object throttle-group,id=slow,x-bps-total=41943040,x-iops-total=500 --blockdev driver=iscsi"
        in daemon
    )
    above = "--blockdev driver=throttle,node-name=disk,throttle-group=slow,file=fast"
    assert f"node-name=fast,cache.direct=on {above}" in daemon


def test_chap_secret_is_set_on_the_target_and_in_the_hypervisor() -> None:
    """Use one-way CHAP."""
    lab = lab_of("{volume: v, via: hypervisor}", f"export: iscsi, {CHAP}")
    accounts = [line for line in told(made(lab)["export:v"]) if "--mode account" in line]
    assert [line.split("tgtadm ")[1] for line in accounts] == [
        "--op new --mode account --user lab --password notasecret12",
        "--op bind --mode account --user lab --tid 1",
    ]
    argv = " ".join(qemu_argv(guest_in(lab), Place(boot=Boot("k", "i", "r", "m"), folder="f", accel="tcg")))
    assert "-object secret,id=chap0,data=notasecret12 -drive if=none,id=disk0" in argv
    assert "file.user=lab,file.password-secret=chap0" in argv


@pytest.mark.parametrize(
    ("volume", "target", "disk"),
    [
        (
            f"export: iscsi, {CHAP}, params: {{MaxRecvDataSegmentLength: 256K}}",
            (
                "iqn.2026-01.net.iolab:v iqn.2026-01.net.iolab:dut 198.18.0.2 /var/tmp/iolab-v 67108864  "
                "lab notasecret12 "
                "MaxRecvDataSegmentLength=262144"
            ),
            "iqn.2026-01.net.iolab:v 198.18.0.2:3260 lab notasecret12 60 5 15",
        ),
        (
            "export: nvme-tcp",
            "nqn.2026-01.net.iolab:v nqn.2026-01.net.iolab:dut 198.18.0.2 /var/tmp/iolab-v 1 off  4420",
            "nqn.2026-01.net.iolab:v 198.18.0.2 nqn.2026-01.net.iolab:dut 4420 60 5 2",
        ),
        (
            "export: nbd",
            (
                "qemu-nbd --fork --persistent --shared 2 --format raw --cache writeback --bind 198.18.0.2 --port 10809 "
                "--export-name v --pid-file /run/iolab-v.qemu-nbd /var/tmp/iolab-v"
            ),
            "v 198.18.0.2 /run/iolab-v.nbd 10809 60",
        ),
    ],
)
def test_kernel_target_and_initiator_of_two_guests_support_each_protocol(
    volume: str, target: str, disk: str
) -> None:
    """Admit one initiator on one address; name the disk on the other guest."""
    lab = lab_of("{volume: v, via: kernel}", volume, holder="vm")
    export, attached = made(lab)["export:v"], made(lab)["disk:dut.v"]
    assert (export.kernel, attached.kernel) == ("pc3", "dut")
    assert any(line.removeprefix("sh -c ") == target for line in told(export)), told(export)
    assert any(line.removeprefix("sh -c ") == disk for line in told(attached)), told(attached)
    assert told(attached)[-1] == "ln -s -n -T {found} /dev/iolab-v"
    assert set(attached.needs) == {"export:v", "address:dut.eth1"}
    assert guest_in(lab).disks == (), "the hypervisor has nothing to do with it"
    assert lacks(lab) == []


@pytest.mark.parametrize(
    ("export", "holder", "ports"),
    [
        ("iscsi", "netns", [3260, 3261]),
        ("iscsi", "vm", [3260, 3260]),
        ("nvme-tcp", "vm", [4420, 4421]),
        ("nbd", "netns", [10809, 10810]),
    ],
)
def test_two_exported_volumes_of_one_machine_listen_on_different_ports_except_with_lio(
    export: str, holder: str, ports: list[int]
) -> None:
    """Start a server per volume, which needs a separate port; LIO serves both on one."""
    both = f"export: {export}}}, w: {{size: 64M, on: pc3, export: {export}"
    lab = lab_of("{volume: v, via: kernel}, {volume: w, via: kernel}", both, holder=holder)
    assert [port_of(lab, name) for name in ("v", "w")] == ports


@pytest.mark.parametrize(
    ("disk", "volume", "what"),
    [
        ("{volume: v, via: user}", "export: iscsi", "does not apply to this kind of machine"),
        ("{volume: v, via: hypervisor}", "export: nvme-tcp", "cannot use NVMe/TCP"),
        (
            "{volume: v, via: kernel, bus: ide}",
            "export: iscsi",
            "`bus` applies only to disks that a guest's hypervisor provides",
        ),
        ("{volume: v, via: kernel, cache: unsafe}", "export: iscsi", "remove `cache`"),
        (
            "{volume: v, via: hypervisor}",
            f"export: nbd, {CHAP}",
            "applies only to volumes with `export: iscsi`",
        ),
    ],
)
def test_conflicting_export_settings_are_refused_with_a_remedy(disk: str, volume: str, what: str) -> None:
    """Report the text to write instead."""
    assert any(what in one for one in lacks(lab_of(disk, volume))), lacks(lab_of(disk, volume))


def test_kernel_initiator_in_a_namespace_is_refused() -> None:
    """Refuse it, because open-iscsi's daemon works in the initial namespace only."""
    text = HEAD.format(disk="", volume="export: iscsi", holder="netns", parent="pc2")
    text = text.replace("disks: []", "").replace(
        "pc2: {kind: netns}", "pc2: {kind: netns, disks: [{volume: v, via: kernel}]}"
    )
    experiment = parse(text, "x")
    told_of = lacks(Resolver(experiment).setup(next(cells(experiment))).lab)
    assert any("does not work in a namespace" in one for one in told_of)


def test_kernel_modules_of_targets_and_initiators_are_required() -> None:
    """Require them of the guest's image."""
    found = needs(Setup(lab_of("{volume: v, via: kernel}", "export: nvme-tcp", holder="vm"), {}))
    features = {
        (one.name, one.where) for one in found if isinstance(one, Need) and one.kind is NeedKind.FEATURE
    }
    assert {("initiator:nvme-tcp", "image:linux"), ("target:nvme-tcp", "image:linux")} <= features
