"""The tree check, run as a program on small generated trees."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_tree.py"
LONG_PYTHON = "def long() -> None:\n" + "    print()\n" * 60
LONG_RUST = "impl Thing {\n    pub fn long(&self) {\n" + "        step();\n" * 59 + "    }\n}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree without an error: one version, one module."""
    for name, text in {
        "pyproject.toml": '[project]\nversion = "1.2.3"\n',
        "Cargo.toml": '[workspace.package]\nversion = "1.2.3"\n',
        "python/iolab/__init__.py": '__version__ = "1.2.3"\n',
    }.items():
        write(tmp_path, name, text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def write(tree: Path, name: str, text: str) -> None:
    """Write one file, with its folders."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def check(tree: Path) -> tuple[int, list[str]]:
    """Return the exit code and the printed lines of the check."""
    ended = subprocess.run([sys.executable, SCRIPT], cwd=tree, capture_output=True, text=True, check=False)
    assert not ended.stderr
    return ended.returncode, ended.stdout.splitlines()


def test_source_tree_without_errors_passes_the_check(tree: Path) -> None:
    """Exit with 0 and one line."""
    assert check(tree) == (0, ["3 files checked"])


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "a.py",
            "x = 1\n" * 401,
            "a.py: 401 lines, at most 400 are allowed: split it",
        ),
        ("a.py", LONG_PYTHON, "a.py:1: long has 61 lines, at most 60 are allowed"),
        (
            "docs/a.md",
            "short\n" + "x" * 121 + "\n",
            "docs/a.md:2: 121 characters, at most 120 are allowed: break it",
        ),
        (
            "tests/test_a.py",
            "from tests.test_b import made\n",
            "tests/test_a.py:1: tests.test_b has tests: move what is shared to a module of its own",
        ),
        ("a.rs", LONG_RUST, "a.rs:2: long has 61 lines, at most 60 are allowed"),
        (
            "docs/a.md",
            "first\nThe reader is told of it.\n",
            "docs/a.md:2: 'is told': say it plainly, as a field engineer writes",
        ),
        (
            "docs/a.md",
            "first\nsee " + "/home" + "/ann/notes\n",
            "docs/a.md:2: /home" + "/ann is a path of one machine: write it relative to the tree",
        ),
    ],
)
def test_error_in_the_source_tree_is_reported_with_its_location(
    tree: Path, name: str, text: str, complaint: str
) -> None:
    """Print file, line and the allowed values, and exit with 1."""
    write(tree, name, text)
    assert check(tree) == (1, [complaint])


@pytest.mark.parametrize("name", ["tests/a.py", "crates/agent/tests/a.rs"])
def test_test_files_may_exceed_the_size_limits(tree: Path, name: str) -> None:
    """Apply size limits to the product only."""
    write(tree, name, LONG_PYTHON * 10)
    assert check(tree) == (0, ["4 files checked"])


def test_rust_test_modules_do_not_count_towards_the_size_limits(tree: Path) -> None:
    """Skip lines after cfg(test)."""
    write(tree, "a.rs", "fn short() {}\n#[cfg(test)]\nmod tests {\n" + LONG_RUST * 10 + "}\n")
    assert check(tree) == (0, ["4 files checked"])


def test_differing_versions_are_reported(tree: Path) -> None:
    """Refuse a wheel whose agent has a different version."""
    write(tree, "Cargo.toml", '[workspace.package]\nversion = "1.2.4"\n')
    status, lines = check(tree)
    assert status == 1
    assert "'Cargo.toml': '1.2.4'" in lines[0]


def test_import_of_an_undeclared_package_is_reported(tree: Path) -> None:
    """Refuse it, because it may be missing on the next machine."""
    write(tree, "pyproject.toml", '[project]\nversion = "1.2.3"\ndependencies = ["numpy>=2"]\n')
    write(tree, "python/iolab/a.py", "import re\nimport numpy\nfrom chance.of import luck\n")
    complaint = "chance is no dependency of pyproject.toml: add it there, or do without"
    assert check(tree) == (1, [f"python/iolab/a.py:3: {complaint}"])


def test_table_rows_and_code_blocks_of_documentation_may_be_long(tree: Path) -> None:
    """Accept lines that cannot be wrapped."""
    write(tree, "docs/a.md", f"| {'x' * 130} |\n```\n{'x' * 130}\n```\n")
    assert check(tree) == (0, ["4 files checked"])
