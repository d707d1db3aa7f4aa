"""What tests of labs with real guests share: the installed command, and skipping where no guest can be started."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB, iolab, processes_with, unchanged_host

from iolab.agent.client import Agent
from iolab.agent.transport import LocalTransport, find_agent
from iolab.image.build import find
from iolab.run.agents import Agents

__all__ = ["IOLAB", "agents", "iolab", "needs_guests", "processes_with", "unchanged_host"]


@pytest.fixture(autouse=True)
def needs_guests() -> None:
    """Skip where no guest can be started."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make namespaces and to look at what was left")
    for program in ("qemu-system-x86_64", "ip", "iperf3", "ethtool"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; make setup installs it")
    if find("linux", find_agent()) is None:
        pytest.skip("needs the guest image with this agent: iolab image build linux")


@pytest.fixture
def agents(unchanged_host: None) -> Iterator[Agents]:
    """Return the agents of this computer's lab; it is put back."""
    with Agent(LocalTransport(find_agent())) as agent:
        yield Agents(agent)


def trials(folder: Path) -> list[dict[str, object]]:
    """Return the trials stored in a run's folder."""
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def wait_for_console(state: Path, machine: str, deadline_s: float = 60) -> Path:
    """Wait until a guest's hypervisor has made its monitor; return the guest's scratch folder."""
    end = time.monotonic() + deadline_s
    folder = state / "f" / machine
    while not (folder / "monitor").exists():
        assert time.monotonic() < end, f"{folder} has no monitor"
        time.sleep(0.05)
    return folder


def run_in_background(tmp_path: Path, file: Path) -> subprocess.Popen[str]:
    """Start a run in a session of its own."""
    return subprocess.Popen(
        [IOLAB, "run", file],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ask_monitor(path: Path, command: str) -> None:
    """Give QEMU's monitor a command, without any of our own code."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(5)
        end.connect(str(path))
        end.recv(65_536)  # who closes before a command was answered may have it forgotten
        for name in ("qmp_capabilities", command):
            end.sendall(json.dumps({"execute": name}).encode())
            end.recv(65_536)
