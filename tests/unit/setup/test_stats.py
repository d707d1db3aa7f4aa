"""The statistics of the code base, run as a program on a small generated tree."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "stats.py"
FILES = {
    "python/iolab/__init__.py": '"""A package."""\n',
    "python/iolab/messages/statement.py": "class Statement:\n    pass\n",
    "python/iolab/messages/limits.py": (
        "from iolab.messages.statement import Statement\n\n\n"
        "class Limit(Statement):\n    pass\n\n\nclass RingFull(Limit):\n    pass\n"
    ),
    "python/iolab/report/locale/words.py": 'class Heads:\n    mean: str\n    """A head."""\n',
    "python/iolab/agent/fake.py": "# In memory.\nNS_PER_S = 1_000_000_000\n",
    "python/iolab/trial/disk.py": (
        '"""A trial."""\n\nETHERNET_HEADER = 14\n\n\n'
        'def run(experiment):\n    from iolab.lab import Resolver\n\n    return Resolver(experiment), "fio"\n'
    ),
    "crates/agent/src/main.rs": "//! Docs.\nfn main() {} \n// Why.\n#[cfg(test)]\nmod tests {}\n",
    "tests/test_it.py": "def test_it():\n    pass\n",
    "benches/cost/startup.py": "print()\n",
}


def counted(tree: Path) -> dict[str, int]:
    """Return each printed row: its subject and its count."""
    argv = [sys.executable, str(SCRIPT), str(tree)]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = [line.strip().rsplit(maxsplit=1) for line in text.splitlines() if line.startswith("  ")]
    return {name: int(count.replace(",", "")) for name, count in rows}


def test_each_row_of_the_statistics_counts_the_lines_of_its_kind(tmp_path: Path) -> None:
    """Count a tree that has one of most things."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rows = counted(tmp_path)
    expected = {
        "modules": 6,
        "statement classes": 2,
        "lines of classes that mirror the locale": 3,
        "lines of the fake agent in the wheel": 2,
        "places that call Resolver(": 1,
        "places that call make_topology(": 0,
        "imports within functions": 1,
        "definitions of NS_PER_S": 1,
        "definitions of the Ethernet header's size": 1,
        "modules that name a disk program": 1,
        "modules with one importer": 1,
        "docstring lines": 3,
        "import lines": 2,
        "comment lines": 1,
        "comment lines (// alone)": 1,
        "test lines": 2,
        "bench files": 1,
        "bench files directly in benches/": 0,
    }
    assert {name: rows[name] for name in expected} == expected
    kinds = [rows[f"{kind} lines"] for kind in ("docstring", "blank", "import", "comment")]
    code = rows["code lines (no blanks, docstrings, imports, comments)"]
    assert code + sum(kinds) == rows["all lines"]


def test_folder_that_is_not_a_checkout_is_refused(tmp_path: Path) -> None:
    """Print no empty table."""
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert done.returncode == 3
    assert "no checkout" in done.stderr
