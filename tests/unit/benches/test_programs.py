"""The benches themselves: each documents its command line, and every named bench exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from benches.__main__ import FOLDERS, main, programs
from benches.harness.arguments import Argument, arguments

ROOT = Path(__file__).parents[3]
NAMED = re.compile(
    r"(?<![\w/])benches[/.](?P<name>[a-z_0-9]+[/.][a-z_0-9]+)(?:\.py\b|(?=[^a-z_0-9/.]|\.\s|$))"
)
TEXTS = ("*.md", "*.py", "*.rs", "*.toml", "*.sh", "Makefile")


def test_every_bench_documents_its_purpose_and_command_line() -> None:
    """Check the first line, which `python -m benches --list` shows."""
    found = dict(programs())
    assert {name.partition("/")[0] for name in found} == set(FOLDERS)
    for name, about in found.items():
        assert about.endswith((".", "?", ":")), name
        text = (ROOT / "benches" / f"{name}.py").read_text()
        assert f"python -m benches.{name.replace('/', '.')}" in text, name
        assert "arguments(__doc__" in text, f"{name} has no --help"


@pytest.mark.parametrize("name", ["truth.search", "faults.kill", "cost.plan_100k"])
def test_help_of_a_bench_shows_every_argument(name: str) -> None:
    """Run without root and without a lab."""
    argv = [sys.executable, "-m", f"benches.{name}", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"usage: python -m benches.{name}" in done.stdout
    assert "(default: " in done.stdout


def test_arguments_of_a_bench_are_parsed_by_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept positional words, several at the end, and options anywhere."""
    table = (
        Argument("rounds", 5, "how often"),
        Argument("kinds", ("a", "b"), "which", allowed=("a", "b"), several=True),
        Argument("--fast", False, "whether in haste"),
    )
    for words, rounds, kinds, fast in (
        ([], 5, ["a", "b"], False),
        (["3"], 3, ["a", "b"], False),
        (["3", "b", "--fast"], 3, ["b"], True),
    ):
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        asked = arguments("About.", *table)
        assert (asked.rounds, list(asked.kinds), asked.fast) == (rounds, kinds, fast)


def test_default_of_an_argument_need_not_be_one_of_its_allowed_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the default mean that nothing was requested."""
    monkeypatch.setattr(sys, "argv", ["bench"])
    assert arguments("About.", Argument("only", "", "one part", allowed=("a", "b"))).only == ""


@pytest.mark.parametrize("word", ["often", "3 c"])
def test_argument_outside_the_allowed_words_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """List the allowed words."""
    monkeypatch.setattr(sys, "argv", ["bench", *word.split()])
    with pytest.raises(SystemExit):
        arguments(
            "About.", Argument("rounds", 5, "how often"), Argument("kind", "a", "which", allowed=("a", "b"))
        )


def test_every_bench_named_in_the_repository_exists() -> None:
    """Check pages, tests and other benches."""
    listed = subprocess.run(["git", "ls-files", *TEXTS], cwd=ROOT, capture_output=True, text=True, check=True)
    named = {
        (match["name"].replace(".", "/"), path)
        for path in listed.stdout.splitlines()
        if (ROOT / path).exists()
        for match in NAMED.finditer((ROOT / path).read_text(encoding="utf-8"))
    }
    assert len(named) > len(dict(programs()))
    absent = {one for one in named if not _exists(ROOT / "benches" / one[0])}
    assert absent == set()


def _exists(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists() or path.with_suffix(".yaml").exists()


def test_unknown_bench_name_exits_with_status_1() -> None:
    """Do not accept a mistyped name as success."""
    assert main(["no-such-bench"]) == 1
