"""Plan <-> the text of plan.json: tables for what repeats, one short row per step."""

import json
from dataclasses import asdict, field
from typing import Annotated

from pydantic import Field

from iolab.errors import StoreError
from iolab.experiment.experiment import Summary
from iolab.frozen import frozen
from iolab.lab.hosts.readiness import Computer
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.types import PLAN_SCHEMA, Plan, PlannedFactor, Step, Unsupported
from iolab.results.encoding import Encoding

Index = Annotated[int, Field(ge=0)]
"""Of a row in a table."""
Plot = Annotated[int, Field(ge=0, lt=2**63)]
Block = Annotated[int, Field(ge=1, lt=2**63)]
"""Analysis holds both in 64 bits."""


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
    """What plan.json holds: tables, and the rows of the steps with indices into them."""

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
    """Return the plan that `encode_plan` wrote.

    Raises:
        StoreError: the text is no plan, or one of another version.
    """
    try:
        document = _DOCUMENT.decode(text)
        _refuse_version(document.schema)
        return _decoded(document)
    except (ValueError, IndexError) as error:
        _refuse_version(_version(text))
        seen = f"a step without its row ({error})" if isinstance(error, IndexError) else error
        raise StoreError(
            f"cannot read plan.json, which does not have the format that iolab writes ({seen}); "
            "restore the file from a backup"
        ) from None


def _refuse_version(version: object) -> None:
    if version not in (None, PLAN_SCHEMA):
        raise StoreError(
            f"cannot read plan.json of schema {version!r}: this iolab reads schema {PLAN_SCHEMA}; "
            "use the version of iolab that wrote it"
        )


def _version(text: str) -> object:
    """Return the version that a text says it is of, however damaged the rest is; None: it says none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document.get("schema") if isinstance(document, dict) else None


def _refuse_levels(document: _Document) -> None:
    """Refuse rows of levels that do not fit the factors: whatever reads a plan counts on them."""
    counts = [len(labels) for _, labels in document.factors]
    for number, row in enumerate(document.levels):
        if len(row) != len(counts):
            raise ValueError(f"{len(row)} entries in row {number} of levels, for {len(counts)} factors")
        if not all(-1 <= level < count for level, count in zip(row, counts, strict=True)):
            raise ValueError(f"a level that its factor does not have, in row {number} of levels")


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
