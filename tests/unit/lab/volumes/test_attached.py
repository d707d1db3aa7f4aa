"""Disks of hosts and namespaces, and exports: what is made in which order, and what is refused or lacking."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.lab.conftest import needs
from tests.wording import in_words

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab, Setup
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.resources import Resource
from iolab.lab.volumes import scripts

HEAD = """
title: x
lab:
  machines: {{pc2: {{kind: netns, disks: [{disk}]}}, pc3: {{kind: netns}}}}
  links: {{san: {{ends: [pc2.eth0, pc3.eth0]}}}}
  volumes: {{lun0: {volume}}}
measure: {{tcp: {{kind: stream, from: pc2, to: pc3}}}}
"""


def lab_of(disk: str, volume: str = "{size: 64M}") -> Lab:
    """Return a lab with a disk."""
    experiment = parse(HEAD.format(disk=disk, volume=volume), "x")
    return Resolver(experiment).setup(next(cells(experiment))).lab


def made(lab: Lab) -> Mapping[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def lines(resource: Resource) -> list[str]:
    """Return the commands of a resource, without the texts of scripts."""
    runs = [action for action in resource.actions if isinstance(action, Run)]
    return [" ".join(word for word in run.do.argv if " " not in word) for run in runs]


def test_a_local_disk_is_a_loop_device_past_its_cache_with_a_name_of_its_own() -> None:
    """It needs its volume, and is given back."""
    disk = made(lab_of("{volume: lun0}"))["disk:pc2.lun0"]
    assert lines(disk) == [
        "losetup --find --direct-io=on /var/tmp/iolab-lun0",
        "sh -c /dev/iolab-lun0",
        "ln -s -n -T {found} /dev/iolab-lun0",
    ]
    assert disk.needs == ("volume:lun0",)
    undone = [isinstance(action, Run) and action.undo is not None for action in disk.actions]
    assert undone == [True, False, True]
    assert disk.expect[0].expected == str(64 << 20)


def test_the_agent_attaches_the_device_of_a_door_so_that_nothing_is_read_ahead() -> None:
    """Of a file of FUSE no device can be had past the page cache."""
    disk = made(lab_of("{volume: lun0, via: user}"))["disk:pc2.lun0"]
    attaching = [
        action.do.argv
        for action in disk.actions
        if isinstance(action, Run) and scripts.ATTACH in action.do.argv
    ]
    assert attaching == [("sh", "-c", scripts.ATTACH, "/run/iolab-lun0.door")]


def test_a_file_system_is_made_whole_and_mounted_where_nobody_else_writes() -> None:
    """With the options asked for; it is read back."""
    mount = made(lab_of("{volume: lun0, fs: ext4, mount: noatime}"))["mount:pc2.lun0"]
    assert lines(mount) == [
        "env UNIX_IO_NOZEROOUT=1 mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/iolab-lun0",
        "sh -c /run/iolab-lun0.mnt",
        "mkdir -m 700 /run/iolab-lun0.mnt",
        "mount -t ext4 -o noatime /dev/iolab-lun0 /run/iolab-lun0.mnt",
        "chmod 700 /run/iolab-lun0.mnt",
    ]
    assert mount.expect[0].expected == "ext4"


def test_the_door_over_a_local_file_differs_from_that_over_iscsi_in_what_the_daemon_opens_alone() -> None:
    """So that the cost of the door can be subtracted."""
    exported = lab_of("{volume: lun0, via: user}", "{size: 64M, on: pc3, export: iscsi}")
    local = lines(made(lab_of("{volume: lun0, via: user}"))["disk:pc2.lun0"])
    remote = lines(made(exported)["disk:pc2.lun0"])
    assert [(one, other) for one, other in zip(local, remote, strict=True) if one != other] == [
        (local[2], remote[2])
    ]
    assert "driver=file,filename=/var/tmp/iolab-lun0,node-name=disk,cache.direct=on" in local[2]
    assert "driver=iscsi,transport=tcp,portal=198.18.0.2:3260,target=iqn.2026-01.net.iolab:lun0" in remote[2]
    assert remote[2].startswith("nsenter --net=/run/netns/iolab-pc2 qemu-storage-daemon")


def test_the_daemon_of_a_door_keeps_writes_or_passes_no_flush_on_where_that_is_asked_for() -> None:
    """By itself it does neither."""
    for cache, flags in (("writeback", "cache.direct=off"), ("unsafe", "cache.direct=off,cache.no-flush=on")):
        daemon = lines(made(lab_of(f"{{volume: lun0, via: user, cache: {cache}}}"))["disk:pc2.lun0"])[2]
        assert f"filename=/var/tmp/iolab-lun0,node-name=disk,{flags} --export" in daemon


def test_a_target_listens_on_its_machines_address_and_lets_one_initiator_in() -> None:
    """By name and by address; parameters are offered and read back."""
    volume = "{size: 64M, on: pc3, export: iscsi, params: {MaxRecvDataSegmentLength: 256K, InitialR2T: off}}"
    export = made(lab_of("{volume: lun0, via: user}", volume))["export:lun0"]
    start = export.actions[0]
    assert isinstance(start, Run)
    assert start.do.netns == "iolab-pc3"
    assert start.do.argv[-2:] == ("/run/iolab-lun0.tgt", "198.18.0.2:3260")
    told = lines(export)
    assert told[-2].endswith("--op bind --mode target --tid 1 --initiator-name iqn.2026-01.net.iolab:pc2")
    assert told[-1].endswith("--op bind --mode target --tid 1 --initiator-address 198.18.0.1")
    assert told[4].endswith("--bstype rdwr --bsoflags direct --backing-store /var/tmp/iolab-lun0")
    assert {one.what: one.expected for one in export.expect} == {
        "target of volume lun0": "runs",
        "MaxRecvDataSegmentLength of volume lun0": "262144",
        "InitialR2T of volume lun0": "No",
    }
    assert export.needs == ("volume:lun0", "address:pc3.eth0")


def test_a_buffered_target_keeps_its_cache() -> None:
    """Only then."""
    volume = "{size: 64M, on: pc3, export: iscsi, cache: buffered}"
    assert "--bsoflags" not in " ".join(
        lines(made(lab_of("{volume: lun0, via: user}", volume))["export:lun0"])
    )


@pytest.mark.parametrize(
    ("disk", "volume", "told"),
    [
        ("{volume: lun0}", "{size: 64M, on: pc3, export: iscsi}", "an exported volume needs `via: user`"),
        (
            "{volume: lun0, via: user}",
            "{size: 64M, export: iscsi}",
            "an exported volume needs a machine with an address",
        ),
        (
            "{volume: lun0, bus: ide}",
            "{size: 64M}",
            "`bus` applies only to disks that a guest's hypervisor provides",
        ),
        ("{volume: lun0, cache: unsafe}", "{size: 64M}", "`cache` applies to disks of QEMU guests"),
        ("{volume: lun0, via: user, cache: directsync}", "{size: 64M}", "none, writeback and unsafe"),
        (
            "{volume: lun0}",
            "{size: 64M, params: {InitialR2T: on}}",
            "applies only to volumes with `export: iscsi`",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_to_write(disk: str, volume: str, told: str) -> None:
    """Before anything runs."""
    found = needs(Setup(lab_of(disk, volume), {}))
    assert any(told in in_words(one) for one in found if not isinstance(one, Need))


def wanted(disk: str, volume: str) -> list[Need]:
    """Return what a lab wants of the computer."""
    return [one for one in needs(Setup(lab_of(disk, volume), {})) if isinstance(one, Need)]


def test_disks_say_which_programs_they_need() -> None:
    """Only the ones that are used, and root."""
    plain = wanted("{volume: lun0}", "{size: 64M}")
    assert {need.name for need in plain if need.kind is NeedKind.PROGRAM} <= {"ip", "tc", "ethtool"}
    assert any(need.kind is NeedKind.ROOT for need in plain)
    volume = "{size: 64M, on: pc3, export: iscsi}"
    found = wanted("{volume: lun0, via: user, fs: xfs}", volume)
    assert {"qemu-storage-daemon", "tgtd", "mkfs.xfs", "qemu:iscsi"} <= {need.name for need in found}


def shell(script: str, *words: str) -> int:
    """Run a script as an agent does."""
    return subprocess.run(["sh", "-c", script, *words], capture_output=True).returncode


def test_what_ends_programs_does_no_harm_where_there_are_none(tmp_path: Path) -> None:
    """An undo may be done twice, or of what never happened; files of others with such names stay."""
    path = str(tmp_path / "none")
    for script in (scripts.END_TARGET, scripts.END_INITIATOR, scripts.DETACH, scripts.UNMOUNT):
        assert shell(script, path, path) == 0, script
    assert [*tmp_path.iterdir()] == []


def test_no_process_is_ended_that_has_only_the_number_of_ours(tmp_path: Path) -> None:
    """Process numbers come again: the process must say by its arguments or environment that it is ours."""
    other = subprocess.Popen(["sleep", "60"])
    try:
        for script in (scripts.END_TARGET, scripts.END_INITIATOR):
            (tmp_path / "x.pid").write_text(str(other.pid))
            assert shell(script, str(tmp_path / "x")) == 0
            assert other.poll() is None
            assert not (tmp_path / "x.pid").exists()
    finally:
        other.kill()
        other.wait()


def test_a_door_is_never_made_over_what_is_there(tmp_path: Path) -> None:
    """Not over a file, and not through a link."""
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("precious")
    link.symlink_to(there)
    assert shell(scripts.MAKE_DOOR, str(there)) != 0
    assert shell(scripts.MAKE_DOOR, str(link)) != 0
    assert there.read_text() == "precious"
