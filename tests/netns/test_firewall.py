"""labs/firewall.yaml in a reduced form: nft rules exist during a trial, in the number of its level, and are removed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.netns.runs import trials

pytestmark = [pytest.mark.netns, pytest.mark.full]
LAB = Path(__file__).parents[2] / "labs/firewall.yaml"
LEVELS = "machines.router.kind=netns,machines.router.run.rules=100 rules|set of 10 000|tracking"


def test_nft_rules_exist_during_a_trial_and_are_removed_afterwards(
    iolab: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Check the rules of each level before and after its trial."""
    if shutil.which("nft") is None:
        pytest.skip("needs nft; scripts/packages.sh programs installs it")
    text = LAB.read_text()
    (tmp_path / "f.yaml").write_text(text.replace("trial: 200ms, limit: 20s", "trial: 20ms, limit: 300ms"))
    done = iolab("run", "f.yaml", "--blocks", "1", "--only", LEVELS)
    (folder,) = (tmp_path / "runs").iterdir()
    assert [trial["status"] for trial in trials(folder)] == ["ok"] * 3, done.stdout + done.stderr
