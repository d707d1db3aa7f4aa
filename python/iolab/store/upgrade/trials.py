"""Upgrade lines of trials.jsonl, and of commands.jsonl, which has no schema, from older versions."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from iolab.messages.in_words import WarningInWords
from iolab.messages.warnings import Emulated
from iolab.store.upgrade.steps import (
    INTEGER,
    NUMBER,
    OBJECT,
    ROLES,
    TEXT,
    YES_OR_NO,
    Json,
    Step,
    Steps,
    by_name,
    either,
    failure,
    if_any,
    is_port,
    many,
    or_none,
    place,
    quoted,
    record,
    stated,
)

_GUEST = record(
    {
        "engine": TEXT,
        "on": TEXT,
        "accel": TEXT,
        "hypervisor": TEXT,
        "image": TEXT,
        "packages": TEXT,
        "emulated": YES_OR_NO,
        "boot_ns": INTEGER,
    },
    {"polling": many(TEXT)},
)
_NAMED = record({"value": NUMBER, "unit": TEXT}, {"limited_by": TEXT})
_LINE_1 = record(
    {
        "schema": INTEGER,
        "key": TEXT,
        "measure": TEXT,
        "block": INTEGER,
        "cell": by_name(TEXT),
        "wall": TEXT,
        "status": TEXT,
        "reason": or_none(TEXT),
        "begin_ns": INTEGER,
        "end_ns": INTEGER,
        "measured_ns": INTEGER,
        "metrics": by_name(_NAMED),
        "warnings": many(record({"code": TEXT, "text": TEXT, "advice": TEXT})),
    },
    {"guests": by_name(_GUEST)},
)
"""Shape of a line of schema 1: metrics are by name, with labels in square brackets; reasons and warnings are sentences;
the measure's kind, direction and digest without the direction are missing."""
_METRIC_2 = record(
    {"name": TEXT, "unit": TEXT, "value": NUMBER}, {"dimensions": OBJECT, "limited_by": TEXT, "better": TEXT}
)
_LINE_2 = record(
    {
        "schema": INTEGER,
        "key": TEXT,
        "measure": TEXT,
        "block": INTEGER,
        "cell": by_name(TEXT),
        "wall": TEXT,
        "status": TEXT,
        "reason": or_none(either(OBJECT, TEXT)),
        "begin_ns": INTEGER,
        "end_ns": INTEGER,
        "measured_ns": INTEGER,
        "metrics": either(by_name(_NAMED), many(_METRIC_2)),
        "warnings": many(OBJECT),
    },
    {
        "kind": TEXT,
        "direction": TEXT,
        "rest": TEXT,
        "verdict": or_none(OBJECT),
        "guests": OBJECT,
        "sets_each_load": YES_OR_NO,
    },
)
"""Shape of a line of schema 2, in which the method versions of metrics are missing. In the first lines of schema 2,
metrics were by name, reasons were sentences, and kind, direction and digest were missing."""
WITHOUT_METHODS = 2
"""The last schema before metrics had method versions."""
_UNITS = {"pps": "frame/s"}
_LABELLED = re.compile(r"([^\[]*)\[(?:(?P<percent>\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?) %)? ?(.*)\]")
_THREAD_AT_PORT = re.compile(r"(generator|receiver|napi|arrivals)(?: ([^ ]+))?")
_KERNEL_THREAD = re.compile(r"(?:([^ ]+) )?(ksoftirqd/\d+)")
_GUEST_THREAD = re.compile(r"([^ .]+) (.+)")
_QUEUE = re.compile(r"([^ ]+) rx (\d{1,9})")
_CPU = re.compile(r"cpu(\d{1,9})")
_EMULATED_AFTER = " ran under emulation"
_FIRST = {
    "machine": TEXT,
    "netns": or_none(TEXT),
    "argv": many(TEXT),
    "undo": or_none(many(TEXT)),
    "exit_status": or_none(INTEGER),
    "duration_ns": INTEGER,
}
_NOTES = {"notes": many(TEXT)}
OLD_COMMAND = SchemaValidator(
    core_schema.union_schema(
        [
            record(_FIRST),
            record({**_FIRST, "kernel": TEXT}, _NOTES),
            record({**_FIRST, "kernel": TEXT, "undo_netns": or_none(TEXT)}, _NOTES),
        ]
    )
)
"""Older shapes of a command: first without the kernel, then without the namespace of the undo, then with notes as
sentences."""


def from_1(line: Json) -> Json:
    """Return a line of schema 1 as one of schema 2."""
    return {
        **line,
        "schema": 2,
        "kind": "",
        "direction": "",
        "rest": "",
        "reason": None if line["reason"] is None else failure(line["reason"]),
        "metrics": metrics_of(line["metrics"]),
        "warnings": [_warning(each) for each in line["warnings"]],
    }


def from_2(line: Json) -> Json:
    """Return a line of schema 2 as one of schema 3, with unknown method versions."""
    metrics = metrics_of(line["metrics"]) if isinstance(line["metrics"], dict) else line["metrics"]
    for metric in metrics:
        metric["method"] = None
    changed: Json = {
        "schema": 3,
        "reason": if_any(line["reason"], failure),
        "metrics": metrics,
        "warnings": stated(line["warnings"]),
    }
    if line.get("verdict"):
        verdict = stated(line["verdict"])
        changed["verdict"] = {**verdict, "place": if_any(verdict.get("place"), place)}
    return {"kind": "", "direction": "", "rest": "", **line, **changed}


def metrics_of(named: Mapping[str, Json]) -> list[Json]:
    """Return metrics that were stored by name as a list, with the labels in their names as dimensions."""
    return [
        {
            **_quantity(name),
            "unit": _UNITS.get(metric["unit"], metric["unit"]),
            "value": metric["value"],
            **({"limited_by": metric["limited_by"]} if "limited_by" in metric else {}),
        }
        for name, metric in named.items()
    ]


def _quantity(labelled: str) -> Json:
    """Return the name and dimensions of a metric: loss_ratio[50 %], thread_cpu_ratio[50 % near.eth0]."""
    if (match := _LABELLED.fullmatch(labelled)) is None:
        return {"name": labelled}
    name, percent, rest = match.groups()
    about: dict[str, Any] = {} if percent is None else {"load_ratio": float(Decimal(percent) / 100)}
    if rest:
        about |= _ABOUT.get(name, _flow_or_machine)(rest)
    return {"name": name, "dimensions": about}


def _flow_or_machine(label: str) -> Json:
    return {"flow": label} if "->" in label else {"part": label}


def _machine(label: str) -> Json:
    return {"machine": label}


def _queue(label: str) -> Json:
    match = _QUEUE.fullmatch(label)
    return {"port": match[1], "queue": int(match[2])} if match else {"part": label}


def _cpu(label: str) -> Json:
    match = _CPU.fullmatch(label)
    return {"cpu": int(match[1])} if match else {"part": label}


def _thread(label: str) -> Json:
    """Return the dimensions of a thread from its label.

    A label is a role, a role and a port, a port, or a machine and a thread name.
    """
    if match := _THREAD_AT_PORT.fullmatch(label):
        return {"role": ROLES.get(match[1], match[1]), **({"port": match[2]} if match[2] else {})}
    if match := _KERNEL_THREAD.fullmatch(label):
        return {"role": "kernel", "thread": match[2], **({"machine": match[1]} if match[1] else {})}
    if is_port(label):
        return {"role": "device", "port": label}
    if match := _GUEST_THREAD.fullmatch(label):
        return {"role": "guest", "machine": match[1], "thread": match[2]}
    return {"part": label}


_ABOUT: Mapping[str, Callable[[str], Json]] = {
    "cpu_busy_ratio": _cpu,
    "host_cpu_ratio": _machine,
    "host_steal_ratio": _machine,
    "queue_ratio": _queue,
    "thread_cpu_ratio": _thread,
}
"""Dimension for which the label of each metric stands, unless the label stands for a flow."""


def lacks_only_methods(line: bytes, version: int) -> bool:
    """Whether a line may have the current shape except for method versions, as most lines of schema 2 do.

    Decoding such a line directly takes half the time of the upgrade step, which is used only if the shape differs.
    """
    return version == WITHOUT_METHODS and b'"method"' not in line


def _warning(old: Json) -> Json:
    """Return a warning sentence as a statement.

    The warning about emulated machines is parsed, because the analysis needs it; other warnings are quoted.
    """
    names, found, _ = old["text"].partition(_EMULATED_AFTER)
    if old["code"] == Emulated.code and found:
        return {"code": Emulated.code, "machines": names.split(", ")}
    return {"code": WarningInWords.code, "was": old["code"], "said": old["text"], "advice": old["advice"]}


TRIAL_STEPS: Steps = {
    1: Step(SchemaValidator(_LINE_1), from_1),
    2: Step(SchemaValidator(_LINE_2), from_2),
}


def command(line: Json) -> Json:
    """Return a line of an older version in the current form; notes that are sentences are quoted."""
    later: Json = {"kernel": "", "undo_netns": None}
    return {**later, **line, "notes": [quoted(each) for each in line.get("notes", ())]}
