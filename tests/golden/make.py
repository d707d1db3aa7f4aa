"""Make a golden run from a run folder, without data of the host and without evidence that no code reads.

    python tests/golden/make.py RUN NAME

writes tests/golden/NAME/ and, next to it, NAME.expected.json with every figure of the run. It imports nothing
from iolab, so the figures are those in the files, independent of the current code.
"""

import gzip
import json
import re
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPLACED = (
    (re.compile(r'("hostname": ?")vm"'), r'\g<1>host"'),
    (re.compile(r"6\.18\.44[\w.-]*"), "6.18.0-test"),
    (re.compile(r"/(?:work|tmp|root)/[^\s\"',:;)\\]*"), "/var/lib/iolab"),
    (re.compile(r"/run/iolab-golden[\w-]*"), "/run/iolab"),
    (re.compile(r'("(?:microcode|firmware)": ?)"[^"]*"'), r'\1"0"'),
    (re.compile(r'("memory_bytes": ?)25\d{9}\b'), r"\g<1>25769803776"),
    (re.compile(r'("cpu_model": ?)"AMD[^"]*"'), r'\1"Processor"'),
    (re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b"), "02:00:00:00:00:01"),
)
"""Data that identify the host, with their replacement."""
EVIDENCE_KEPT = 2000
"""Maximum characters of a part of a trial's evidence; a larger part becomes null."""
SERIES_KEPT = 2
"""Maximum number of series tables of a run; each belongs to one trial."""
ARRIVED = ("reordered_frames", "duplicate_frames")


def main() -> None:
    """Make one golden run."""
    run, name = Path(sys.argv[1]), sys.argv[2]
    target = HERE / name
    shutil.rmtree(target, ignore_errors=True)
    tables = sorted((run / "samples").glob("*.parquet"))
    for path in sorted(run.rglob("*")):
        if path.is_file() and not path.name.startswith("report.") and path not in tables[SERIES_KEPT:]:
            copy(path, target / path.relative_to(run))
    found = trials(target)
    expected = {"trials": found, "packets": packets(target), "series": series(target), "means": means(found)}
    text = json.dumps(expected, separators=(",", ":"))
    (HERE / f"{name}.expected.json").write_text(f"{text}\n")


def copy(path: Path, target: Path) -> None:
    """Write one file without data of the host."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".parquet", ".pcapng"):
        shutil.copyfile(path, target)
        return
    packed = path.suffix == ".gz"
    text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    if packed and ".packets." not in path.name:
        text = json.dumps(less(json.loads(text)), separators=(",", ":"))
    for seen, instead in REPLACED:
        text = seen.sub(instead, text)
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0) if packed else text.encode())


def less(evidence: Any) -> Any:
    """Return evidence without its large parts; parts that are read of packet trials of the first schemas stay."""
    if not isinstance(evidence, dict):
        return None
    if "load_trials" in evidence and "sizes" in evidence:
        for trial in evidence["load_trials"]:
            arrived = trial["traffic"]["receivers"]
            trial["traffic"] = {"receivers": [{name: one[name] for name in ARRIVED} for one in arrived]}
        return {**evidence, "instruments": None}
    return {name: part if len(json.dumps(part)) <= EVIDENCE_KEPT else None for name, part in evidence.items()}


def lines(run: Path) -> list[dict[str, Any]]:
    """Return the lines of trials.jsonl."""
    return [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]


def trials(run: Path) -> list[dict[str, Any]]:
    """Return each trial with its figures as stored: label or dimensions, unit, value, bound."""
    kept = ("schema", "key", "measure", "block", "cell", "status", "reason")
    return [{**{name: one[name] for name in kept}, "figures": figures(one["metrics"])} for one in lines(run)]


def figures(metrics: Any) -> list[list[Any]]:
    """Return name, dimensions, unit, value and bound of each figure; the first schemas have dimensions in the name."""
    if isinstance(metrics, dict):
        return [
            [name, {}, one["unit"], one["value"], one.get("limited_by", "")] for name, one in metrics.items()
        ]
    return [
        [one["name"], one.get("dimensions", {}), one["unit"], one["value"], one.get("limited_by", "")]
        for one in metrics
    ]


def means(found: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the mean over blocks of each whole-trial figure of successful trials, without bounds."""
    groups: dict[str, list[list[Any]]] = {}
    for trial in {one["key"]: one for one in found}.values():
        for name, about, _, value, limited in trial["figures"] if trial["status"] == "ok" else ():
            if not about and "[" not in name:
                of = json.dumps([trial["measure"], trial["cell"], name], sort_keys=True)
                groups.setdefault(of, []).append([value, limited])
    return [
        [*json.loads(of), statistics.fmean(value for value, _ in each)]
        for of, each in groups.items()
        if not any(limited for _, limited in each)
    ]


def packets(run: Path) -> dict[str, list[list[Any]]]:
    """Return the load trials of each packet trial: offered and forwarded frames, the verdict's limit, drops."""
    found: dict[str, list[list[Any]]] = {}
    for path in sorted((run / "samples").glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        if path.name.endswith(".packets.json.gz"):
            found[path.name.partition(".")[0]] = [
                load_trial(one["result"], one["verdict"], one["balances"])
                for one in document["packets"]["load_trials"]
            ]
        elif isinstance(document, dict) and "sizes" in document and "load_trials" in document:
            found[path.name.partition(".")[0]] = [
                load_trial(one, one["verdict"], one["balance"]) for one in document["load_trials"]
            ]
    return found


def load_trial(result: dict[str, Any], verdict: dict[str, Any], balances: list[dict[str, Any]]) -> list[Any]:
    """Return the compared figures of a load trial."""
    drops = [[drop["frames"] for drop in balance["drops"]] for balance in balances]
    return [result["offered_frames"], result["forwarded_frames"], verdict["limit"], drops]


def series(run: Path) -> dict[str, list[list[Any]]]:
    """Return the number of points and the first and last value of each series table, as read by pyarrow."""
    from pyarrow import parquet

    found: dict[str, list[list[Any]]] = {}
    for path in sorted((run / "samples").glob("*.parquet")):
        rows = parquet.read_table(path).select(["series", "name", "value"]).to_pylist()
        numbers = sorted({row["series"] for row in rows})
        own = [[row for row in rows if row["series"] == number] for number in numbers]
        found[path.stem] = [
            [each[0]["name"], len(each), repr(each[0]["value"]), repr(each[-1]["value"])] for each in own
        ]
    return found


if __name__ == "__main__":
    main()
