"""Runs are named by folder, name, the beginning of a title, or `last`."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from iolab.cli.run_names import complete, locate
from iolab.errors import InputError


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of three runs in runs/, oldest first."""
    from tests.unit.store.examples import PLAN

    from iolab.store.folder import create_folder

    monkeypatch.chdir(tmp_path)
    names = []
    for minute, title in enumerate(("Quick start: TCP", "Windows", "Quick start: TCP")):
        folder = create_folder(Path("runs"), title, datetime(2026, 1, 2, 3, minute, tzinfo=UTC))
        folder.write_decision("title: x\n", PLAN, {})
        folder.close()
        names.append(folder.path.name)
    return names


def test_a_run_is_found_by_path_by_name_and_as_the_last(runs: list[str]) -> None:
    """The newest is last by its time, whatever its title."""
    assert locate(f"runs/{runs[0]}") == locate(runs[0]) == Path("runs", runs[0])
    assert locate("last") == Path("runs", runs[2])


def test_the_beginning_of_a_title_names_a_run_that_no_other_shares(runs: list[str]) -> None:
    """Two that begin so are listed, none is guessed."""
    assert locate("win") == locate("Windows") == Path("runs", runs[1])
    with pytest.raises(InputError, match=f"2 runs whose titles start with this text.*{runs[0]}, {runs[2]}"):
        locate("quick start")
    with pytest.raises(InputError, match="iolab list"):
        locate("indow")
    with pytest.raises(InputError, match="iolab list"):
        locate("...")


def test_without_runs_there_is_no_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is that of any unknown name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        locate("last")


def test_a_shell_completes_names(runs: list[str]) -> None:
    """Of all runs, and `last`."""
    assert complete("") == ["last", *runs]
    assert complete("la") == ["last"]
