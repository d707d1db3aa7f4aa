"""Files made by a grammar of the language, with mistakes put in: each is an experiment or is refused in words.

FUZZED_FILES=100000 tries more of them than a run of all tests, and also bounds the time and the memory of each.
"""

import contextlib
import copy
import json
import os
import random
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from tests.work import counted

from iolab.cli.main import run
from iolab.errors import ExitCode, InputError
from iolab.experiment import load, parse
from iolab.experiment.reading.grammar import keys, models
from iolab.plan.planning import make_plan
from iolab.plan.support import ANY_HOST

BY_HAND = "FUZZED_FILES" in os.environ
CASES = int(os.environ.get("FUZZED_FILES", "40"))
FIRST = int(os.environ.get("FUZZED_FIRST", "24"))
"""Files in all: few in a run of all tests, as many as wanted by hand; numbers 15 and 23 are large studies."""
PARTS = 20
ROOT = Path(__file__).parents[3]
MOST_CALLS = 30_000_000
"""Function calls per file: under five seconds, counted rather than timed."""
LONGEST_S, LARGEST_KIB = 5.0, 500 << 10
"""Of a file, by hand: CPU time, memory at most."""
KEYS = sorted({key for group in models().values() for model in group.values() for key in keys(model)})
KINDS = sorted({kind for group in models().values() for kind in group})
SCALARS = (
    "1", "0", "-1", "1500", "9000", "1e9", "0x10", "none", "on", "off", "true", "~", "''", "1s", "10us", "1Gbit", "64K",
    "a", "b", "a.eth0", "b.eth0", "lan", "tcp", "udp", "netem", "198.18.0.1/24", '"*.from"', "9999999999999999999999",
    "1T", "0.5", "50%", "é", "'x", '"', "*a", "&a 1", "!t 1", "|", ">", "%", "@", "`", "- 1", "a: b", "#", "?", "..",
    "../../etc/passwd", "{{x}}", "$(id)", "\\x1b[2J", "\t", "[", "}", ",",
)  # fmt: skip

RIGHT = [YAML(typ="safe").load(path.read_text()) for path in sorted((ROOT / "labs").glob("*.yaml"))]
FOUND = """lab:
  machines:
    a: {kind: vm, image: linux, pin: [1]}
    b: {kind: netns}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure: {tcp: {kind: stream, from: a, to: b}}
factors: {tcp.window: [64K, 1M]}
seed: 1
"""
PLACED = re.compile(r"f\.yaml:\d+: ")
"""How a line about a problem begins."""


def scalar(source: random.Random) -> str:
    """Return a key, a kind or a value, mostly of the language."""
    return source.choice(source.choice((SCALARS, KEYS, KINDS)))


def value(source: random.Random, depth: int = 3) -> str:
    """Return a value in flow style."""
    shape = source.random()
    if depth == 0 or shape < 0.6:
        return scalar(source)
    if shape < 0.8:
        return f"[{', '.join(value(source, depth - 1) for _ in range(source.randint(0, 3)))}]"
    return table(source, {source.choice(KEYS): value(source, depth - 1) for _ in range(source.randint(0, 3))})


def table(source: random.Random, items: dict[str, str]) -> str:
    """Return a mapping in flow style, at times with a key more or one less."""
    if source.random() < 0.2:
        items[source.choice(KEYS)] = value(source, 2)
    if items and source.random() < 0.1:
        del items[source.choice([*items])]
    return "{" + ", ".join(f"{key}: {one}" for key, one in items.items()) + "}"


def mostly(source: random.Random, right: str) -> str:
    """Return what is right there; now and then something else."""
    return right if source.random() < 0.93 else value(source)


def experiment(source: random.Random) -> str:
    """Return a file: a lab, measures, factors and what a file may say beside."""
    kinds = {group: sorted(models()[group]) for group in ("machines", "measure")}
    machines = [
        f"    {name}: {table(source, {'kind': mostly(source, source.choice(kinds['machines']))})}"
        for name in "ab"
    ]
    measure = {
        "kind": mostly(source, source.choice(kinds["measure"])),
        "from": mostly(source, "a"),
        "to": mostly(source, "b"),
    }
    link = {"ends": mostly(source, "[a.eth0, b.eth0]"), source.choice(KEYS): value(source)}
    top = ("baseline", "blocks", "seed", "only", "except", "quick", "summarise", "site", "title")
    lines = [
        "lab:", "  machines:", *machines, "  links:", f"    lan: {table(source, link)}",
        "measure:", f"  m: {table(source, measure)}",
        "factors:", f"  {mostly(source, 'links.lan.mtu')}: {mostly(source, '[1500, 9000]')}",
        f"  f: {table(source, {'one': value(source), 'two': value(source)})}",
        *(f"{source.choice(top)}: {value(source)}" for _ in range(source.randint(0, 2))),
    ]  # fmt: skip
    for _ in range(source.choice((0, 0, 0, 1, 3))):
        at = source.randrange(len(lines))
        damages: tuple[Callable[[str], str], ...] = (
            lambda line: line[: source.randint(0, len(line))],
            lambda line: f" {line}",
            lambda line: line.replace(":", "", 1),
            lambda line: f"{line}\n{line}",
            lambda _: scalar(source),
        )
        lines[at] = source.choice(damages)(lines[at])
    return "\n".join(lines) + "\n"


def changed(source: random.Random) -> str:
    """Return a file of the folder `labs` in which some values, keys or parts are others."""
    tree = copy.deepcopy(source.choice(RIGHT))
    for _ in range(source.choice((0, 1, 1, 1, 2, 4))):
        holder, key = source.choice(places(tree))
        match source.randrange(6):
            case 0:
                del holder[key]
            case 1:
                other_holder, other_key = source.choice(places(source.choice(RIGHT)))
                holder[key] = copy.deepcopy(other_holder[other_key])
            case 2 if isinstance(holder, dict):
                holder[source.choice(KEYS)] = holder.pop(key)
            case 3 if isinstance(holder, dict):
                holder[source.choice(KEYS)] = read(value(source))
            case _:
                holder[key] = read(value(source))
    return json.dumps(tree, indent=source.choice((None, 2)), default=str) + "\n"


def read(text: str) -> Any:
    """Return what YAML makes of a text; the text where it makes nothing."""
    try:
        return YAML(typ="safe").load(text)
    except (YAMLError, ValueError):
        return text


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every place in a document, as what holds it and its key there."""
    within = range(len(tree)) if isinstance(tree, list) else list(tree) if isinstance(tree, dict) else ()
    return [place for key in within for place in ((tree, key), *places(tree[key]))]


def file_of(case: int) -> str:
    """Return the file of a number, always the same."""
    source = random.Random(case)
    return changed(source) if case % 2 else experiment(source)


def problems_of(text: str) -> int:
    """Check a file as the command does; plan what is right. Return the status."""
    Path("f.yaml").write_text(text, encoding="utf-8", newline="")
    status = run(["check", "f.yaml"])
    if status == ExitCode.DONE:
        with contextlib.suppress(InputError):
            make_plan(load(Path("f.yaml")), ANY_HOST, blocks=1)
    return status


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_the_grammar_makes_is_checked_or_refused_in_words(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, no defect, no endless work; each line of problems has its place."""
    monkeypatch.chdir(tmp_path)
    for case in range(FIRST + part, FIRST + CASES, PARTS):
        text = file_of(case)
        begin_s = time.process_time()
        if BY_HAND:
            status = problems_of(text)
            assert time.process_time() - begin_s < LONGEST_S, text
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < LARGEST_KIB, text
        else:
            with counted() as work:
                status = problems_of(text)
            assert work.calls < MOST_CALLS, text
        told = capsys.readouterr().err
        assert status in (ExitCode.DONE, ExitCode.INPUT_WRONG), f"{text}\n{told}"
        if status == ExitCode.INPUT_WRONG:
            assert all(PLACED.match(line) for line in told.splitlines()), f"{text}\n{told}"


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        (
            "seed: 1",
            "summarise: {over: []}",
            "f.yaml:8: reading summarise.over: saw []; allowed: a factor with at least two",
        ),
        (
            "pin: [1]",
            "pin: []",
            "f.yaml:3: reading lab.machines.a.pin: saw []; allowed: auto, none or a list of 1",
        ),
        (
            "tcp: {",
            "tcp: [1], other: {",
            "f.yaml:7: resolving measure.tcp: saw the list item window; allowed: an existing item",
        ),
    ],
)
def test_what_was_found_so_is_refused_in_words(
    old: str,
    new: str,
    answer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A list of CPUs without any; a list for the name of a factor; a factor that goes by a key into a list."""
    monkeypatch.chdir(tmp_path)
    assert problems_of(FOUND) == ExitCode.DONE
    assert problems_of(FOUND.replace(old, new)) == ExitCode.INPUT_WRONG
    assert answer in capsys.readouterr().err


def test_the_grammar_makes_files_of_both_kinds() -> None:
    """Most are refused, and many are right: otherwise little of the language is reached."""
    right = 0
    for case in range(60):
        with contextlib.suppress(InputError):
            parse(file_of(case), "f.yaml")
            right += 1
    assert 5 < right < 55
