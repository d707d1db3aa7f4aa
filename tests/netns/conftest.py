"""What tests on real namespaces share: the installed commands, a small experiment, and the state of the host."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.netns.runs import PATIENCE_S, processes_with

IOLAB = Path(sys.executable).with_name("iolab")

SMALL = """
title: Small
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors:
  links.lan.mtu: [1500, 9000]
baseline: {links.lan.mtu: 1500}
blocks: 2
seed: 1
"""


@cache
def namespaces_refused() -> str | None:
    """Return why no namespace can be made here; None: it can."""
    if os.geteuid() != 0:
        return "needs root to make namespaces and to look at what was left"
    made = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, text=True)
    return (
        None if made.returncode == 0 else f"needs namespaces, which this host refuses: {made.stderr.strip()}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip a test before any fixture of it makes something."""
    if refusal := namespaces_refused():
        pytest.skip(refusal)


@pytest.fixture(autouse=True)
def _needs() -> None:
    for program in ("ip", "iperf3", "ethtool"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; make setup installs it")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An experiment of four one-second trials."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def host_state() -> dict[str, str]:
    """Return what a lab could leave behind."""
    texts = {}
    for argv in (["ip", "netns"], ["ip", "-o", "link"], ["tc", "qdisc"], ["sysctl", "net.ipv4.ip_forward"]):
        texts[" ".join(argv)] = subprocess.run(argv, capture_output=True, text=True).stdout
    return texts


@contextmanager
def host_put_back(patch: pytest.MonkeyPatch, state: Path) -> Iterator[None]:
    """Let agents keep their journal in a folder; in the end the host must be what it was, and no process is left."""
    patch.setenv("IOLAB_STATE_DIR", str(state))
    before = host_state()
    yield
    after = host_state()
    of_test = f"IOLAB_STATE_DIR={state}"
    kept = {path.name for path in state.rglob("*")} - {"journal", "lock", "f"}
    if after != before or kept or processes_with(of_test):
        subprocess.run([IOLAB, "clean"], check=False)  # what one test leaves must not fail the next
    assert after == before
    assert processes_with(of_test) == {}


@pytest.fixture
def unchanged_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The host after the test is the host before it; the agent's journal is the test's own."""
    with host_put_back(monkeypatch, tmp_path / "state"):
        yield


@pytest.fixture
def iolab(unchanged_host: None, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed command in the test's folder."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        argv = [str(IOLAB), *map(str, arguments)]
        where: dict[str, Any] = {"cwd": tmp_path, "timeout": PATIENCE_S, **options}
        ended: subprocess.CompletedProcess[str] = subprocess.run(
            argv, capture_output=True, text=True, **where
        )
        return ended

    return run
