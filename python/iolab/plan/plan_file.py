"""Plan <-> the text of plan.json: tables for what repeats, one short row per step."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from iolab.errors import StoreError
from iolab.experiment.experiment import LevelRatio, Summary
from iolab.lab.hosts.computers import Computer
from iolab.plan.types import PLAN_SCHEMA, Plan, PlannedFactor, Step, Unsupported
from iolab.record.encoding import Encoding
from iolab.statements.lacks import Lack

_LACK: Encoding[Lack] = Encoding(Lack)


def encode_plan(plan: Plan) -> str:
    """Return the plan as JSON text."""
    measures = {name: index for index, name in enumerate(plan.measures)}
    levels: dict[tuple[int, ...], int] = {}
    rows = [
        (step.key, measures[step.measure], step.block, step.plot, levels.setdefault(step.levels, len(levels)))
        for step in plan.steps
    ]
    document = {
        "schema": PLAN_SCHEMA,
        "title": plan.title,
        "digest": plan.digest,
        "seed": plan.seed,
        "blocks": plan.blocks,
        "only": plan.only,
        "factors": [[factor.name, factor.labels] for factor in plan.factors],
        "measures": plan.measures,
        "baseline": plan.baseline,
        "grouping": plan.grouping,
        "summaries": [asdict(summary) for summary in plan.summaries],
        "estimate_ns": plan.estimate_ns,
        "estimate_factor": plan.estimate_factor,
        "computers": {kernel: asdict(one) for kernel, one in plan.computers.items()},
        "unsupported": [
            [one.measure, one.cell, one.reason.model_dump(mode="json")] for one in plan.unsupported
        ],
        "levels": list(levels),
        "steps": rows,
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def decode_plan(text: str) -> Plan:
    """Return the plan that `encode_plan` wrote.

    Raises:
        StoreError: the text is no plan, or one of another version.
    """
    try:
        document = json.loads(text)
        version = document["schema"]
        if version != PLAN_SCHEMA:
            raise StoreError(
                f"reading plan.json: it has version {version!r}, this iolab reads version {PLAN_SCHEMA}; "
                "use the iolab that wrote it"
            )
        return _decoded(document)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(
            f"reading plan.json: saw {_seen(error, text)}; allowed: what iolab wrote there; "
            "restore the file from a copy"
        ) from None


def _seen(error: Exception, text: str) -> str:
    """Say what is wrong with a plan in words of its file."""
    match error:
        case json.JSONDecodeError():
            rest = text[error.pos : error.pos + 40]
            return f"no JSON at line {error.lineno}: {rest!r}" if rest else "a file that ends too early"
        case KeyError():
            return f"a plan without {error}"
        case _:
            return f"a part of another shape ({error})"


def _decoded(document: dict[str, Any]) -> Plan:
    measures = tuple(document["measures"])
    levels = [tuple(row) for row in document["levels"]]
    return Plan(
        title=document["title"],
        factors=tuple(PlannedFactor(name, tuple(labels)) for name, labels in document["factors"]),
        measures=measures,
        baseline=document["baseline"],
        grouping=tuple(document["grouping"]),
        seed=document["seed"],
        blocks=document["blocks"],
        only=tuple({name: tuple(labels) for name, labels in one.items()} for one in document["only"]),
        summaries=tuple(map(_summary, document.get("summaries", ()))),
        steps=tuple(
            [
                Step(key, measures[measure], block, plot, levels[row])
                for key, measure, block, plot, row in document["steps"]
            ]
        ),
        unsupported=tuple(map(_unsupported, document["unsupported"])),
        estimate_ns=document["estimate_ns"],
        estimate_factor=document.get("estimate_factor", 1.0),
        computers={kernel: _computer(one) for kernel, one in document["computers"].items()},
        digest=document["digest"],
    )


def _unsupported(document: list[Any]) -> Unsupported:
    measure, cell, reason = document
    return Unsupported(measure, cell, _LACK.decode(json.dumps(reason)))


def _computer(document: Mapping[str, Any]) -> Computer:
    return Computer(**{**document, "cores": tuple(document["cores"])})


def _summary(document: Mapping[str, Any]) -> Summary:
    ratios = tuple(LevelRatio(**ratio) for ratio in document["ratios"])
    return Summary(document["over"], tuple(document["show"]), ratios)
