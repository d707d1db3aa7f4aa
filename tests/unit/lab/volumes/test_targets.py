"""Targets that exist: names, the commands of initiators, consents, and where secrets are."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lab.conftest import needs
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.volumes import Consents
from iolab.lab.actions import Run, StartGuest
from iolab.lab.compose import compose
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.leases import leases_of
from iolab.lab.requirements.need import Need
from iolab.lab.resources import Resource
from iolab.lab.topology import topology_of
from iolab.lab.volumes import target_scripts
from iolab.lab.volumes.served import served_of

IQN = "iqn.2006-09.jp.example:lun0"
CHAP = "chap: {user: box, secret: {env: BOX_SECRET}}"
HEAD = """
title: x
lab:
  machines:
    pc2: {{kind: {kind}, disks: [{disk}]}}
    pc3: {{kind: netns}}
    dut: {{kind: vm, on: pc2, disks: [{guest}]}}
  links:
    san: {{ends: [pc2.eth0, pc3.eth0]}}
    inside: {{ends: [pc2.vm0, dut.eth0]}}
  volumes: {{v: {{{volume}}}}}
measure: {{tcp: {{kind: stream, from: pc2, to: pc3}}}}
"""


def lab_of(
    target: str, via: str = "user", more: str = "", *, guest: bool = False, kind: str = "netns"
) -> Lab:
    """Return a lab with a disk of a target that exists, on pc2 or on the guest."""
    disk = f"{{volume: v, via: {via}}}"
    text = HEAD.format(
        kind=kind, disk="" if guest else disk, guest=disk if guest else "", volume=f"target: {target}{more}"
    )
    experiment = parse(text, "x")
    return Resolver(experiment).setup(next(cells(experiment))).lab


def target(keys: str = f'iqn: "{IQN}", lun: 1', portal: str = "192.0.2.7") -> str:
    """Return the mapping of a target."""
    return f"{{portal: '{portal}', {keys}}}"


def consenting(lab: Lab, *identities: str) -> Lab:
    """Return the lab with the user's consents."""
    return replace(lab, consents=Consents(writes=frozenset(identities)))


def made(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def runs(lab: Lab, key: str) -> list[Run]:
    """Return the commands of a resource."""
    return [action for action in made(lab)[key].actions if isinstance(action, Run)]


def daemon_of(lab: Lab) -> Run:
    """Return the start of the storage daemon."""
    return next(run for run in runs(lab, "disk:pc2.v") if "qemu-storage-daemon" in run.do.argv)


def test_user_space_initiator_logs_in_read_only_and_reads_the_secret_from_its_input() -> None:
    """Name portal, target and LUN as written, and no secret."""
    lab = lab_of(target(f'iqn: "{IQN}", lun: 3, {CHAP}', "192.0.2.7:3261"))
    daemon = daemon_of(lab)
    words = " ".join(daemon.do.argv)
    assert "secret,id=chap0,file=/dev/stdin" in words
    assert f"portal=192.0.2.7:3261,target={IQN},lun=3,initiator-name=iqn.2026-01.net.iolab:lab.pc2" in words
    assert "user=box,password-secret=chap0" in words
    assert "read-only=on" in words
    assert "writable=off" in words
    assert daemon.secret is not None
    assert daemon.secret.env == "BOX_SECRET"
    assert "volume:v" not in made(lab)


def test_disk_on_an_existing_target_is_writable_only_with_both_consents() -> None:
    """Compare the identity that the target reports before the daemon logs in."""
    text, identity = target(), f"{IQN},1/BOX00042"
    allowed = lab_of(text, more=", writes: allowed")
    assert "writable=off" in " ".join(daemon_of(allowed).do.argv)
    assert "writable=off" in " ".join(daemon_of(consenting(lab_of(text), identity)).do.argv)
    other = consenting(allowed, f"{IQN},2/BOX00042", f"{IQN}x,1/BOX00042", f"{IQN},1")
    assert "writable=off" in " ".join(daemon_of(other).do.argv)
    both = consenting(allowed, identity)
    assert "writable=on" in " ".join(daemon_of(both).do.argv)
    refusal, compared, *_ = runs(both, "disk:pc2.v")
    assert refusal.do.argv[2] == target_scripts.REFUSE_ISCSI_SESSION
    assert compared.do.argv[3:] == (
        f"iscsi://192.0.2.7:3260/{IQN}/1", "iqn.2026-01.net.iolab:lab.pc2", "", f"{IQN},1", identity,
    )  # fmt: skip


def test_kernel_initiator_does_not_log_in_to_a_target_with_which_the_host_has_a_session() -> None:
    """Log in to one LUN, and make its disk read-only."""
    iscsi = runs(lab_of(target(), "kernel", guest=True), "disk:dut.v")
    assert iscsi[0].do.argv[2] == target_scripts.REFUSE_ISCSI_SESSION
    assert iscsi[0].undo is None
    assert ("blockdev", "--setro", "{found}") in [run.do.argv for run in iscsi]
    nvme = runs(
        lab_of(target("nqn: 'nqn.2014-08.org.example:d0', namespace: 2"), "kernel", guest=True), "disk:dut.v"
    )
    assert nvme[0].do.argv[2] == target_scripts.REFUSE_NVME_SESSION
    login = nvme[1].do.argv
    assert login[3:6] == ("nqn.2014-08.org.example:d0", "192.0.2.7", "nqn.2026-01.net.iolab:lab.dut")
    assert re.fullmatch(r"[0-9a-f-]{36}", login[7])


def test_initiator_names_differ_between_labs_and_may_be_set() -> None:
    """Add the lab's tag, because open-iscsi counts ISIDs from 1 on every kernel."""
    lab = replace(lab_of(target()), tag="abcde")
    served = served_of(lab, topology_of(lab), "v")
    assert served is not None
    assert served.initiator == "iqn.2026-01.net.iolab:abcde.pc2"
    own = lab_of(target(f'iqn: "{IQN}", initiator: "iqn.2001-04.com.example:mine"'))
    served = served_of(own, topology_of(own), "v")
    assert served is not None
    assert (served.initiator, served.unit) == ("iqn.2001-04.com.example:mine", 0)


def test_portal_may_be_a_machine_of_the_lab() -> None:
    """Use the machine's address on the path to the initiator."""
    lab = lab_of(target(portal="pc3"))
    served = served_of(lab, topology_of(lab), "v")
    assert served is not None
    assert served.portal == f"{topology_of(lab).endpoint('pc3', towards='pc2', ip=4).address}:3260"


def test_hypervisor_attaches_the_lun_read_only() -> None:
    """Give QEMU the LUN."""
    lab = lab_of(target(), "hypervisor", guest=True)
    (start,) = (one for one in made(lab)["vm:dut"].actions if isinstance(one, StartGuest))
    argv = " ".join(qemu_argv(start.guest, Place(boot=Boot("k", "i", "r", "m"), folder="f", accel="tcg")))
    assert f"file.target={IQN},file.lun=1" in argv
    assert "cache=none,readonly=on" in argv


def test_target_is_leased_on_the_host_of_its_initiator() -> None:
    """Lease it once for all guests of a host."""
    for lab in (lab_of(target(), "kernel", guest=True), lab_of(target())):
        leased = leases_of(lab, topology_of(lab), compose(lab), None)
        assert ("", f"target:192.0.2.7:3260,{IQN},1") in leased


def test_file_system_on_a_target_needs_the_consent_of_the_command_line() -> None:
    """Name the option with the identity."""
    text = target().replace("}", "}, writes: allowed")
    lab = parse_with_fs(text)
    lacks = [in_words(one) for one in needs(Setup(lab, {})) if not isinstance(one, Need)]
    assert any(f"--allow-writes {IQN},1/SERIAL" in lack for lack in lacks)


def parse_with_fs(volume: str) -> Lab:
    """Return a lab with a file system on the target."""
    text = HEAD.format(
        kind="netns", disk="{volume: v, via: user, fs: ext4}", guest="", volume=f"target: {volume}"
    )
    experiment = parse(text, "x")
    return Resolver(experiment).setup(next(cells(experiment))).lab


REFUSED = [
    ("{iqn: 'iqn.2006-09.jp.example:x'}", "no key portal", "add portal"),
    (target("lun: 1"), "no target name", "one of iqn (iSCSI), nqn (NVMe/TCP) and nbd (NBD)"),
    (target(f"iqn: '{IQN}', nbd: x"), "iqn, nbd", "one of iqn"),
    (target(f"iqn: '{IQN.upper()}'"), IQN.upper(), f"did you mean '{IQN}'?"),
    (target("iqn: 'lun0'"), "lun0", "such as iqn.2006-09.jp.example:lun0"),
    (target(f"iqn: '{IQN},x=y'"), f"{IQN},x=y", "an iSCSI name"),
    (target("nbd: 'nbd://host/x'"), "nbd://host/x", "write the address of the URI as `portal`"),
    (target(portal="nas.example.org"), "nas.example.org", "an IP address or a machine"),
    (target(portal="nas"), "nas", "a machine, or an IP address"),
    (target(portal="192.0.2.7:99999"), "192.0.2.7:99999", "192.0.2.7:3260"),
    (target(portal="2001:db8::7"), "2001:db8::7", "[2001:db8::7]:3260"),
    (target("nqn: 'nqn.2014-08.org.example:d', lun: 1"), "`lun` with `nqn`", "only to a target with `iqn`"),
    (target(f"nbd: x, {CHAP}"), "`chap` with `nbd`", "only to a target with `iqn`"),
    (
        target(f"iqn: '{IQN}', chap: {{user: u, secret: {{}}}}"),
        "0 sources for the CHAP secret",
        "secret: {env: NAME}",
    ),
    (target(f"iqn: '{IQN}', chap: {{user: u, secret: {{file: key}}}}"), "key", "begins with ~/"),
    (target(f"iqn: '{IQN}', initiator: pc2"), "pc2", "an iSCSI name"),
    (IQN, IQN, "write target: {portal: ADDRESS, iqn: NAME}"),
    (f"{target()}, size: 64M", "`size` with", "no `size`"),
    (f"{target()}, export: iscsi", "`export` with", "no `export`"),
]


@pytest.mark.parametrize(("written", "seen", "remedy"), REFUSED)
def test_invalid_key_of_a_target_is_refused_with_a_remedy(written: str, seen: str, remedy: str) -> None:
    """Name the place and the value."""
    with pytest.raises(InputError) as refused:
        lab_of(written)
    text = str(refused.value)
    assert f"saw {seen}" in text
    assert remedy in text


@pytest.mark.parametrize(
    ("disk", "guest", "more", "seen"),
    [
        ("", "{volume: v, via: hypervisor}", f", {CHAP}", "`via: hypervisor` with `chap`"),
        ("{volume: v, via: user, fs: ext4}", "", "", "fs: ext4"),
        ("", "{volume: v, via: hypervisor, bus: ide}", "", "ide"),
    ],
)
def test_disk_setting_that_a_target_does_not_support_is_refused(
    disk: str, guest: str, more: str, seen: str
) -> None:
    """Refuse it at the disk."""
    volume = f"target: {target(f'iqn: {IQN!r}{more}')}"
    with pytest.raises(InputError) as refused:
        parse(HEAD.format(kind="netns", disk=disk, guest=guest, volume=volume), "x")
    assert seen in str(refused.value)


def test_unit_serial_number_is_compared_with_the_consents(tmp_path: Path) -> None:
    """Accept exactly the named one; a hostile target may report anything."""
    program = tmp_path / "iscsi-inq"
    program.write_text('#!/bin/sh\necho "Unit Serial Number:[   $SERIAL ]"\n')
    program.chmod(0o755)

    def checked(serial: str, consents: str) -> subprocess.CompletedProcess[str]:
        argv = ("sh", "-c", target_scripts.CHECK_LUN, "iscsi://x", "iqn.x", "", "iqn.y,1", consents)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SERIAL": serial}
        return subprocess.run(argv, capture_output=True, text=True, env=environment, input="")

    assert checked("BOX 42", "iqn.y,1/BOX").returncode == 1
    assert checked("BOX42", "iqn.y,1/BOX42").returncode == 0
    assert checked("BOX42", "iqn.y,1/A iqn.y,1/BOX42").returncode == 0
    refused = checked("BOX43", "iqn.y,1/BOX42")
    assert refused.returncode == 1
    assert "the target reports iqn.y,1/BOX43" in refused.stderr
    assert "--allow-writes iqn.y,1/BOX43" in refused.stderr
    assert "no serial number" in checked("", "iqn.y,1/").stderr
    assert checked("*", "iqn.y,1/BOX42").returncode == 1
    assert checked("$(touch gone)", "iqn.y,1/BOX42").returncode == 1
    assert not (tmp_path / "gone").exists()


def test_scripts_are_valid_shell() -> None:
    """Parse each script."""
    for name, script in vars(target_scripts).items():
        if name.isupper() and not name.endswith("SESSIONS") and not name.endswith("CONTROLLERS"):
            assert subprocess.run(("sh", "-n", "-c", script), capture_output=True).returncode == 0, name


def test_content_of_a_target_is_kept_unless_the_user_permits_its_destruction(tmp_path: Path) -> None:
    """Refuse a disk with a signature, and clear only the disk that is still attached."""
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1 << 20))
    subprocess.run(("mkfs.ext4", "-q", disk), check=True)

    def ran(script: str, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(("sh", "-c", script, *map(str, words)), capture_output=True, text=True)

    refused = ran(target_scripts.REFUSE_CONTENT, disk, "iqn.y,1/BOX42")
    assert refused.returncode == 1
    assert "contains ext4" in refused.stderr
    assert "--destroy-data iqn.y,1/BOX42" in refused.stderr
    before = disk.read_bytes()
    assert ran(target_scripts.CLEAR_CONTENT, disk, 'echo "$0"', "/dev/other").returncode == 0
    assert ran(target_scripts.CLEAR_CONTENT, disk, "true").returncode == 0
    assert disk.read_bytes() == before
    assert ran(target_scripts.CLEAR_CONTENT, disk, 'echo "$0"', disk).returncode == 0
    assert ran(target_scripts.REFUSE_CONTENT, disk, "iqn.y,1/BOX42").returncode == 0


def test_file_system_is_created_only_after_the_content_of_the_target_is_checked() -> None:
    """Leave the look out with the second consent."""
    identity = f"{IQN},1/BOX00042"
    lab = consenting(parse_with_fs(target().replace("}", "}, writes: allowed")), identity)
    scripts = [run.do.argv[2] for run in runs(lab, "disk:pc2.v") if run.do.argv[0] == "sh"]
    assert target_scripts.REFUSE_CONTENT in scripts
    named = frozenset({identity})
    permitted = replace(lab, consents=Consents(writes=named, destroys=named))
    scripts = [run.do.argv[2] for run in runs(permitted, "disk:pc2.v") if run.do.argv[0] == "sh"]
    assert target_scripts.REFUSE_CONTENT not in scripts
    (mkfs,) = (run for run in runs(lab, "mount:pc2.v") if "mkfs.ext4" in run.do.argv)
    assert mkfs.undo is not None
    assert mkfs.undo.argv[2] == target_scripts.CLEAR_CONTENT
