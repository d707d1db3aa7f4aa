"""Build the document printed by `iolab plan --json`; docs/reference/plan-json.md describes it."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict

from iolab.lab.links.overlays import mtu_of, unequal_mtus
from iolab.lab.topology import topology_of
from iolab.messages.conflicts import SegmentMtusDiffer
from iolab.messages.statement import Statement
from iolab.plan.commands import Labs, PlannedCommand, StepCommands, commands
from iolab.plan.types import Plan

STEPS_READ = 1000
"""Number of steps whose labs are checked for warnings."""
DESCRIPTION_SCHEMA = 2
"""Version of the document; it is raised if a field is removed or changes its meaning."""

Document = dict[str, object]
"""JSON data of the document."""


def describe(labs: Labs, stated: Callable[[Statement], object], hosts: Collection[str] = ()) -> Document:
    """Return the plan's decisions, with all commands of every step.

    `stated` converts unmet requirements and warnings to data; `hosts` are the names of remote hosts.
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
    """Return a warning for each segment of the plan's first labs whose links have different MTUs."""
    found: dict[SegmentMtusDiffer, None] = {}
    for lab in labs.each(labs.plan.steps[:STEPS_READ]):
        if len({mtu_of(lab, name) for name in lab.links}) < 2:
            continue
        segments = (segment.links for segment in topology_of(lab).segments)
        found |= dict.fromkeys(unequal_mtus(lab, segments))
    return tuple(found)


def not_asked(plan: Plan, hosts: Collection[str]) -> list[str]:
    """Return the hosts whose CPUs are not in a plan; on these hosts, a run may pin threads to CPUs other than those in
    the plan."""
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
