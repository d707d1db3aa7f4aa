"""Compare the commands of a run with its plan, except for values that are only known during the run."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Typed = tuple[str, str, str, str, str]
"""Machine, kernel, network namespace, command and undo."""
FOUND = re.compile(
    r"PID-OF-[\w./-]+|/\S*(?:NUMBERS|FILES)-OF-\S+|FOLDER|IMAGE/\w+(?:\.\w+)?|ACCEL|\bCPUS?\b|\{original\}|\{found\}"
)
"""Placeholders of a plan for values that are known only during a run, such as process IDs, files and original
values."""
MEASURING = ("iperf3",)
"""Programs of measures, which a plan shows with the commands of the lab."""


def planned(document: Mapping[str, Any]) -> list[Typed]:
    """Return the commands of `plan --json`, in order."""
    return [
        _typed(one, (one["undo"] or {}).get("argv"), (one["undo"] or {}).get("netns"))
        for step in document["commands"]
        for one in (*step["undone"], *step["done"])
    ]


def executed(lines: Sequence[str]) -> list[Typed]:
    """Return the lab's commands of commands.jsonl, in order."""
    rows = (json.loads(line) for line in lines)
    return [_typed(one, one["undo"], one["undo_netns"]) for one in rows if one["argv"][0] not in MEASURING]


def differences(wanted: Sequence[Typed], done: Sequence[Typed]) -> Iterator[str]:
    """Yield commands that were executed and not planned, or planned and not executed.

    A plan has one command for all further threads of a guest; the run has one command per thread.
    """
    at = 0
    for one in wanted:
        many = "/others" in one[3]
        if at == len(done) or not _agrees(one, done[at]):
            yield f"planned {one}, executed {done[at] if at < len(done) else 'nothing'}"
            return
        at += 1
        while many and at < len(done) and _agrees(one, done[at]):
            at += 1
    yield from (f"executed {one}, not planned" for one in done[at:])


def _typed(row: Mapping[str, Any], undo: Sequence[str] | None, undo_netns: str | None) -> Typed:
    back = f"{undo_netns or ''}# {' '.join(undo)}" if undo else ""
    return row["machine"], row["kernel"], row["netns"] or "", " ".join(row["argv"]), back


def _agrees(wanted: Typed, done: Typed) -> bool:
    return wanted[:3] == done[:3] and all(map(_same, wanted[3:], done[3:]))


def _same(wanted: str, done: str) -> bool:
    pattern, at = "", 0
    for token in FOUND.finditer(wanted):
        pattern += re.escape(wanted[at : token.start()]) + ".+"
        at = token.end()
    pattern += re.escape(wanted[at:])
    return re.fullmatch(pattern, done.replace("/usr/bin/qemu-system", "qemu-system"), re.DOTALL) is not None
