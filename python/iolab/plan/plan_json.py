"""The plan as the document that `iolab plan --json` prints; documented in docs/reference/plan-json.md."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict

from iolab.lab.links.overlays import mtu_of, unequal_mtus
from iolab.lab.topology import topology_of
from iolab.messages.statement import Statement
from iolab.messages.warnings import SegmentMtusDiffer
from iolab.plan.commands import Labs, PlannedCommand, StepCommands, commands
from iolab.plan.types import Plan

STEPS_READ = 1000
"""Steps whose labs are looked at for warnings."""
DESCRIPTION_SCHEMA = 2
"""Version of the document; a field that is removed or changes its meaning raises it."""

Document = dict[str, object]
"""Plain JSON data, on its way out."""


def describe(labs: Labs, stated: Callable[[Statement], object], hosts: Collection[str] = ()) -> Document:
    """Return everything that was decided, with every command of every step.

    `stated` puts what is lacking, and warnings, as data; `hosts` are the machines that are other hosts.
    """
    plan = labs.plan
    return {
        "schema": DESCRIPTION_SCHEMA,
        "title": plan.title,
        "digest": plan.digest,
        "seed": plan.seed,
        "blocks": plan.blocks,
        "only": [{name: list(labels) for name, labels in one.items()} for one in plan.only],
        "grouping": list(plan.grouping),
        "factors": [{"name": factor.name, "levels": list(factor.labels)} for factor in plan.factors],
        "measures": list(plan.measures),
        "baseline": dict(plan.baseline),
        "summaries": [asdict(summary) for summary in plan.summaries],
        "steps": [
            {
                "key": step.key,
                "measure": step.measure,
                "block": step.block,
                "plot": step.plot,
                "cell": plan.cell(step),
            }
            for step in plan.steps
        ],
        "unsupported": [
            {"measure": one.measure, "cell": dict(one.cell), "reason": stated(one.reason)}
            for one in plan.unsupported
        ],
        "estimate_s": round(plan.estimate_ns / 1e9, 3),
        "estimate_factor": plan.estimate_factor,
        "hosts_not_asked": not_asked(plan, hosts),
        "warnings": [stated(one) for one in mtu_warnings(labs)],
        "commands": [_transition(one) for one in commands(labs)],
    }


def mtu_warnings(labs: Labs) -> tuple[SegmentMtusDiffer, ...]:
    """Return the segments of the first labs of a plan whose links have different MTUs, each once."""
    found: dict[SegmentMtusDiffer, None] = {}
    for lab in labs.each(labs.plan.steps[:STEPS_READ]):
        if len({mtu_of(lab, name) for name in lab.links}) < 2:
            continue
        segments = (segment.links for segment in topology_of(lab).segments)
        found |= dict.fromkeys(unequal_mtus(lab, segments))
    return tuple(found)


def not_asked(plan: Plan, hosts: Collection[str]) -> list[str]:
    """Return the hosts whose CPUs a plan does not know: what it pins there is not what a run pins."""
    return [name for name in hosts if name not in plan.computers]


def _transition(one: StepCommands) -> Document:
    return {
        "step": one.step.key if one.step else None,
        "undone": _listed(one.undone),
        "done": _listed(one.done),
    }


def _listed(found: Iterable[PlannedCommand]) -> list[Document]:
    return [
        {
            "resource": one.key,
            "machine": one.machine,
            "kernel": one.kernel,
            "netns": one.netns,
            "argv": list(one.argv),
            "undo": {"netns": one.undo.netns, "argv": list(one.undo.argv)} if one.undo else None,
        }
        for one in found
    ]
