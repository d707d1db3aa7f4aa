"""Labs with targets that they did not create."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.existing_box import ADDRESS, IQN, SECRET, SERIAL, Box, box_in, existing_box, shell
from tests.netns.runs import Iolab, needs_devices, processes_with, storage_state, trials, until
from tests.netns.sshd import Network

LABS = Path(__file__).parents[2] / "labs"
pytestmark = [pytest.mark.netns, needs_devices("/dev/fuse", "/dev/loop-control")]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """Start the target."""
    with existing_box(tmp_path / "box") as box:
        yield box


EXPERIMENT = f"""
title: A target that exists
lab:
  machines: {{pc: {{kind: host}}}}
  volumes:
    lun0:
      target: {{portal: {ADDRESS}, iqn: "{IQN}", lun: 1, chap: {{user: box, secret: {{file: SECRET_FILE}}}}}}
    store: {{target: {{portal: "{ADDRESS}:10809", nbd: store}}}}
measure: {{read: {{kind: disk, program: hdparm, on: pc}}}}
factors:
  path:
    iSCSI: {{machines.pc.disks: [{{volume: lun0, via: user}}]}}
    NBD: {{machines.pc.disks: [{{volume: store, via: user}}]}}
blocks: 1
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Write the experiment, and the file of its secret."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    path = tmp_path / "target.yaml"
    path.write_text(EXPERIMENT.replace("SECRET_FILE", str(secret)))
    return path


def files_with_secret(*folders: Path) -> list[Path]:
    """Return the files that contain the secret."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def arguments_with_secret() -> list[str]:
    """Return the command lines that contain the secret."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if SECRET.encode() in (words := path.read_bytes()):
                found.append(words.decode(errors="replace"))
    return found


def test_existing_targets_are_read_without_being_changed(
    iolab: Iolab, box: Box, experiment: Path, tmp_path: Path
) -> None:
    """Log in with CHAP next to a different session; the secret appears nowhere."""
    before, storage = box.state(), storage_state()
    ended, seen = threading.Event(), list[str]()

    def watch() -> None:
        while not ended.wait(0.02):
            seen.extend(arguments_with_secret())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        done = iolab("run", experiment)
    finally:
        ended.set()
        watching.join()
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = trials(folder)
    assert [record["status"] for record in records] == ["ok", "ok"], records
    assert box.state() == before
    assert storage_state() == storage
    assert seen == []
    assert files_with_secret(folder, tmp_path / "state") == []
    assert f"box {SECRET}" not in done.stdout + done.stderr


def test_clean_ends_the_iscsi_sessions_of_a_killed_agent(
    iolab: Iolab, box: Box, experiment: Path, tmp_path: Path
) -> None:
    """Kill the agent with SIGKILL while the LUN is attached."""
    before, storage = box.state(), storage_state()
    run = subprocess.Popen(
        [IOLAB, "run", experiment], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(
        lambda: (
            Path("/dev/iolab-lun0").exists() or Path("/dev/iolab-store").exists() or run.poll() is not None
        )
    )
    assert run.poll() is None, "the run ended before the kill"
    assert files_with_secret(tmp_path / "state", tmp_path / "runs") == []
    agents = [
        pid for pid, name in processes_with(f"IOLAB_STATE_DIR={tmp_path}/state").items() if "agent" in name
    ]
    assert agents
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    run.wait(60)
    assert files_with_secret(tmp_path / "state") == []
    cleaned = iolab("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert box.state() == before
    assert storage_state() == storage


WRITING = """
measure: {fill: {kind: disk, program: fio, on: pc, size: 4M, fio: {each: 100ms, blocks: [64K], depths: [1]}}}
factors: {path: {iSCSI: {machines.pc.disks: [{volume: lun0, via: user}]}}}
blocks: 1
"""


@pytest.mark.full
@pytest.mark.skipif(shutil.which("iscsi-inq") is None, reason="needs iscsi-inq (package libiscsi-bin)")
def test_target_is_written_only_with_the_serial_number_that_it_reports(
    iolab: Iolab, box: Box, experiment: Path
) -> None:
    """Refuse no and a wrong consent, and content without the second consent; then write."""
    head, _ = experiment.read_text().split("    store:")
    experiment.write_text(f"{head}      writes: allowed\n{WRITING}")
    before, identity = box.state(), f"{IQN},1/{SERIAL}"
    refused = iolab("run", experiment)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert f"--allow-writes {IQN},1/SERIAL" in refused.stderr
    other = iolab("run", experiment, "--allow-writes", f"{IQN},1/OTHER")
    assert other.returncode != 0, other.stdout
    assert f"the target reports {identity}" in other.stdout + other.stderr
    assert box.state() == before
    done = iolab("run", experiment, "--allow-writes", identity)
    assert done.returncode == 0, done.stdout + done.stderr
    assert box.state()[:2] == before[:2]
    assert box.state()[2] != before[2]
    shell("mkfs.ext4", "-q", "-F", str(box.disks["iscsi"]))
    content = box.state()
    kept = iolab("run", experiment, "--allow-writes", identity)
    assert kept.returncode != 0, kept.stdout
    assert f"--destroy-data {identity}" in kept.stdout + kept.stderr
    assert box.state() == content


def test_secret_file_that_other_users_may_read_is_refused_with_a_remedy(
    iolab: Iolab, experiment: Path, tmp_path: Path
) -> None:
    """Name the command that restricts the file."""
    (tmp_path / "secret").chmod(0o644)
    done = iolab("run", experiment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "chmod 600" in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr


SITE = f"""
hosts: {{pc2: pc2, pc3: pc3}}
cables: {{san: [pc2.san0, pc3.san0]}}
volumes:
  local: {{folder: FOLDER}}
  lun0: {{target: {{portal: pc3, iqn: "{IQN}", lun: 1}}, writes: allowed}}
"""


@pytest.mark.full
def test_iscsi_study_runs_on_the_folder_and_target_that_a_site_names(
    iolab: Iolab, network: Network, tmp_path: Path
) -> None:
    """Change only names: a folder on one host by ssh, a target on another."""
    pc2, pc3 = network.host("pc2"), network.host("pc3")
    network.cable(pc2, pc3, "san0")
    (tmp_path / "data").mkdir()
    site = tmp_path / "box.yaml"
    site.write_text(SITE.replace("FOLDER", str(tmp_path / "data")))
    lab, consent = LABS / "iscsi.yaml", ("--allow-writes", f"{IQN},1/{SERIAL}")
    inside = ("nsenter", "-t", str(pc3.pid), "--net")
    with box_in(tmp_path / "box", inside, "0.0.0.0", size_bytes=512 << 20, chap=False) as box:
        sessions = box.sessions()
        refused = iolab("run", lab, "--on", site, "--only", "path=iSCSI")
        assert refused.returncode == 3, refused.stdout + refused.stderr
        assert f"--allow-writes {IQN},1/SERIAL" in refused.stderr
        only = ("--only", "path=Local|iSCSI", "--blocks", 1)
        done = iolab("run", lab, "--on", site, *consent, *only, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        records = trials(tmp_path / done.stdout.splitlines()[-1])
        assert {record["cell"]["path"] for record in records} == {"Local", "iSCSI"}
        assert {record["status"] for record in records} == {"ok"}, records
        assert box.sessions() == sessions
    assert [*(tmp_path / "data").iterdir()] == []
