"""A guest's kernel connects to targets that the lab did not make, next to the guest's own connections and records."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.netns.existing_box import IQN, LUN_BYTES, SECRET, box_in

from iolab.errors import LabError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.volumes import Volume
from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.hosts.devices import all_devices
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.disk.ran import own_program, run_to_end

PATIENCE_MS = 180_000
NODE = "/dev/iolab-lun0"
RECORDS = "find /etc/iscsi /var/lib/iscsi -type f -exec sha256sum {} + 2>/dev/null | sort; true"
SESSIONS = "cat /sys/class/iscsi_session/*/initiatorname 2>/dev/null; true"


def lab_of(secret: Path, *, disks: bool) -> Lab:
    """Return a lab with a guest and a namespace, in which the test starts a target."""
    chap = {"user": "box", "secret": {"file": str(secret)}}
    target = {"portal": "far", "iqn": IQN, "lun": 1, "chap": chap}
    used = [{"volume": "lun0", "via": "kernel"}] if disks else []
    machines = {
        "far": {"kind": "netns"},
        "near": {"kind": "vm", "accel": "tcg", "disks": used},
    }
    return Lab(
        TypeAdapter(dict[str, Machine]).validate_python(machines),
        {"san": Link.model_validate({"ends": ["far.eth0", "near.eth0"]})},
        {"lun0": Volume.model_validate({"target": target})} if disks else {},
    )


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Write the secret."""
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@pytest.fixture
def standing(agents: Agents, secret: Path) -> Iterator[StandingLab]:
    """Provide the lab without the disk."""
    standing = StandingLab(agents, lambda records: None)
    try:
        standing.change_to(compose(lab_of(secret, disks=False), cpus=2))
        yield standing
    finally:
        standing.take_down()


@pytest.fixture
def content(standing: StandingLab, tmp_path: Path) -> Iterator[bytes]:
    """Start a target by hand; its LUN must not change."""
    with box_in(tmp_path / "box", ("ip", "netns", "exec", "iolab-far"), "0.0.0.0") as box:
        content = box.disks["iscsi"].read_bytes()
        yield content
        assert box.disks["iscsi"].read_bytes() == content


def shown(agents: Agents, script: str, guest: str = "near") -> str:
    """Return the output of a script in a guest."""
    done = agents.of(guest).run(("sh", "-c", script), timeout_ms=PATIENCE_MS)
    assert done.succeeded, done.complaint
    return done.stdout


def test_kernel_initiator_reads_a_lun_and_leaves_existing_iscsi_sessions_unchanged(
    agents: Agents, standing: StandingLab, content: bytes, secret: Path
) -> None:
    """Log in and out with CHAP; then refuse a target with which the host has a session."""
    portal = "198.18.0.1:3260"
    shown(
        agents,
        "modprobe -a sd_mod iscsi_tcp; mkdir -p /run/lock/iscsi /etc/iscsi;"
        " echo InitiatorName=iqn.2001-04.com.example:host >/etc/iscsi/initiatorname.iscsi;"
        f" iscsiadm -m node -T {IQN} -p {portal} -o new >&2;"
        f" iscsiadm -m node -T {IQN} -p {portal} -o update -n node.session.auth.username -v box;"
        f" iscsiadm -m node -T {IQN} -p {portal} -o update -n node.session.auth.authmethod -v CHAP;"
        f" iscsiadm -m node -T {IQN} -p {portal} -o update -n node.session.auth.password -v {SECRET}",
    )
    records = shown(agents, RECORDS)
    standing.change_to(compose(lab_of(secret, disks=True), cpus=2))
    assert standing.mismatches() == []
    digest = shown(agents, f"dd if={NODE} bs=1M iflag=direct 2>/dev/null | sha256sum").split()[0]
    assert digest == hashlib.sha256(content).hexdigest()
    written = agents.of("near").run(("dd", "if=/dev/zero", f"of={NODE}", "bs=4k", "count=1", "oflag=direct"))
    assert not written.succeeded
    assert shown(agents, RECORDS) == records
    assert shown(agents, SESSIONS).split() == ["iqn.2026-01.net.iolab:lab.near"]
    standing.change_to(compose(lab_of(secret, disks=False), cpus=2))
    assert shown(agents, SESSIONS).split() == []
    assert shown(agents, RECORDS) == records
    shown(agents, f"pidof iscsid >/dev/null || iscsid; iscsiadm -m node -T {IQN} -p {portal} --login >&2")
    with pytest.raises(LabError, match=f"this host already has a session with {IQN}"):
        standing.change_to(compose(lab_of(secret, disks=True), cpus=2))


RESERVE = """
set -e; modprobe -a sd_mod target_core_mod tcm_loop
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
disk=/sys/kernel/config/target/core/rd_mcp_0/disk; mkdir -p $disk
echo rd_pages=1024 >$disk/control; echo 6a3e11 >$disk/wwn/vpd_unit_serial; echo 1 >$disk/enable
port=/sys/kernel/config/target/loopback/naa.6001405000000001/tpgt_1; mkdir -p $port/lun/lun_0
echo naa.6001405000000002 >$port/nexus; ln -s $disk $port/lun/lun_0/disk
node=; for look in $(seq 100); do node=$(ls /sys/block | grep sd) && break; sleep 0.1; done
perl -e 'open(my $disk, "+<", $ARGV[0]) or die $!;
    my $key = pack("QQLL", 0, 0x1234, 0, 0); ioctl($disk, 0x401870C8, $key) or die "register: $!";
    my $own = pack("QLL", 0x1234, 1, 0); ioctl($disk, 0x401070C9, $own) or die "reserve: $!"' /dev/$node
echo /dev/$node
"""
"""Script that makes a SCSI disk of LIO and reserves it through the kernel (IOC_PR_REGISTER and IOC_PR_RESERVE)."""


@pytest.mark.full
def test_disk_with_a_persistent_reservation_is_not_written(agents: Agents) -> None:
    """Read the disk's serial number, and refuse to write although the reservation is that of the same host."""
    standing = StandingLab(agents, lambda records: None)
    try:
        machines = {"near": {"kind": "vm", "accel": "tcg"}}
        lab = Lab(TypeAdapter(dict[str, Machine]).validate_python(machines), {}, {})
        standing.change_to(compose(lab, cpus=2))
        node, guest = shown(agents, RESERVE).strip(), agents.of("near")
        (disk,) = (one for one in all_devices(guest) if one.path == node)
        assert "6a3e11" in "".join(disk.identities)
        assert ("reserved", "0x1234") in [(one.kind, one.name) for one in disk.obstacles]
        claim = {"program": "claim", "device": node, "serial": disk.identities[0], "claim": True}
        refused = run_to_end(guest, (own_program(guest), "disk"), json.dumps(claim))
        assert "has a persistent reservation with key 0x1234" in refused.stderr
    finally:
        standing.take_down()


NQN, OWN_NQN = "nqn.2014-08.org.nvmexpress:box", "nqn.2014-08.org.nvmexpress:other"
SERVE = f"""
set -e; mkdir -p /run/box; cd /run/box
for name in nvme nbd other; do head -c {LUN_BYTES} /dev/urandom >$name; done
modprobe -a loop nvmet nvmet-tcp; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
top=/sys/kernel/config/nvmet; mkdir $top/ports/7
for pair in {NQN}=nvme {OWN_NQN}=other; do
    subsystem=$top/subsystems/${{pair%%=*}}; mkdir $subsystem $subsystem/namespaces/1
    echo 1 >$subsystem/attr_allow_any_host
    losetup --find --show /run/box/${{pair#*=}} >$subsystem/namespaces/1/device_path
    echo 1 >$subsystem/namespaces/1/enable
done
cd $top/ports/7; echo tcp >addr_trtype; echo ipv4 >addr_adrfam; echo 0.0.0.0 >addr_traddr; echo 4420 >addr_trsvcid
ln -s $top/subsystems/* subsystems/
qemu-nbd --fork --persistent --shared 4 --format raw --bind 0.0.0.0 --export-name store /run/box/nbd
cd /run/box; sha256sum nvme nbd other
"""
"""Script that starts the targets of a user by hand; it prints their digests."""
CONNECT = f"""
set -e; modprobe -a nvme-tcp nbd
echo transport=tcp,traddr=198.18.0.1,trsvcid=4420,nqn={OWN_NQN} >/dev/nvme-fabrics
nbd-client 198.18.0.1 10809 -N store /dev/nbd0 -readonly >/dev/null
"""
"""Script that connects the guest to targets, as its user."""
CONNECTIONS = "cat /sys/class/nvme/nvme*/subsysnqn; ls /sys/block/nbd*/pid /dev/iolab-*; true"


def kernels_lab(*, disks: bool) -> Lab:
    """Return a lab of a guest with targets, and a guest with initiators."""
    used = [{"volume": name, "via": "kernel"} for name in ("box", "store")] if disks else []
    machines = {
        "far": {"kind": "vm", "accel": "tcg"},
        "near": {"kind": "vm", "accel": "tcg", "disks": used},
    }
    volumes = {
        "box": {"target": {"portal": "far", "nqn": NQN, "namespace": 1}},
        "store": {"target": {"portal": "far", "nbd": "store"}},
    }
    return Lab(
        TypeAdapter(dict[str, Machine]).validate_python(machines),
        {"san": Link.model_validate({"ends": ["far.eth0", "near.eth0"]})},
        {name: Volume.model_validate(one) for name, one in volumes.items()} if disks else {},
    )


@pytest.mark.full
def test_kernel_initiators_of_nvme_and_nbd_leave_existing_connections_unchanged(agents: Agents) -> None:
    """Read a namespace and an export next to the guest's own connections; then refuse a connected subsystem."""
    standing = StandingLab(agents, lambda records: None)
    try:
        standing.change_to(compose(kernels_lab(disks=False), cpus=2))
        before = shown(agents, SERVE, "far")
        digests = {line.split()[1]: line.split()[0] for line in before.splitlines()}
        shown(agents, CONNECT)
        connections = shown(agents, CONNECTIONS)
        standing.change_to(compose(kernels_lab(disks=True), cpus=2))
        assert standing.mismatches() == []
        assert NQN in shown(agents, CONNECTIONS).split()
        for node, name in (("box", "nvme"), ("store", "nbd")):
            read = shown(agents, f"dd if=/dev/iolab-{node} bs=1M iflag=direct 2>/dev/null | sha256sum")
            assert read.split()[0] == digests[name]
            write = ("dd", "if=/dev/zero", f"of=/dev/iolab-{node}", "bs=4k", "count=1", "oflag=direct")
            assert not agents.of("near").run(write).succeeded
        standing.change_to(compose(kernels_lab(disks=False), cpus=2))
        assert shown(agents, CONNECTIONS) == connections
        assert shown(agents, "cd /run/box; sha256sum nvme nbd other", "far") == before
        shown(agents, CONNECT.partition("nbd-client")[0].replace(OWN_NQN, NQN))
        with pytest.raises(LabError, match=f"this host is already connected to {NQN}"):
            standing.change_to(compose(kernels_lab(disks=True), cpus=2))
    finally:
        standing.take_down()
