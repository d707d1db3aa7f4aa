"""Disks of hosts and namespaces, and exports: order of creation, conflicts and unmet requirements."""

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
    """Return the commands of a resource, without script texts."""
    runs = [action for action in resource.actions if isinstance(action, Run)]
    return [" ".join(word for word in run.do.argv if " " not in word) for run in runs]


def test_local_disk_is_a_loop_device_with_direct_io_and_a_stable_name() -> None:
    """Require its volume, and detach it."""
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


def test_user_space_export_is_attached_without_read_ahead() -> None:
    """Bypass the page cache, which a device on a FUSE file cannot."""
    disk = made(lab_of("{volume: lun0, via: user}"))["disk:pc2.lun0"]
    attaching = [
        action.do.argv
        for action in disk.actions
        if isinstance(action, Run) and scripts.ATTACH in action.do.argv
    ]
    assert attaching == [("sh", "-c", scripts.ATTACH, "/run/iolab-lun0.door")]


def test_file_system_is_created_and_mounted_in_a_private_folder() -> None:
    """Set the mount options, and read the file system back."""
    mount = made(lab_of("{volume: lun0, fs: ext4, mount: noatime}"))["mount:pc2.lun0"]
    assert lines(mount) == [
        "env UNIX_IO_NOZEROOUT=1 mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/iolab-lun0",
        "sh -c /run/iolab-lun0.mnt",
        "mkdir -m 700 /run/iolab-lun0.mnt",
        "mount -t ext4 -o noatime /dev/iolab-lun0 /run/iolab-lun0.mnt",
        "chmod 700 /run/iolab-lun0.mnt",
    ]
    assert mount.expect[0].expected == "ext4"


def test_user_space_exports_of_a_file_and_of_iscsi_differ_only_in_the_opened_node() -> None:
    """Allow subtracting the cost of the export."""
    exported = lab_of("{volume: lun0, via: user}", "{size: 64M, on: pc3, export: iscsi}")
    local = lines(made(lab_of("{volume: lun0, via: user}"))["disk:pc2.lun0"])
    remote = lines(made(exported)["disk:pc2.lun0"])
    assert [(one, other) for one, other in zip(local, remote, strict=True) if one != other] == [
        (local[2], remote[2])
    ]
    assert "driver=file,filename=/var/tmp/iolab-lun0,node-name=disk,cache.direct=on" in local[2]
    assert "driver=iscsi,transport=tcp,portal=198.18.0.2:3260,target=iqn.2026-01.net.iolab:lun0" in remote[2]
    assert remote[2].startswith("nsenter --net=/run/netns/iolab-pc2 qemu-storage-daemon")


def test_cache_mode_of_a_user_space_export_is_passed_to_the_storage_daemon() -> None:
    """Set neither option by default."""
    for cache, flags in (("writeback", "cache.direct=off"), ("unsafe", "cache.direct=off,cache.no-flush=on")):
        daemon = lines(made(lab_of(f"{{volume: lun0, via: user, cache: {cache}}}"))["disk:pc2.lun0"])[2]
        assert f"filename=/var/tmp/iolab-lun0,node-name=disk,{flags} --export" in daemon


def test_iscsi_target_listens_on_its_machines_address_and_admits_one_initiator() -> None:
    """Admit it by name and address; offer and read back parameters."""
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


def test_only_a_buffered_iscsi_target_uses_the_page_cache() -> None:
    """Set the flag only then."""
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
def test_conflicting_disk_settings_are_refused_with_a_remedy(disk: str, volume: str, told: str) -> None:
    """Report them before the run."""
    found = needs(Setup(lab_of(disk, volume), {}))
    assert any(told in in_words(one) for one in found if not isinstance(one, Need))


def wanted(disk: str, volume: str) -> list[Need]:
    """Return the requirements of a lab."""
    return [one for one in needs(Setup(lab_of(disk, volume), {})) if isinstance(one, Need)]


def test_disks_require_exactly_the_programs_that_they_use() -> None:
    """Require root, and nothing else."""
    plain = wanted("{volume: lun0}", "{size: 64M}")
    assert {need.name for need in plain if need.kind is NeedKind.PROGRAM} <= {"ip", "tc", "ethtool"}
    assert any(need.kind is NeedKind.ROOT for need in plain)
    volume = "{size: 64M, on: pc3, export: iscsi}"
    found = wanted("{volume: lun0, via: user, fs: xfs}", volume)
    assert {"qemu-storage-daemon", "tgtd", "mkfs.xfs", "qemu:iscsi"} <= {need.name for need in found}


def shell(script: str, *words: str) -> int:
    """Run a script like an agent."""
    return subprocess.run(["sh", "-c", script, *words], capture_output=True).returncode


def test_scripts_that_end_programs_are_harmless_if_nothing_runs(tmp_path: Path) -> None:
    """Allow an undo to run twice, or without the change; keep foreign files with such names."""
    path = str(tmp_path / "none")
    for script in (scripts.END_TARGET, scripts.END_INITIATOR, scripts.DETACH, scripts.UNMOUNT):
        assert shell(script, path, path) == 0, script
    assert [*tmp_path.iterdir()] == []


def test_process_with_a_reused_pid_is_not_killed(tmp_path: Path) -> None:
    """Check its arguments or environment, because PIDs are reused."""
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


def test_user_space_export_never_replaces_an_existing_file(tmp_path: Path) -> None:
    """Refuse a file and a link."""
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("precious")
    link.symlink_to(there)
    assert shell(scripts.MAKE_DOOR, str(there)) != 0
    assert shell(scripts.MAKE_DOOR, str(link)) != 0
    assert there.read_text() == "precious"
