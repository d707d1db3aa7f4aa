"""Run benches one after the other, each in a separate process, and list those that failed.

Usage: python -m benches [--list] [WORD ...]. A bench runs if its name (as cost/startup) contains one of the WORDs.
Without a WORD all benches run, which takes hours. `--list` prints their names and subjects. To run one bench with
arguments: python -m benches.FOLDER.NAME ARGUMENT ...; the first lines of its docstring describe them.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("truth", "faults", "cost", "peers")
"""Folders that contain benches. `harness` contains what benches share and what they start."""
HERE = Path(__file__).parent
MARK = 'if __name__ == "__main__":'


def programs() -> Iterator[tuple[str, str]]:
    """Yield the name of each bench and the first line of its docstring."""
    for path in (path for folder in FOLDERS for path in sorted((HERE / folder).glob("*.py"))):
        text = path.read_text()
        if MARK in text:
            about = ast.get_docstring(ast.parse(text)) or ""
            yield f"{path.parent.name}/{path.stem}", about.partition("\n")[0]


def main(words: list[str]) -> int:
    """List or run the requested benches; return 1 if one failed."""
    wanted = [word for word in words if word != "--list"]
    chosen = [
        (name, about) for name, about in programs() if not wanted or any(word in name for word in wanted)
    ]
    failed = []
    for name, about in chosen:
        print(f"== {name}: {about}", flush=True)
        if "--list" in words:
            continue
        module = f"benches.{name.replace('/', '.')}"
        if subprocess.run([sys.executable, "-m", module], cwd=HERE.parent, check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
