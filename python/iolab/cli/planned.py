"""Planning on the hosts of an experiment; what guests are started from is built where nothing else is lacking."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from iolab.agent.messages import Json
from iolab.agent.transport import find_agent
from iolab.cli.console import complain
from iolab.experiment.experiment import Experiment
from iolab.image import build, build_qemu
from iolab.lab.hosts.facts import Facts
from iolab.lab.needs.need import package_of
from iolab.plan.types import Plan, Unsupported
from iolab.report.troubles import UnsupportedCells
from iolab.report.words import EN
from iolab.run.agents import Agents
from iolab.run.hosts.hosts import read_all_facts
from iolab.run.hosts.named_programs import with_named_programs
from iolab.statements.computers import Computer, ThisComputer
from iolab.statements.lacks import (
    ImageAbsent,
    IscsiDriverAbsent,
    Lack,
    NewerQemuAbsent,
    ProgramAbsent,
    SeveralLacks,
    SwitchAbsent,
)

NoBuild = Annotated[bool, typer.Option("--no-build", help="Build no guest image: refuse what needs one.")]
QEMU = "qemu"
"""Stands for a newer QEMU among the flavours of images."""
ISCSI_DRIVER = "qemu-block-extra"
"""Debian package of QEMU's iSCSI driver."""


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
        complain(f"building {flavour}, which guests of this experiment are started from; --no-build refuses")
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
        flavours = [_built_for(lack) for lack in _lacks(cell.reason)]
        if all(flavours):
            found |= dict.fromkeys(flavour for flavour in flavours if flavour)
    return tuple(found)


def install_lines(plan: Plan) -> list[str]:
    """Return the command that installs every Debian package for want of which cells cannot run, for each computer."""
    found: dict[Computer, dict[str, None]] = {}
    for cell in plan.unsupported:
        for lack in _lacks(cell.reason):
            match lack:
                case ProgramAbsent():
                    found.setdefault(lack.host, {})[lack.package] = None
                case SwitchAbsent():
                    found.setdefault(lack.host, {})[package_of(lack.program)] = None
                case IscsiDriverAbsent():
                    found.setdefault(lack.host, {})[ISCSI_DRIVER] = None
    return [
        f"  what is not installed on {EN.said.say(host)}: sudo apt-get install {' '.join(sorted(packages))}"
        for host, packages in found.items()
    ]


def _lacks(reason: Lack) -> tuple[Lack, ...]:
    return reason.lacks if isinstance(reason, SeveralLacks) else (reason,)


def _built_for(lack: Lack) -> str | None:
    """Return what has to be built to meet a need; None: building does not help."""
    if isinstance(lack, ImageAbsent):
        return lack.image
    return QEMU if isinstance(lack, NewerQemuAbsent) and isinstance(lack.host, ThisComputer) else None


def cannot_run(cells: Unsupported | UnsupportedCells) -> str:
    """Return in a line what cannot run here, and why; of several cells the first and their number."""
    levels = ", ".join(f"{name}={label}" for name, label in cells.cell.items())
    count = cells.count if isinstance(cells, UnsupportedCells) else 1
    others = f" and {count - 1} more" if count > 1 else ""
    return f"{' '.join(filter(None, (cells.measure, levels)))}{others}: {EN.said.say(cells.reason)}"
