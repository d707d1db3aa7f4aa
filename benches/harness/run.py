"""Run experiments with the installed iolab, like a user, and read their records."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

IOLAB = Path(sys.executable).with_name("iolab")


def ran(text: str, folder: Path, *options: str) -> Path:
    """Run an experiment in a subfolder; return the run's folder.

    Trials may have failed. The bench exits if there is no record.
    """
    file, runs = folder / "bench.yaml", folder / "runs"
    file.write_text(text)
    argv = [str(IOLAB), "run", str(file), "--output", str(runs), *options]
    done = subprocess.run(argv, cwd=folder, stdout=sys.stderr, check=False)
    found = sorted(path.parent for path in runs.glob("*/trials.jsonl"))
    if not found:
        sys.exit(f"iolab run ended with {done.returncode} and has no trials")
    return found[-1]


def trials(run: Path) -> list[dict[str, Any]]:
    """Return the stored trials of a run."""
    return [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]


def figure(trial: dict[str, Any], metric: str) -> float:
    """Return the first figure of a metric of a trial."""
    return float(next(one["value"] for one in trial["metrics"] if one["name"] == metric))
