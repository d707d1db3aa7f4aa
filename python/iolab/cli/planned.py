"""Plan an experiment with the facts of its hosts; missing guest images are built if nothing else is missing."""

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

NoBuild = Annotated[bool, typer.Option("--no-build")]
QEMU = "qemu"
"""Name that requests a newer QEMU in a list of image flavours."""


def planned(
    agents: Agents, experiment: Experiment, decide: Callable[[Facts], Plan], *, no_build: bool
) -> tuple[Plan, Mapping[str, Json]]:
    """Return the plan for the facts of all hosts, and these facts as stored.

    Raises:
        UnsupportedError: an image cannot be built; the message has the reason and the packages to install.
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
    """Return the image flavours, and a newer QEMU, whose absence is the only reason why cells cannot run."""
    found: dict[str, None] = {}
    for cell in plan.unsupported:
        flavours = [_built_for(lack) for lack in lacks_of(cell.reason)]
        if all(flavours):
            found |= dict.fromkeys(flavour for flavour in flavours if flavour)
    return tuple(found)


def _built_for(lack: UnmetRequirement) -> str | None:
    """Return the flavour to build for an unmet requirement; None: building an image does not help."""
    match lack:
        case ImageAbsent():
            return lack.image
        case PlainHostLack(code="newer-qemu-absent", host=ThisComputer()):
            return QEMU
    return None
