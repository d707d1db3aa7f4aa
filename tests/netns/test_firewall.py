"""labs/firewall.yaml in a small form: rules of nft stand while a trial runs, as many as its level says, and go."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.netns.runs import trials

pytestmark = [pytest.mark.netns, pytest.mark.full]
LAB = Path(__file__).parents[2] / "labs/firewall.yaml"
LEVELS = "machines.router.kind=netns,machines.router.run.rules=100 rules|set of 10 000|tracking"


def test_rules_stand_while_a_trial_runs_and_are_gone_afterwards(
    iolab: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Each level's own check holds before and after its trial; else the trial would be invalid."""
    if shutil.which("nft") is None:
        pytest.skip("needs nft; scripts/packages.sh programs installs it")
    text = LAB.read_text()
    (tmp_path / "f.yaml").write_text(text.replace("trial: 200ms, limit: 20s", "trial: 20ms, limit: 300ms"))
    done = iolab("run", "f.yaml", "--blocks", "1", "--only", LEVELS)
    (folder,) = (tmp_path / "runs").iterdir()
    assert [trial["status"] for trial in trials(folder)] == ["ok"] * 3, done.stdout + done.stderr
