"""Run folders with any damage give an error message, never a traceback; DAMAGED_RUNS=2000 tries more of them."""

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.records import load_record, packet_trial
from tests.unit.store.examples import BUSY, PLAN, RATES, record

from iolab.cli.main import run
from iolab.results.trial import CommandRecord
from iolab.store.folder import create_folder
from iolab.store.records import Samples

CASES = int(os.environ.get("DAMAGED_RUNS", "6"))
FILE = """title: A plan
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure: {tcp: {kind: stream, from: near, to: far}}
factors: {links.lan.mtu: [1500, 9000]}
"""
COMMANDS = (
    ("list",),
    ("show", "RUN"),
    ("show", "RUN", "--json"),
    ("show", "RUN", "--trial", "k0"),
    ("report", "RUN", "--format", "csv", "-o", "-"),
    ("report", "RUN", "--format", "md", "-o", "-"),
    ("compare", "RUN", "RUN"),
)
OTHERS: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1.5, -1e308, "", "x" * 300, "\x1b[2J", "\ud800", [], {}, [[]], {"a": {}}, [None],
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a run folder with two trials and all kinds of files."""
    folder = create_folder(tmp_path_factory.mktemp("runs"), "whole", datetime(2026, 1, 1, tzinfo=UTC))
    folder.write_decision(
        FILE, PLAN, {"kernel": "6.1", "cpus": 2, "interfaces": [{"name": "eth0"}], "hello": {"pid": 1}}
    )
    folder.write_machine("near", {"kernel": "6.1"})
    for key in ("k0", "k1"):
        samples = Samples(raw={"iperf3": [1]}, packets=packet_trial([load_record(1e5)]), series=(RATES, BUSY))
        folder.append_trial(record(key), samples)
    folder.append_commands(
        [
            CommandRecord(
                machine="near",
                kernel="",
                netns=None,
                argv=("ip",),
                undo=None,
                exit_status=0,
                duration_ns=1,
                notes=(),
            )
        ]
    )
    folder.close()
    return folder.path


def cut(data: bytes, chance: random.Random) -> bytes:
    """Truncate the file."""
    return data[: chance.randrange(len(data))]


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Change a byte."""
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def deep(data: bytes, chance: random.Random) -> bytes:
    """Add deep nesting."""
    return (b"[" if chance.random() < 0.5 else b'{"a":') * 100_000 + data


def other(data: bytes, chance: random.Random) -> bytes:
    """Put a value of a different type somewhere, or remove a key."""
    lines = data.decode().splitlines() if data[:1] == b"{" else []
    if not lines:
        return flipped(data, chance)
    whole = len(lines) == 1 or not lines[0].endswith("}")
    texts = ["\n".join(lines)] if whole else lines
    at = chance.randrange(len(texts))
    document = json.loads(texts[at])
    places = list(_places(document))
    holder, key = chance.choice(places)
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(OTHERS)
    texts[at] = json.dumps(document)
    return ("\n".join(texts) + "\n").encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in a document, as its container and key."""
    keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (cut, flipped, deep, other, other, other, other)


@pytest.mark.parametrize("seed", range(CASES))
def test_command_on_a_damaged_run_ends_with_a_message_and_no_traceback(
    seed: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Damage any file in any way; every command ends with a documented exit code."""
    chance = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / whole.name
    shutil.copytree(whole, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen, way = chance.choice(files), chance.choice(WAYS)
    data = chosen.read_bytes()
    packed = chosen.suffix == ".gz" and chance.random() < 0.7
    damaged = way(gzip.decompress(data) if packed else data, chance)
    chosen.write_bytes(gzip.compress(damaged) if packed else damaged)
    for command in COMMANDS:
        status = run([whole.name if word == "RUN" else word for word in command])
        said = capfd.readouterr().err
        told = f"{chosen.name} {way.__name__}, seed {seed}, {' '.join(command)}: exit {status}: {said}"
        assert "defect" not in said, told
        assert status in (0, 2, 3), told
        assert bool(status) == bool(said), told


@pytest.mark.parametrize("form", ["csv", "md", "pukiwiki", "html"])
def test_printed_report_contains_no_terminal_control_sequences(
    form: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Escape control sequences and bidirectional marks of a run."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / whole.name
    shutil.copytree(whole, folder)
    for name in ("plan.json", "trials.jsonl"):
        text = (folder / name).read_text()
        for word in ('"A plan"', '"received_bps"', '"near"'):
            text = text.replace(word, f'{word[:-1]}\\u001b[2J\\u202e"')
        (folder / name).write_text(text)
    assert run(["report", whole.name, "--format", form, "-o", "-"]) == 0
    printed = capfd.readouterr().out
    assert "x1b" in printed
    assert not {"\x1b", "\u202e", "\x9b"} & set(printed)
    assert printed.count("\r\n") == printed.count("\r")
