"""Damage files of golden runs at random and read them. Randomness is an argument."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from iolab.analysis import analyse
from iolab.errors import IolabError
from iolab.report.formats import show_json
from iolab.store.read import load_run, read_packets
from iolab.store.series import read_series

GOLDEN = Path(__file__).parents[2] / "tests/golden"
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e308, 2**63, 2**200, "", "x", "fw.left", "a\x00b", "\ud800", [], [[]], {}, {"code": "x"},
    {"code": "other-failure", "said": 3}, [1, "a", None],
)  # fmt: skip
"""Replacement values."""
ODD_BYTES = (b"", b"\x00", b"\xff", b"{", b"}", b'"', b"\n", b"1e999", b"NaN", b"[" * 3000)
READ, REFUSED = "read", "refused"


def copies(folder: Path) -> list[Path]:
    """Copy the golden runs into a folder, where they can be damaged."""
    runs = sorted(path.parent for path in GOLDEN.glob("*/plan.json"))
    return [Path(shutil.copytree(run, folder / run.name)) for run in runs]


def damaged(run: Path, random_: random.Random, *, concluded: bool) -> str:
    """Damage one file of a run, read the run, and restore the file; `concluded`: analyse it, too.

    Returns the outcome as text: the file was read, or refused; anything else is a defect.
    """
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.name != "experiment.yaml"]
    path = random_.choice(files)
    before = path.read_bytes()
    path.write_bytes(_mutated_file(path, before, random_))
    try:
        return _outcome(run, path, concluded=concluded)
    finally:
        path.write_bytes(before)


def _outcome(run: Path, path: Path, *, concluded: bool) -> str:
    try:
        stored = load_run(run)
        key = path.name.partition(".")[0]
        read_packets(run, key)
        read_series(run, key)
        if concluded:
            show_json(stored, analyse(stored.trials, stored.plan, partial(read_packets, run)))
    except IolabError as error:
        placed = path.name in str(error)
        return REFUSED if placed else f"{path.name}: refused without its place: {error}"
    except Exception as error:  # any other exception is a defect
        return f"{path.name}: {type(error).__name__}: {str(error)[:200]}"
    return READ


def _mutated_file(path: Path, data: bytes, random_: random.Random) -> bytes:
    """Return a file with one damaged place."""
    if path.suffix == ".gz":
        if random_.random() < 0.1:
            return _mutated_bytes(data, random_)
        return gzip.compress(_mutated_json(gzip.decompress(data), random_), 1)
    if path.suffix == ".jsonl":
        lines = data.splitlines(keepends=True)
        if not lines:
            return data
        at = random_.randrange(len(lines))
        lines[at] = _mutated_json(lines[at].rstrip(b"\n"), random_) + b"\n"
        return b"".join(lines)
    return _mutated_json(data, random_) if path.suffix == ".json" else _mutated_bytes(data, random_)


def _mutated_bytes(data: bytes, random_: random.Random) -> bytes:
    if not data:
        return data
    begin = random_.randrange(len(data))
    end = min(len(data), begin + random_.choice((0, 1, 1, 2, 10, 1000)))
    return data[:begin] + random_.choice(ODD_BYTES) + data[end:]


def _mutated_json(data: bytes, random_: random.Random) -> bytes:
    if random_.random() < 0.25:
        return _mutated_bytes(data, random_)
    document = json.loads(data)
    _change(document, random_)
    return json.dumps(document, separators=(",", ":")).encode()


def _change(document: Any, random_: random.Random) -> None:
    """Replace, remove, rename, duplicate or nest one value of a document."""
    parent = document
    while True:
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if not keys:
            return
        key = random_.choice(keys)
        inner = parent[key]
        if not isinstance(inner, dict | list) or not inner or random_.random() < 0.2:
            random_.choice(_CHANGES)(parent, key, random_)
            return
        parent = inner


def _replace(parent: Any, key: Any, random_: random.Random) -> None:
    parent[key] = random_.choice(ODD_VALUES)


def _remove(parent: Any, key: Any, _: random.Random) -> None:
    del parent[key]


def _rename(parent: Any, key: Any, random_: random.Random) -> None:
    if isinstance(parent, dict):
        parent[random_.choice(("", "x", "schema", "code", f"{key}[50 %]", f"{key} "))] = parent.pop(key)


def _double(parent: Any, key: Any, _: random.Random) -> None:
    if isinstance(parent, list):
        parent.append(parent[key])


def _nest(parent: Any, key: Any, random_: random.Random) -> None:
    parent[key] = random_.choice(([parent[key]], {"code": parent[key]}, {"": parent[key]}))


_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (_replace, _remove, _rename, _double, _nest)
