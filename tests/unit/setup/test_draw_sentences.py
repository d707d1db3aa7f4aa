"""The draw of sentences, run as a program in a small generated repository."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "draw_sentences.py"
FILES = {
    "python/iolab/locale/en/check.toml": 'mtu = "an MTU of {mtu}"\nkey = "word"\n',
    "scripts/message_samples.toml": "[of_name]\nmtu = 1400\n[of_suffix]\n[of_message]\n",
    "README.md": (
        "# A heading of four words\n\nThe lab has two hosts. It is\nmeasured three times.\n\n"
        "| the head of a table |\n|---|\n| a cell of a table |\n\n```sh\nnot this line of code\n```\n"
    ),
    "python/iolab/a.py": '"""Read the counters of a port."""\n# The kernel counts in ticks.\n',
    "crates/a/src/lib.rs": "/// Send the frames that\n/// are due now.\n#[test]\nfn it_sends() {}\n",
    "tests/test_a.py": "def test_it_reads() -> None:\n    pass\n",
}


def git(folder: Path, *words: str) -> str:
    """Run git in a repository."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def draw(folder: Path, *words: str) -> str:
    """Return the output of the program."""
    argv = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one commit."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Begin")
    return tmp_path


def test_sentences_are_drawn_per_kind_with_their_places(repository: Path) -> None:
    """Exclude code, headings, table heads and single words; fill placeholders with the commit's values."""
    kinds = draw(repository).split("\n\n")[1:]
    drawn = {kind.splitlines()[0]: {line[6:] for line in kind.splitlines()[1:]} for kind in kinds}
    assert drawn == {
        "messages": {"an MTU of 1400  [python/iolab/locale/en/check.toml]"},
        "docs": {
            "The lab has two hosts.  [README.md]",
            "It is measured three times.  [README.md]",
            "the head of a table: a cell of a table  [README.md]",
        },
        "docstrings and comments": {
            "Read the counters of a port.  [python/iolab/a.py]",
            "The kernel counts in ticks.  [python/iolab/a.py]",
            "Send the frames that are due now.  [crates/a/src/lib.rs]",
        },
        "test names": {"it_sends  [crates/a/src/lib.rs]", "test_it_reads  [tests/test_a.py]"},
    }


@pytest.mark.parametrize(
    ("page", "drawn"),
    [
        (
            "| key | meaning |\n|---|---|\n| `a` | the rate of a port |\n",
            {"`a` | meaning: the rate of a port"},
        ),
        (
            "| key | meaning |\n|---|---|\n| `a` | one |\n| | the size of a queue |\n",
            {"`a` | meaning: the size of a queue"},
        ),
        (
            "iolab refuses these files:\n\n- files of more than 1 MiB;\n- Read the page of limits.\n",
            {
                "iolab refuses these files: files of more than 1 MiB;",
                "Read the page of limits.",
            },
        ),
        ("Run this command again:\n\n```sh\nmake\n```\n", {"Run this command again:"}),
        (
            "Run this command again:\n\n```sh\nmake\n```\n\n- make of the whole tree\n",
            {"Run this command again:", "make of the whole tree"},
        ),
        ("| keys | meaning |\n|---|---|\n| `a` `b` `c` `d` | one |\n", set()),
        (
            "A transformation (J. R. Stat. Soc. B) gains two points. (It is an old one.) It costs some time.\n",
            {
                "A transformation (J. R. Stat. Soc. B) gains two points.",
                "(It is an old one.)",
                "It costs some time.",
            },
        ),
    ],
    ids=[
        "cell",
        "cell below an empty name",
        "items",
        "words before code",
        "items after code",
        "names",
        "abbreviations",
    ],
)
def test_text_that_a_page_shows_together_is_drawn_as_one_sentence(
    page: str, drawn: set[str], repository: Path
) -> None:
    """Draw no fragment that a reader of the page would not see alone."""
    (repository / "README.md").write_text(page)
    git(repository, "commit", "-qam", "Change")
    kinds = draw(repository).split("\n\n")[1:]
    docs = next(kind for kind in kinds if kind.startswith("docs"))
    assert {line[6:].removesuffix("  [README.md]") for line in docs.strip().splitlines()[1:]} == drawn


def test_draw_depends_only_on_the_commit(repository: Path) -> None:
    """Ignore the working tree."""
    sha = git(repository, "rev-parse", "HEAD").strip()
    before = draw(repository, sha)
    (repository / "README.md").write_text("A different text of five words.\n")
    assert draw(repository, sha) == before


def test_draw_from_an_unknown_commit_is_refused(repository: Path) -> None:
    """Exit with the status of invalid input."""
    argv = [sys.executable, str(SCRIPT), "0123abc"]
    ended = subprocess.run(argv, cwd=repository, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "no commit 0123abc" in ended.stderr
