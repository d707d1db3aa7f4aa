"""The commands list, note, tag, rename and remove."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.store.examples import PLAN, record

from iolab.cli.main import run
from iolab.errors import ExitCode
from iolab.store.folder import create_folder


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Work in a temporary folder with three runs."""
    monkeypatch.chdir(tmp_path)
    found = []
    for day in (1, 2, 3):
        folder = create_folder(Path("runs"), "lab", datetime(2026, 1, day, tzinfo=UTC))
        folder.write_decision("title: lab\n", PLAN, {})
        for key in ("k0", "k1")[: day - 1]:
            folder.append_trial(record(key))
        folder.close()
        found.append(folder.path)
    return found


def test_note_and_tags_are_listed(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Print control characters of a note as escapes."""
    assert run(["note", "last", "after \x1b[31mthe update"]) == ExitCode.DONE
    assert run(["tag", "last", "lab7", "nightly"]) == ExitCode.DONE
    capsys.readouterr()
    assert run(["note", "last"]) == ExitCode.DONE
    assert capsys.readouterr().out == "after \\x1b[31mthe update\n"
    assert run(["list", "--filter", "tag=lab7"]) == ExitCode.DONE
    assert "#lab7  #nightly  (after \\x1b[31mthe update)" in capsys.readouterr().out
    assert run(["list", "--json", "--filter", "note=after*"]) == ExitCode.DONE
    (listed,) = json.loads(capsys.readouterr().out)["runs"]
    assert (listed["folder"], listed["started"]) == (str(runs[2]), "2026-01-03T00:00:00")
    assert listed["tags"] == ["lab7", "nightly"]


def test_list_prints_the_newest_runs_first_on_request(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Limit the list after sorting."""
    assert run(["list", "--sort", "-started", "--limit", "2"]) == ExitCode.DONE
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == [str(runs[2]), str(runs[1])]
    assert run(["list", "--sort=-ok", "--limit", "1", "--filter", "status=partial"]) == ExitCode.DONE
    assert capsys.readouterr().out.split()[0] == str(runs[1])


def test_list_says_that_no_run_matches(capsys: pytest.CaptureFixture[str]) -> None:
    """Distinguish a filter from an empty folder."""
    assert run(["list", "--filter", "failed>0"]) == ExitCode.DONE
    assert "matches the filter (3 runs)" in capsys.readouterr().out


def test_rename_prints_the_new_path(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The new title selects the run."""
    assert run(["rename", "last", "second try"]) == ExitCode.DONE
    assert capsys.readouterr().out == "runs/20260103T000000-second-try\n"
    assert run(["show", "second"]) != ExitCode.INPUT_WRONG


def test_removal_without_terminal_needs_yes(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Change nothing without a confirmation."""
    assert run(["remove", "last"]) == ExitCode.INPUT_WRONG
    assert "--yes" in capsys.readouterr().err
    assert runs[2].is_dir()
    assert run(["remove", "last", str(runs[0]), "--yes"]) == ExitCode.DONE
    assert sorted(Path("runs").iterdir()) == [runs[1]]


@pytest.mark.parametrize(("answer", "left"), [("y", 2), ("n", 3), ("", 3)])
def test_removal_asks_on_a_terminal(
    answer: str, left: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default answer is no; the question names the folder and its size."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("iolab.cli.kept_runs.typer.confirm", lambda text, err: answer == "y")
    assert run(["remove", "last"]) == ExitCode.DONE
    assert len(list(Path("runs").iterdir())) == left
    assert "20260103T000000-lab: 5 files" in capsys.readouterr().err


def test_one_run_that_cannot_be_removed_stops_the_removal_of_all(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Examine every run before the first removal."""
    (runs[1] / "thesis.tex").write_text("years of work")
    assert run(["remove", *map(str, runs), "--yes"]) == ExitCode.INPUT_WRONG
    assert "thesis.tex" in capsys.readouterr().err
    assert len(list(Path("runs").iterdir())) == 3
