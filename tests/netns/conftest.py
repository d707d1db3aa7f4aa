"""Fixtures of tests on real namespaces: the installed commands, a small experiment, and the state of the host."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.netns.runs import PATIENCE_S, Iolab, Measured, processes_with

NOBODY = 65534
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
    """Return why no namespace can be created; None: it can."""
    if os.geteuid() != 0:
        return "needs root to make namespaces and to look at what was left"
    made = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, text=True)
    return (
        None if made.returncode == 0 else f"needs namespaces, which this host refuses: {made.stderr.strip()}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip a test before any of its fixtures creates something."""
    if refusal := namespaces_refused():
        pytest.skip(refusal)


@pytest.fixture(autouse=True)
def _needs() -> None:
    for program in ("ip", "iperf3", "ethtool"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; make setup installs it")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Write an experiment of four one-second trials."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def host_state() -> dict[str, str]:
    """Return the state that a lab could leave behind."""
    texts = {}
    for argv in (["ip", "netns"], ["ip", "-o", "link"], ["tc", "qdisc"], ["sysctl", "net.ipv4.ip_forward"]):
        texts[" ".join(argv)] = subprocess.run(argv, capture_output=True, text=True).stdout
    return texts


@contextmanager
def host_put_back(patch: pytest.MonkeyPatch, state: Path) -> Iterator[None]:
    """Set the agents' journal folder; after the test the host must be as before, without processes."""
    patch.setenv("IOLAB_STATE_DIR", str(state))
    before = host_state()
    yield
    after = host_state()
    of_test = f"IOLAB_STATE_DIR={state}"
    kept = {path.name for path in state.rglob("*")} - {"journal", "lock", "f"}
    if after != before or kept or processes_with(of_test):
        subprocess.run([IOLAB, "clean"], check=False)  # the remains of one test must not fail the next
    assert after == before
    assert processes_with(of_test) == {}


@pytest.fixture
def unchanged_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Check that the host after the test equals the host before it; the agent's journal is private to the test."""
    with host_put_back(monkeypatch, tmp_path / "state"):
        yield


@pytest.fixture
def iolab(unchanged_host: None, tmp_path: Path) -> Iolab:
    """Run the installed command in the test's folder."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        argv = [str(IOLAB), *map(str, arguments)]
        where: dict[str, Any] = {"cwd": tmp_path, "timeout": PATIENCE_S, **options}
        ended: subprocess.CompletedProcess[str] = subprocess.run(
            argv, capture_output=True, text=True, **where
        )
        return ended

    return run


@pytest.fixture
def measured_by_user(unchanged_host: None) -> Iterator[Measured]:
    """Run an experiment as an ordinary user, who may need to write to a device; return the folder of the run."""
    with tempfile.TemporaryDirectory() as folder:  # other users cannot enter pytest's folders

        def run(text: str, *options: str, writes: str | None = None) -> Path:
            home = Path(folder)
            (home / "measured.yaml").write_text(text)
            shutil.chown(home, NOBODY, NOBODY)
            environment = {"PATH": os.environ["PATH"], "HOME": folder, "IOLAB_STATE_DIR": f"{folder}/state"}
            environment |= {name: os.environ[name] for name in ("IOLAB_AGENT",) if name in os.environ}
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            if subprocess.run([*user, IOLAB, "--version"], capture_output=True).returncode:
                pytest.skip(f"an ordinary user cannot read {sys.executable}: .venv lies in a closed folder")
            if writes is not None and subprocess.run([*user, "test", "-w", writes]).returncode:
                pytest.skip(f"an ordinary user may not open {writes} on this host")
            argv: list[str | Path] = [*user, IOLAB, "run", "measured.yaml", *options]
            where: dict[str, Any] = {"cwd": home, "env": environment, "timeout": PATIENCE_S}
            done: subprocess.CompletedProcess[str] = subprocess.run(
                argv, capture_output=True, text=True, **where
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return home / done.stdout.splitlines()[-1]

        yield run


@pytest.fixture
def measured(iolab: Iolab, tmp_path: Path) -> Measured:
    """Run an experiment to its end, with options; return the folder of its run."""

    def run(text: str, *options: object) -> Path:
        path = tmp_path / "measured.yaml"
        path.write_text(text)
        done = iolab("run", path, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return tmp_path / done.stdout.splitlines()[-1]

    return run
