"""The charts' script is put together once for each version, and never taken from a cache that others can write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iolab.report.page import render

MADE = "window.vegaEmbed = 1; // <\\/script>"


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """How often the script was put together, with a cache of the test's own."""
    made: list[str] = []

    def make() -> str:
        made.append(MADE)
        return MADE

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(render, "_made", make)
    render.library.cache_clear()
    yield made
    render.library.cache_clear()


def test_the_next_program_reads_what_the_first_has_made(makings: list[str], tmp_path: Path) -> None:
    """It is in the cache, whole."""
    assert render.library() == MADE
    render.library.cache_clear()
    assert render.library() == MADE
    assert len(makings) == 1
    assert [kept.read_text() for kept in (tmp_path / "iolab").iterdir()] == [MADE]


def test_another_version_has_a_script_of_its_own(makings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade never shows charts by what was there before."""
    render.library()
    render.library.cache_clear()
    monkeypatch.setattr(render, "version", lambda package: f"{package} 99")
    render.library()
    assert len(makings) == 2


def test_a_cache_to_which_all_may_write_is_not_read(makings: list[str], tmp_path: Path) -> None:
    """What lies there could be anybody's, and would run in the reader's browser."""
    folder = tmp_path / "iolab"
    folder.mkdir()
    folder.chmod(0o777)
    assert render.library() == MADE
    assert not list(folder.iterdir())


def test_the_script_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is given on alone, so the notices that its licences ask for are in it, and cannot end the comment."""
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda snippet: f"1; {snippet}")
    notice, ended, script = render._made().partition("*/\n")
    assert notice.startswith("/*!\n")
    assert ended
    assert script == "1; window.vegaEmbed = vegaEmbed;"
    for words in ("University of Washington Interactive Data Lab", "Mike Bostock", "IN NO EVENT SHALL"):
        assert words in notice


def test_a_changed_notice_makes_a_script_of_its_own(
    makings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that was kept without it is not used."""
    render.library()
    render.library.cache_clear()
    monkeypatch.setattr(render, "_notice", lambda: "/*! other */")
    render.library()
    assert len(makings) == 2
