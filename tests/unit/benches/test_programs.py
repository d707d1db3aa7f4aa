"""The benches themselves: each says how it is run, and where one is named, it exists."""

import re
import subprocess
from pathlib import Path

from benches.__main__ import FOLDERS, main, programs

ROOT = Path(__file__).parents[3]
NAMED = re.compile(
    r"(?<![\w/])benches[/.](?P<name>[a-z_0-9]+[/.][a-z_0-9]+)(?:\.py\b|(?=[^a-z_0-9/.]|\.\s|$))"
)
TEXTS = ("*.md", "*.py", "*.rs", "*.toml", "*.sh", "Makefile")


def test_every_program_says_what_it_measures_and_how_it_is_run() -> None:
    """The first line of each is what `python -m benches --list` shows of it."""
    found = dict(programs())
    assert {name.partition("/")[0] for name in found} == set(FOLDERS)
    for name, about in found.items():
        assert about.endswith((".", "?", ":")), name
        text = (ROOT / "benches" / f"{name}.py").read_text()
        assert f"python -m benches.{name.replace('/', '.')}" in text, name


def test_a_bench_that_is_named_exists() -> None:
    """On pages, in tests and in other benches."""
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


def test_a_word_that_no_bench_has_runs_none() -> None:
    """A mistyped name is no success."""
    assert main(["no-such-bench"]) == 1
