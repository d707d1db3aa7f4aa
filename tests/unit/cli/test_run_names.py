"""Runs are named by folder, name, the beginning of a title, or `last`."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from iolab.cli.run_names import complete, locate
from iolab.errors import InputError


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of three runs in runs/, oldest first."""
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


def test_run_is_found_by_path_or_name_or_the_keyword_last(runs: list[str]) -> None:
    """Select the newest by time, whatever its title."""
    assert locate(f"runs/{runs[0]}") == locate(runs[0]) == Path("runs", runs[0])
    assert locate("last") == Path("runs", runs[2])


def test_unambiguous_beginning_of_a_title_selects_a_run(runs: list[str]) -> None:
    """List two runs with the same beginning, and guess neither."""
    assert locate("win") == locate("Windows") == Path("runs", runs[1])
    with pytest.raises(
        InputError, match=f"2 runs whose titles start with the given text.*{runs[0]}, {runs[2]}"
    ):
        locate("quick start")
    with pytest.raises(InputError, match="iolab list"):
        locate("indow")
    with pytest.raises(InputError, match="iolab list"):
        locate("...")


def test_keyword_last_is_refused_if_there_are_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Print the message for an unknown name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        locate("last")


def test_shell_completion_lists_run_names_and_the_keyword_last(runs: list[str]) -> None:
    """Complete the names of all runs."""
    assert complete("") == ["last", *runs]
    assert complete("la") == ["last"]
