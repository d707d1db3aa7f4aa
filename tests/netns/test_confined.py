"""Confined disk programs: unchecked fio jobs try to reach more than their volume, run by the agent alone."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.netns.runs import needs_devices

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json
from iolab.run.hosts.host_agent import open_agent

pytestmark = [pytest.mark.netns, needs_devices("/dev/loop-control")]
MEBIBYTE = 1 << 20
EVERYBODY = 0o777
PATIENCE_MS = 2_500
"""Time limit: some engines never end if they cannot begin."""


@dataclass(frozen=True, slots=True)
class Host:
    """A disk that a program may use, and objects that it must not touch, although every user may."""

    agent: Agent
    disk: str
    own: Path
    """The program's own folder."""
    outside: Path
    """A folder with a file, a program, a job and a library."""
    device: str
    """Another loop device."""

    def seen(self) -> dict[str, object]:
        """Return the state of everything outside."""
        os.sync()
        files = {str(path): path.read_bytes() for path in sorted(self.outside.rglob("*")) if path.is_file()}
        scheduler = Path(f"/sys/block/{Path(self.disk).name}/queue/scheduler").read_text()
        cgroups = sorted(path.name for path in Path("/sys/fs/cgroup").iterdir() if path.is_dir())
        return {
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
            "device": hashlib.sha256(Path(self.device).read_bytes()).hexdigest(),
            "scheduler": scheduler,
            "cgroups": cgroups,
        }

    def fio(self, job: str) -> str:
        """Run fio on a job; return its output, whatever its exit status."""
        confined: dict[str, Json] = {"devices": [self.disk], "folders": [str(self.own)]}
        self.agent.start("job", ("fio", "-"), stdin=job, confined=confined)
        try:
            done = self.agent.wait("job", PATIENCE_MS)
        except Refused:
            return json.dumps(self.agent.call("process.stop", {"id": "job", "signal": "KILL"}))
        return done.stdout + done.stderr


def loop_device(backing: Path) -> str:
    """Return a loop device on a new file that every user may write."""
    backing.write_bytes(os.urandom(4 * MEBIBYTE))
    found = subprocess.run(
        ["losetup", "--show", "--find", backing], check=True, capture_output=True, text=True
    )
    node = Path(found.stdout.strip())
    node.chmod(0o666)
    return str(node)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Provide the host; it must be unchanged at the end."""
    folder = tmp_path_factory.mktemp("confined")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    outside, own = folder / "outside", folder / "own"
    outside.mkdir()
    own.mkdir()
    outside.chmod(EVERYBODY)
    (outside / "file").write_bytes(b"precious" * 8192)
    (outside / "program").write_text(f"#!/bin/sh\necho dead > {outside}/file\n")
    (outside / "job.fio").write_text(f"[global]\nexec_prerun={outside}/program\n")
    for path in outside.iterdir():
        path.chmod(EVERYBODY)
    disk, device = loop_device(folder / "disk"), loop_device(folder / "device")
    try:
        with open_agent() as agent:
            yield Host(agent, disk, own, outside, device)
    finally:
        for node in (disk, device):
            Path(node).chmod(0o660)
            subprocess.run(["losetup", "--detach", node], check=True)


HARMLESS = "rw=write\nbs=4k\nsize=64k\ndirect=0\nioengine=psync\n"
JOBS = {
    "another file": "[x]\nfilename={outside}/file\nrw=write\nsize=64k\n",
    "a new file": "[x]\nfilename={outside}/new\nrw=write\nsize=64k\n",
    "another device": "[x]\nfilename={device}\nrw=write\nsize=64k\n",
    "trim of another device": "[x]\nfilename={device}\nrw=trim\nsize=64k\n",
    "a folder": "[x]\ndirectory={outside}\nrw=write\nsize=64k\nnrfiles=2\n",
    "names by format": "[x]\nfilename_format={outside}/$jobnum\nrw=write\nsize=64k\n",
    "all files of a folder": "[x]\nopendir={outside}\nrw=write\nsize=64k\n",
    "unlink": "[x]\nfilename={outside}/file\nunlink=1\nrw=read\nsize=64k\n",
    "program before": "[x]\nfilename={disk}\nexec_prerun={outside}/program\n" + HARMLESS,
    "program after": "[x]\nfilename={disk}\nexec_postrun=sh {outside}/program\n" + HARMLESS,
    "program as engine": "[x]\nioengine=exec\nprogram={outside}/program\nrw=read\nsize=64k\n",
    "job of others": "include {outside}/job.fio\n[x]\nfilename={disk}\n" + HARMLESS,
    "library": "[x]\nfilename={disk}\nioengine=external:{outside}/program\nrw=read\n",
    "rate log": "[x]\nfilename={disk}\nwrite_bw_log={outside}/log\nwrite_lat_log={outside}/log\n" + HARMLESS,
    "log of accesses": "[x]\nfilename={disk}\nwrite_iolog={outside}/log\n" + HARMLESS,
    "memory in a file": "[x]\nfilename={disk}\nmem=mmap:{outside}/file\n" + HARMLESS,
    "huge memory in a file": "[x]\nfilename={disk}\nmem=mmaphuge:{outside}/file\n" + HARMLESS,
    "shared memory in a file": "[x]\nfilename={disk}\nmem=mmapshared:{outside}/file\n" + HARMLESS,
    "scheduler": "[x]\nfilename={disk}\nioscheduler=none\n" + HARMLESS,
    "control group": "[x]\nfilename={disk}\ncgroup=iolab-hostile\ncgroup_weight=100\n" + HARMLESS,
    "network": "[x]\nioengine=net\nhostname=127.0.0.1\nport=8765\nprotocol=udp\nrw=write\nsize=64k\n",
    "state of verification": "[x]\nfilename={disk}\nverify=crc32c\nverify_state_save=1\n" + HARMLESS,
}


@pytest.mark.parametrize("job", JOBS)
def test_unchecked_fio_job_cannot_access_anything_outside_its_disk(host: Host, job: str) -> None:
    """Open files, devices and programs to every user, so that only the confinement protects them."""
    before = host.seen()
    names = {"outside": host.outside, "device": host.device, "disk": host.disk}
    host.fio(JOBS[job].format(**names))
    assert host.seen() == before


def test_fio_job_on_its_own_disk_runs_and_writes_its_logs(host: Host) -> None:
    """Write logs to its folder."""
    before, digest = host.seen(), hashlib.sha256(Path(host.disk).read_bytes()).hexdigest()
    said = host.fio(f"[x]\nfilename={host.disk}\nwrite_bw_log={host.own}/log\n" + HARMLESS)
    assert "err= 0" in said
    assert (host.own / "log_bw.1.log").exists()
    os.sync()
    assert hashlib.sha256(Path(host.disk).read_bytes()).hexdigest() != digest
    assert host.seen() == before


def test_unprivileged_program_reads_from_the_disk_after_a_cache_flush(host: Host) -> None:
    """Flush by BLKFLSBUF for it, because fio would read the cache without the privilege."""
    Path(host.disk).read_bytes()
    said = host.fio(f"[x]\nfilename={host.disk}\nrw=read\nbs=64k\nsize=4m\ninvalidate=1\nioengine=psync\n")
    assert "err= 0" in said
    assert "only root" not in said
