"""The draw of sentences, run as a program in a small repository made here."""

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
    """Return what the program prints."""
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


def test_each_kind_has_its_sentences(repository: Path) -> None:
    """Code, headings, heads of tables and single words are no sentences; places have the commit's values."""
    kinds = draw(repository).split("\n\n")[1:]
    drawn = {kind.splitlines()[0]: {line[6:] for line in kind.splitlines()[1:]} for kind in kinds}
    assert drawn == {
        "messages": {"an MTU of 1400  [python/iolab/locale/en/check.toml]"},
        "docs": {
            "The lab has two hosts.  [README.md]",
            "It is measured three times.  [README.md]",
            "a cell of a table  [README.md]",
        },
        "docstrings and comments": {
            "Read the counters of a port.  [python/iolab/a.py]",
            "The kernel counts in ticks.  [python/iolab/a.py]",
            "Send the frames that are due now.  [crates/a/src/lib.rs]",
        },
        "test names": {"it_sends  [crates/a/src/lib.rs]", "test_it_reads  [tests/test_a.py]"},
    }


def test_a_commit_always_gives_the_same_draw(repository: Path) -> None:
    """Changes of the working tree do not matter."""
    sha = git(repository, "rev-parse", "HEAD").strip()
    before = draw(repository, sha)
    (repository / "README.md").write_text("A different text of five words.\n")
    assert draw(repository, sha) == before


def test_an_unknown_commit_is_refused(repository: Path) -> None:
    """With the status of wrong input."""
    argv = [sys.executable, str(SCRIPT), "0123abc"]
    ended = subprocess.run(argv, cwd=repository, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "no commit 0123abc" in ended.stderr
