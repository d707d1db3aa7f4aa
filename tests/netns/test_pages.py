"""What pages have their readers type runs: the tutorial from its file to its comparison, and what how-tos show."""

import re
import shlex
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, trials
from tests.pages import CAPTURE, LED, ROOT, differs, experiment_of, experiments_on, name_of, shown_on

from iolab.experiment import parse

pytestmark = [pytest.mark.netns, pytest.mark.full]
TUTORIAL = ROOT / "docs" / "tutorial" / "first-experiment.md"
ELSEWHERE = re.compile(r"kind: (vm|host)|kind: disk|kind: (forwarding|load-curve)|count: \d{4}")
"""What needs a guest, a disk or a whole computer, or searches for minutes: such files are checked, not run."""
HERE = [
    pytest.param(text, id=f"{name_of(page)}:{line}")
    for page in LED
    for line, text in experiments_on(page)
    if not ELSEWHERE.search(text)
]
"""Experiments of pages that any computer can run."""
ONE_LINE = ROOT / "docs" / "how-to" / "measure-without-a-file.md"
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", ONE_LINE.read_text(), re.DOTALL)
    for line in block.splitlines()
    if "@" not in line
]
"""Experiments in one line, those with other computers left out."""


def test_the_tutorial_goes_from_a_file_to_a_comparison(iolab: Iolab, tmp_path: Path) -> None:
    """Its commands, in its order; the names of its runs are those that the reader gets."""
    text = experiment_of(TUTORIAL, "windows.yaml")
    (tmp_path / "windows.yaml").write_text(text)
    (planned,) = re.findall(r"```text\n(MTU and window: 20 trials.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert differs(planned.splitlines(), iolab("plan", "windows.yaml").stdout.splitlines()) == ""
    text = text.replace("blocks: 5", "blocks: 1")
    (tmp_path / "windows.yaml").write_text(text)
    folders: list[str] = []
    typed = [shown.line.split() for shown in shown_on(TUTORIAL)]
    done = {}
    for _, command, *words in typed:
        if command in ("new", "check"):
            continue
        if command == "extend":
            (tmp_path / "windows.yaml").write_text(text.replace("[16K, 128K]", "[16K, 64K, 128K]"))
        given = [folders[_number(words, word, typed)] if word.startswith("runs/") else word for word in words]
        done[command] = iolab(command, *given)
        if command == "run":
            folders.append(done[command].stdout.splitlines()[-1])
        else:
            assert done[command].returncode == 0, done[command].stdout + done[command].stderr
    assert len(folders) == 2
    assert (tmp_path / folders[0] / "report.html").exists()
    assert [line.split()[0] for line in done["list"].stdout.splitlines()] == folders
    assert "trials to run: 2; already finished: 4" in done["extend"].stdout + done["extend"].stderr
    assert f"{Path(folders[0]).name} (A) compared with {Path(folders[1]).name} (B)" in done["compare"].stdout


def _number(words: list[str], word: str, typed: list[list[str]]) -> int:
    """Return which of the runs on the page a word names."""
    named = [one for _, _, *line in typed for one in line if one.startswith("runs/")]
    return list(dict.fromkeys(sorted(named))).index(word)


@pytest.mark.parametrize("text", HERE)
def test_an_experiment_of_a_page_runs(iolab: Iolab, tmp_path: Path, text: str) -> None:
    """Its baseline cell, once, for a second; every measure has figures."""
    file = tmp_path / "page.yaml"
    (tmp_path / "trace.pcap").write_bytes(CAPTURE)
    file.write_text(re.sub(r"duration: \d+s", "duration: 1s", text))
    baseline = parse(text, str(file)).baseline
    only = ["--only", ",".join(f"{name}={label}" for name, label in baseline.items())] if baseline else []
    done = iolab("run", file, "--blocks", "1", *only)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert all(record["status"] == "ok" and record["metrics"] for record in trials(folder))


@pytest.mark.parametrize("line", LINES)
def test_an_experiment_in_one_line_runs_and_its_file_is_kept(iolab: Iolab, tmp_path: Path, line: str) -> None:
    """Every combination once; what `--print` shows is the file in the run's folder."""
    words = [*shlex.split(line)[1:], "--blocks", "1"]
    if "forwarding" in words:
        words += ["--trial", "100ms", "--limit", "1s"]
    done = iolab(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert all(record["status"] == "ok" and record["metrics"] for record in trials(folder))
    assert (folder / "experiment.yaml").read_text() == iolab(*words, "--print").stdout
