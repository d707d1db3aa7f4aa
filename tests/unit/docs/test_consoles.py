"""Console examples on pages of commands that only read a file: they show the real output."""

from pathlib import Path

import pytest
from tests.pages import LED, differs, experiment_of, name_of, shown_on

from iolab.cli.main import run

READING = ("iolab check ", "iolab new ", "iolab quick ")
MISTAKE = ("mtu: 1500}", "mtuu: 1500}")
"""A mistake that a page has its reader make, to show the message."""


def cases() -> list[tuple[Path, str, tuple[str, ...]]]:
    """Return page, call and the text below it."""
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
def test_console_example_on_a_page_shows_the_real_output(
    page: Path,
    line: str,
    printed: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Compare line by line; make the mistakes that the reader is to make."""
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


def test_documentation_pages_contain_console_examples() -> None:
    """Check the search itself."""
    assert len(cases()) >= 5


def test_console_example_that_differs_from_the_real_output_is_detected() -> None:
    """Detect an additional line, a missing line and a different word; dots match anything."""
    assert differs(["a", "b"], ["a"]) == "b"
    assert differs(["a", "c"], ["a", "b", "c"]) == "c"
    assert differs(["a", "...", "c"], ["a", "b", "c"]) == ""
    assert differs(["ran ..."], ["ran for 3 s"]) == ""
