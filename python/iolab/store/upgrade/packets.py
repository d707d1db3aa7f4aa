"""Upgrade packet trials of older schemas. Before schema 2, packet trials were a part of the evidence,
`samples/KEY.json.gz`."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from iolab.messages.instrument import PathFallback
from iolab.store.upgrade.steps import (
    ANYTHING,
    INTEGER,
    NUMBER,
    ROLES,
    TEXT,
    Json,
    Step,
    Steps,
    decoded,
    if_any,
    many,
    or_none,
    part,
    place,
    quoted,
    record,
    stated,
)

_DROP = {"place": ANYTHING, "reason": ANYTHING, "frames": INTEGER}
_BALANCE = part({"drops": many(part(_DROP))})
_VERDICT = part({"limit": TEXT}, {"place": ANYTHING})
_FOUND = part({"trials": INTEGER})
_PACKETS_2 = record(
    {
        "schema": INTEGER,
        "packets": part(
            {
                "search": or_none(part({"found": _FOUND})),
                "load_trials": many(part({"balances": many(_BALANCE), "verdict": _VERDICT})),
            }
        ),
    }
)
"""Shape of the parts of a record that this step changes; the check against the newest schema covers the rest."""


def from_2(document: Json) -> Json:
    """Return a packet trial of schema 2 as one of schema 3."""
    packets = stated(document["packets"])
    if packets["search"] is not None:
        packets["search"]["found"] = {"conditional_fps": None, **packets["search"]["found"]}
    for trial in packets["load_trials"]:
        trial.setdefault("unstamped_frames", 0)  # every frame had a stamp in this schema
        trial["verdict"]["place"] = if_any(trial["verdict"].get("place"), place)
        for balance in trial["balances"]:
            for drop in balance["drops"]:
                drop["place"], drop["reason"] = place(drop["place"]), quoted(drop["reason"])
    return {"schema": 3, "packets": packets}


PACKETS_STEPS: Steps = {2: Step(SchemaValidator(_PACKETS_2), from_2)}

_RESULT = {
    "duration_ns": INTEGER,
    "overhead_ns": INTEGER,
    "intended_frames": INTEGER,
    "offered_frames": INTEGER,
    "forwarded_frames": INTEGER,
}
_LATER_IN_RESULT = {"excused_frames": None, "late_frames": None, "steady": None}
_LATER_IN_TRIAL: Json = {"shapers": [], "foreign_frames": None, "drop_reasons": {}}
_LATER_IN_FOUND = {
    "sustained_fps": None,
    "burst_frames": None,
    "queue_frames": None,
    "taken_up": False,
    "disturbed_loads": None,
}
_LATER_IN_THREAD = {"wait_ratio": None, "polls": "", "kernel": ""}
"""Keys that were added without a new schema; older records do not have them, so their values are unknown there."""
_SHAPER = (
    "place",
    "kind",
    "offered_frames",
    "passed_frames",
    "passed_bytes",
    "dropped_frames",
    "held_back",
    "rates_bps",
)
_ARRIVED = part({"reordered_frames": INTEGER, "duplicate_frames": INTEGER})
_RAW_LOAD_TRIAL = part(
    {
        **_RESULT,
        "purpose": TEXT,
        "share_ratio": or_none(NUMBER),
        "begin_ns": INTEGER,
        "intended_fps": NUMBER,
        "perturbations": many(ANYTHING),
        "verdict": part({"limit": TEXT}, {"text": TEXT, "place": TEXT, "doubt": ANYTHING}),
        "balance": many(part({"drops": many(part({"place": TEXT, "reason": TEXT, "frames": INTEGER}))})),
        "latency_ns": ANYTHING,
        "cpus": many(part({"cpu": INTEGER})),
        "threads": many(part({"name": TEXT, "role": TEXT})),
        "traffic": part({"receivers": many(_ARRIVED)}),
    },
    {
        "reorder_density": many(ANYTHING),
        "shapers": many(part({})),
        "drop_reasons": ANYTHING,
        "foreign_frames": INTEGER,
        "excused_frames": INTEGER,
        "late_frames": INTEGER,
        "steady": ANYTHING,
    },
)
_RAW = SchemaValidator(
    part(
        {
            "schema": INTEGER,
            "directions": core_schema.list_schema(TEXT, min_length=1),
            "sizes": ANYTHING,
            "placement": part(
                {
                    "generator_cpus": ANYTHING,
                    "receiver_cpus": ANYTHING,
                    "threads": many(
                        record({"name": TEXT, "pid": INTEGER, "place": TEXT, "cpu": or_none(INTEGER)})
                    ),
                    "shared": many(ANYTHING),
                }
            ),
            "ports": many(part({"port": TEXT, "half": TEXT, "path": TEXT, "fallbacks": many(ANYTHING)})),
            "search": or_none(part({"strategy": TEXT, "goal": ANYTHING, "found": part({"trials": INTEGER})})),
            "rate_fps": or_none(NUMBER),
            "load_trials": many(_RAW_LOAD_TRIAL),
        },
        {
            "path_choice": or_none(
                part({"path": TEXT, "tried": ANYTHING}, {"reason": TEXT, "reasons": ANYTHING})
            )
        },
    )
)
"""The packet trial in evidence of schemas 1 (sentences) and 2 (statements); other parts are ignored."""


def of_evidence(text: bytes) -> Json | None:
    """Return the packet trial in the evidence of a trial, in schema 2; None: the evidence has no packet trial.

    Raises:
        Malformed: the packet trial is damaged; the message names the invalid key.
    """
    if b'"load_trials"' not in text:
        return None
    raw = decoded(_RAW, text)
    directions = raw["directions"]
    placed = raw["placement"]
    return {
        "schema": 2,
        "packets": {
            "directions": directions,
            "sizes": raw["sizes"],
            "placed": {
                "generator_cpus": placed["generator_cpus"],
                "receiver_cpus": placed["receiver_cpus"],
                "threads": [{**_without(each, "place"), "port": each["place"]} for each in placed["threads"]],
                "shared": [quoted(each) for each in placed["shared"]],
            },
            "ports": [_port(each) for each in raw["ports"]],
            "path_choice": _choice(raw.get("path_choice")),
            "search": _search(raw["search"]),
            "rate_fps": raw["rate_fps"],
            "load_trials": [_load_trial(each, len(directions)) for each in raw["load_trials"]],
        },
    }


def _without(values: Json, *names: str) -> Json:
    return {name: value for name, value in values.items() if name not in names}


def _port(port: Json) -> Json:
    return {
        **{name: port[name] for name in ("port", "half", "path")},
        "fallbacks": [
            {"code": PathFallback.code, "said": each} if isinstance(each, str) else each
            for each in port["fallbacks"]
        ],
    }


def _choice(choice: Json | None) -> Json | None:
    if choice is None:
        return None
    reasons = choice["reasons"] if "reasons" in choice else [quoted(choice.get("reason", ""))]
    return {"path": choice["path"], "reasons": reasons, "tried": choice["tried"]}


def _search(search: Json | None) -> Json | None:
    if search is None:
        return None
    found = {**_LATER_IN_FOUND, **search["found"]}
    found.setdefault("seen", quoted(found.pop("text", "")))
    return {"strategy": search["strategy"], "goal": search["goal"], "found": found}


def _load_trial(trial: Json, directions: int) -> Json:
    later = {**_LATER_IN_RESULT, **_LATER_IN_TRIAL, **trial}
    return {
        "purpose": trial["purpose"],
        "share_ratio": trial["share_ratio"],
        "begin_ns": trial["begin_ns"],
        "result": {
            **{name: trial[name] for name in _RESULT},
            **{name: later[name] for name in _LATER_IN_RESULT},
            "intended_fps": trial["intended_fps"] / directions,
            "perturbations": [quoted(each) for each in trial["perturbations"]],
            **dict.fromkeys(
                ("held_ns", "calm_frames", "calm_lost_frames")
            ),  # schema 2 did not store this value
        },
        "directions": directions,
        "balances": [_balance(each) for each in trial["balance"]],
        "verdict": _verdict(trial["verdict"]),
        "latency": trial["latency_ns"],
        "disorder": _disorder(trial["traffic"]["receivers"]),
        "density": trial.get("reorder_density", []),
        "cpus": [{"kernel": "", **each} for each in trial["cpus"]],
        "threads": [_thread(each) for each in trial["threads"]],
        "shapers": [_shaper(each) for each in later["shapers"]],
        "foreign_frames": later["foreign_frames"],
        "drop_reasons": later["drop_reasons"],
    }


def _thread(thread: Json) -> Json:
    return {**_LATER_IN_THREAD, **thread, "role": ROLES.get(thread["role"], thread["role"])}


def _balance(balance: Json) -> Json:
    return {**balance, "drops": [_drop(each) for each in balance["drops"]]}


def _drop(drop: Json) -> Json:
    return {"cause": "", **drop, "doubt": if_any(drop.get("doubt"))}


def _verdict(verdict: Json) -> Json:
    """Return a verdict as a statement, with the figures that its sentence contains."""
    seen = verdict["seen"] if "seen" in verdict else [quoted(verdict.get("text", ""))]
    return {
        "limit": verdict["limit"],
        "seen": seen,
        "place": verdict.get("place", ""),
        "doubt": if_any(verdict.get("doubt")),
    }


def _disorder(receivers: Sequence[Any]) -> list[int]:
    return [sum(each[name] for each in receivers) for name in ("reordered_frames", "duplicate_frames")]


def _shaper(shaper: Json) -> Json:
    return {name: value for name, value in shaper.items() if name in _SHAPER}
