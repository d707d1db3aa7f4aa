"""The chart script is built once per version, and never read from a cache that others can write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iolab.report.page import render

MADE = "window.vegaEmbed = 1; // <\\/script>"


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Count the builds of the script, with a temporary cache."""
    made: list[str] = []

    def make() -> str:
        made.append(MADE)
        return MADE

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(render, "_made", make)
    render.library.cache_clear()
    yield made
    render.library.cache_clear()


def test_cached_chart_script_is_reused(makings: list[str], tmp_path: Path) -> None:
    """Store the complete script in the cache."""
    assert render.library() == MADE
    render.library.cache_clear()
    assert render.library() == MADE
    assert len(makings) == 1
    assert [kept.read_text() for kept in (tmp_path / "iolab").iterdir()] == [MADE]


def test_different_library_version_gets_a_new_chart_script(
    makings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never use a script of an older version."""
    render.library()
    render.library.cache_clear()
    monkeypatch.setattr(render, "version", lambda package: f"{package} 99")
    render.library()
    assert len(makings) == 2


def test_world_writable_cache_is_not_read(makings: list[str], tmp_path: Path) -> None:
    """Ignore its contents, which would run in the reader's browser."""
    folder = tmp_path / "iolab"
    folder.mkdir()
    folder.chmod(0o777)
    assert render.library() == MADE
    assert not list(folder.iterdir())


def test_chart_script_contains_its_licence_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Include them in the script, because reports are passed on, and do not end the comment."""
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda snippet: f"1; {snippet}")
    notice, ended, script = render._made().partition("*/\n")
    assert notice.startswith("/*!\n")
    assert ended
    assert script == "1; window.vegaEmbed = vegaEmbed;"
    for words in ("University of Washington Interactive Data Lab", "Mike Bostock", "IN NO EVENT SHALL"):
        assert words in notice


def test_changed_licence_notice_gives_a_new_chart_script(
    makings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignore a cached script without it."""
    render.library()
    render.library.cache_clear()
    monkeypatch.setattr(render, "_notice", lambda: "/*! other */")
    render.library()
    assert len(makings) == 2
