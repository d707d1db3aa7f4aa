"""What pages show of commands that only read a file: it is what they print."""

from pathlib import Path

import pytest
from tests.pages import LED, differs, experiment_of, name_of, shown_on

from iolab.cli.main import run

READING = ("iolab check ", "iolab new ", "iolab quick ")
MISTAKE = ("mtu: 1500}", "mtuu: 1500}")
"""What a page has its reader write wrong, to see what is said of it."""


def cases() -> list[tuple[Path, str, tuple[str, ...]]]:
    """Return page, call and what is shown below it."""
    return [
        (page, shown.line, shown.printed)
        for page in LED
        for shown in shown_on(page)
        if shown.line.startswith(READING) and (shown.printed or " quick " not in shown.line)
    ]


@pytest.mark.parametrize(
    ("page", "line", "printed"),
    [pytest.param(*case, id=f"{name_of(case[0])} {number}") for number, case in enumerate(cases())],
)
def test_a_page_shows_what_is_printed(
    page: Path,
    line: str,
    printed: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Line by line; a mistake that the reader is to make is made."""
    monkeypatch.chdir(tmp_path)
    _, command, *words = line.split()
    if command == "check":
        (name,) = words
        text = experiment_of(page, name)
        wrong = any(MISTAKE[1].split(":")[0] in one for one in printed)
        Path(name).write_text(text.replace(*MISTAKE) if wrong else text)
    run([command, *words])
    told = capsys.readouterr()
    assert differs(printed, (told.out + told.err).splitlines()) == ""


def test_there_are_such_calls() -> None:
    """The search finds them."""
    assert len(cases()) >= 5


def test_a_page_that_shows_something_else_is_found() -> None:
    """A line too many, one too few, another word; dots are anything."""
    assert differs(["a", "b"], ["a"]) == "b"
    assert differs(["a", "c"], ["a", "b", "c"]) == "c"
    assert differs(["a", "...", "c"], ["a", "b", "c"]) == ""
    assert differs(["ran ..."], ["ran for 3 s"]) == ""
