"""What an ordinary user sees of a port: a watch by AF_PACKET and a capture, in the agent's own namespaces."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S

from iolab.results.trial import Status
from iolab.store.read import load_run

pytestmark = pytest.mark.netns
NOBODY = 65534
EXPERIMENT = """
title: A user's look
lab:
  machines: {left: {kind: netns}, right: {kind: netns}}
  links: {path: {ends: [left.eth0, right.eth0]}}
measure:
  udp: {kind: stream, protocol: udp, from: left, to: right, rate: 8Mbit, length: 1000, duration: 1s, watch: [path],
        capture: [{at: right.eth0, filter: {protocol: udp}}]}
"""


def test_a_user_watches_and_captures_every_frame(unchanged_host: None) -> None:
    """The watch says by what it saw, its windows are the interface's count, and the capture has the stream."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        home = Path(folder)
        (home / "look.yaml").write_text(EXPERIMENT)
        shutil.chown(home, NOBODY, NOBODY)
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "IOLAB_STATE_DIR": f"{folder}/state"}
        user: list[str | Path] = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if subprocess.run([*user, IOLAB, "--version"], capture_output=True).returncode:
            pytest.skip(
                f"an ordinary user cannot read {sys.executable}: the Python of .venv lies in a closed folder"
            )
        argv = [*user, IOLAB, "run", "look.yaml"]
        done = subprocess.run(
            argv, cwd=home, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        (record,) = load_run(home / done.stdout.splitlines()[-1]).trials
        result = record.result
        assert result.status is Status.OK, result.reason
        codes = {warning.code for warning in result.warnings}
        assert "watch-by-packets" in codes
        assert not codes & {"watch-disagrees", "watch-lost", "capture-lost"}
        seen = {
            metric.dimensions.direction: metric.value
            for metric in result.metrics.named("watched_frames")
            if metric.dimensions.flow is None
        }
        assert seen["left.eth0->right.eth0"] >= 950, "a megabyte in datagrams of 1000 bytes"
        (captured,) = result.metrics.named("captured_frames")
        assert 950 <= captured.value <= seen["left.eth0->right.eth0"] + seen["right.eth0->left.eth0"]
