"""Planning on the hosts of an experiment; what guests are started from is built where nothing else is lacking."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from iolab.agent.messages import Json
from iolab.agent.transport import find_agent
from iolab.cli.console import complain
from iolab.cli.plan import lacks_of
from iolab.experiment.experiment import Experiment
from iolab.image import build, build_qemu
from iolab.lab.hosts.facts import Facts
from iolab.locale import Phrase
from iolab.messages.places import ThisComputer
from iolab.messages.unmet import ImageAbsent, PlainHostLack, UnmetRequirement
from iolab.plan.types import Plan
from iolab.run.agents import Agents
from iolab.run.hosts.host_facts import with_named_programs
from iolab.run.hosts.hosts import read_all_facts

NoBuild = Annotated[
    bool, typer.Option("--no-build", help="Build no guest image; refuse cells that need a missing one.")
]
QEMU = "qemu"
"""Stands for a newer QEMU among the flavours of images."""


def planned(
    agents: Agents, experiment: Experiment, decide: Callable[[Facts], Plan], *, no_build: bool
) -> tuple[Plan, Mapping[str, Json]]:
    """Return what is decided on the facts of all hosts, and these facts as they are stored.

    Raises:
        UnsupportedError: what guests are started from cannot be built here; says why and what to install.
    """
    facts, raw = read_all_facts(agents)
    plan = decide(with_named_programs(facts, agents, experiment))
    wanted = () if no_build else to_build(plan)
    for flavour in wanted:
        complain(Phrase("plan.building-an-image", flavour=flavour))
        if flavour == QEMU:
            build_qemu(complain)
        else:
            build(flavour, find_agent(), complain)
    if not wanted:
        return plan, raw
    facts, raw = read_all_facts(agents)
    return decide(with_named_programs(facts, agents, experiment)), raw


def to_build(plan: Plan) -> tuple[str, ...]:
    """Return the flavours of images, and a newer QEMU, for want of which alone cells of a plan cannot run."""
    found: dict[str, None] = {}
    for cell in plan.unsupported:
        flavours = [_built_for(lack) for lack in lacks_of(cell.reason)]
        if all(flavours):
            found |= dict.fromkeys(flavour for flavour in flavours if flavour)
    return tuple(found)


def _built_for(lack: UnmetRequirement) -> str | None:
    """Return what has to be built to meet a need; None: building does not help."""
    match lack:
        case ImageAbsent():
            return lack.image
        case PlainHostLack(code="newer-qemu-absent", host=ThisComputer()):
            return QEMU
    return None
