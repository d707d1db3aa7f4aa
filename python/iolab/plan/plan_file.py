"""Convert a plan to and from the text of plan.json: tables for repeated values, one short row per step."""

import json
from dataclasses import asdict, field
from typing import Annotated

from pydantic import Field

from iolab.errors import StoreError
from iolab.experiment.experiment import Summary
from iolab.frozen import frozen
from iolab.lab.hosts.readiness import Computer
from iolab.locale import Phrase
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.types import PLAN_SCHEMA, Plan, PlannedFactor, Step, Unsupported
from iolab.results.encoding import Encoding

Index = Annotated[int, Field(ge=0)]
"""Index of a row in a table."""
Plot = Annotated[int, Field(ge=0, lt=2**63)]
Block = Annotated[int, Field(ge=1, lt=2**63)]
"""Block and plot numbers, which the analysis stores in 64 bits."""


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
        "together": plan.together,
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


@frozen(kw_only=True)
class _Document:
    """Content of plan.json: tables, and step rows with indices into the tables."""

    schema: int
    title: str
    digest: str
    seed: int
    blocks: int
    only: list[dict[str, tuple[str, ...]]]
    factors: list[tuple[str, tuple[str, ...]]]
    measures: tuple[str, ...]
    together: dict[str, str] = field(default_factory=dict)
    baseline: dict[str, str]
    grouping: tuple[str, ...]
    summaries: tuple[Summary, ...] = ()
    estimate_ns: int
    estimate_factor: float = 1.0
    computers: dict[str, Computer]
    unsupported: list[tuple[str, dict[str, str], UnmetRequirement]]
    levels: list[tuple[int, ...]]
    steps: list[tuple[str, Index, Block, Plot, Index]]


_DOCUMENT = Encoding(_Document, defaults=True)


def decode_plan(text: str) -> Plan:
    """Return the plan from text written by `encode_plan`.

    Raises:
        StoreError: the text is not a plan, or has a different version.
    """
    try:
        document = _DOCUMENT.decode(text)
        _refuse_version(document.schema)
        return _decoded(document)
    except (ValueError, IndexError) as error:
        _refuse_version(_version(text))
        lost = isinstance(error, IndexError)
        raise _malformed(Phrase("plan.step-without-row", error=error) if lost else error) from None


def _malformed(seen: object) -> StoreError:
    return StoreError(Phrase("store.not-what-iolab-wrote", file="plan.json", seen=seen))


def _refuse_version(version: object) -> None:
    if version not in (None, PLAN_SCHEMA):
        raise StoreError(Phrase("plan.plan-of-other-schema", version=repr(version), known=PLAN_SCHEMA))


def _version(text: str) -> object:
    """Return the schema version in the text of a possibly damaged plan; None if there is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document.get("schema") if isinstance(document, dict) else None


def _refuse_levels(document: _Document) -> None:
    """Raise ValueError if a row of levels does not match the factors."""
    counts = [len(labels) for _, labels in document.factors]
    for number, row in enumerate(document.levels):
        if len(row) != len(counts):
            raise _malformed(
                Phrase("plan.row-of-wrong-length", count=len(row), number=number, whole=len(counts))
            )
        if not all(-1 <= level < count for level, count in zip(row, counts, strict=True)):
            raise _malformed(Phrase("plan.row-of-no-level", number=number))


def _decoded(document: _Document) -> Plan:
    measures, levels = document.measures, document.levels
    _refuse_levels(document)
    return Plan(
        title=document.title,
        factors=tuple(PlannedFactor(name, labels) for name, labels in document.factors),
        measures=measures,
        together=document.together,
        baseline=document.baseline,
        grouping=document.grouping,
        seed=document.seed,
        blocks=document.blocks,
        only=tuple(document.only),
        summaries=document.summaries,
        steps=tuple(
            [
                Step(key, measures[measure], block, plot, levels[row])
                for key, measure, block, plot, row in document.steps
            ]
        ),
        unsupported=tuple(Unsupported(*one) for one in document.unsupported),
        estimate_ns=document.estimate_ns,
        estimate_factor=document.estimate_factor,
        computers=document.computers,
        digest=document.digest,
    )
