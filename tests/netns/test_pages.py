"""The commands on pages work: the tutorial from its file to its comparison, and the examples of how-to pages."""

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
"""Experiments that need a guest, a disk or a whole computer, or that search for minutes; they are checked but not
run."""
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
"""One-line experiments, without those on other computers."""


def test_tutorial_commands_run_from_file_to_comparison(iolab: Iolab, tmp_path: Path) -> None:
    """Type its commands in order, with the run names of the reader."""
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
    """Return the number of the page's run that a word names."""
    named = [one for _, _, *line in typed for one in line if one.startswith("runs/")]
    return list(dict.fromkeys(sorted(named))).index(word)


@pytest.mark.parametrize("text", HERE)
def test_experiment_on_a_documentation_page_runs(iolab: Iolab, tmp_path: Path, text: str) -> None:
    """Run its baseline cell once for a second; require figures of every measure."""
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
def test_one_line_experiment_on_a_documentation_page_runs_and_its_file_is_kept(
    iolab: Iolab, tmp_path: Path, line: str
) -> None:
    """Run every combination once; compare `--print` with the stored file."""
    words = [*shlex.split(line)[1:], "--blocks", "1"]
    if "forwarding" in words:
        words += ["--trial", "100ms", "--limit", "1s"]
    done = iolab(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert all(record["status"] == "ok" and record["metrics"] for record in trials(folder))
    assert (folder / "experiment.yaml").read_text() == iolab(*words, "--print").stdout
