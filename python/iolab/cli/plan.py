"""plan: what a run would do, without doing it."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from iolab.cli.console import advice, say, sentence
from iolab.cli.options import AllowSetting, Blocks, File, On, Only, Quick, Seed, Skip, counted
from iolab.errors import UnsupportedError
from iolab.experiment import Resolver, load, resolver_of
from iolab.experiment.experiment import Experiment
from iolab.lab.hosts.facts import Facts
from iolab.lab.links.link_topology import is_ours
from iolab.lab.links.wires import Carrier, carrier_of
from iolab.lab.requirements.need import package_of
from iolab.lab.topology import topology_of
from iolab.messages.places import Computer
from iolab.messages.unmet import PlainHostLack, ProgramAbsent, ProgramLack, SeveralLacks, UnmetRequirement
from iolab.plan.commands import StepCommands, commands, render
from iolab.plan.durations import parts_of
from iolab.plan.plan_json import STEPS_READ, describe, mtu_warnings, not_asked
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan, Unsupported, UnsupportedCells, unsupported
from iolab.registry.registry import measure_kinds
from iolab.run.agents import Agents
from iolab.run.durations_file import durations_file, recall
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import planning_facts
from iolab.run.hosts.hosts import hosts_of
from iolab.run.hosts.named_programs import with_named_programs
from iolab.units import NS_PER_S, format_duration

EMULATORS = {
    "auto": "iolab (in user space: repeatable, and super-frames are impaired frame by frame)",
    "iolab": "iolab, as asked for",
    "netem": "the kernel's netem, as asked for (its chance has no seed, and super-frames are impaired whole)",
}
CARRIED: Mapping[Carrier, str] = {
    "veth": "carried by veth pairs with rings (AF_XDP, BPF): every frame comes apart (tso: off); by taps without root",
    "whole": "carried by taps, super-frames whole; with offload: {tso: off} by veth pairs, which carry more frames",
    "apart": "carried by taps, every frame apart",
}
ISCSI_DRIVER = "qemu-block-extra"
"""Debian package of QEMU's iSCSI driver."""
GUEST = "vm"
"""The kind of a machine that is a guest: no lab has one whose file lacks the word."""
NOT_ASKED = (
    "  the CPUs of {host} are not known before a run: `iolab run` reads them first, and may pin what is there to "
    "others than the commands below"
)
"""Said of each host that a plan does not reach."""
STEPS_SHOWN = 12
"""Steps whose commands `plan` prints unless all are asked for."""


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(plan)


def plan(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="Print the documented JSON form.")] = False,
    all_commands: Annotated[
        bool,
        typer.Option("--all", help="Print every step's commands and every cell."),
    ] = False,
    blocks: Blocks = None,
    seed: Seed = None,
    only: Only = None,
    quick: Quick = False,
    skip_unsupported: Skip = False,
    allow_setting: AllowSetting = None,
    on: On = None,
) -> None:
    """Show what a run would do: cells, order, time, and every command with its undo. Nothing is changed."""
    experiment = load(file, on)
    with open_agent() as agent:
        facts = planning_facts(agent, guests=GUEST in experiment.text)
        facts = with_named_programs(facts, Agents(agent), experiment)
    decided = make_plan(
        experiment,
        permitting(facts, allow_setting),
        seed=seed,
        blocks=1 if quick and blocks is None else blocks,
        only=selection(only or (), experiment, quick=quick),
        learned=recall(durations_file()),
    )
    if as_json:
        from iolab.report.stated import stated  # with every word of the report

        json.dump(describe(decided, experiment, stated, hosts_of(experiment)), sys.stdout, indent=1)
        say("")
    else:
        _print_plan(decided, all_commands)
        for line in install_lines(decided):
            say(line)
        if decided.unsupported and decided.steps and not skip_unsupported:
            say("  iolab run refuses this; --skip-unsupported runs the others")
        _print_emulators(experiment, decided)
        for warning in mtu_warnings(experiment, decided):
            say(f"  {sentence(warning)}; {advice(warning)}")
        for name in not_asked(decided, hosts_of(experiment)):
            say(NOT_ASKED.format(host=name))
        _print_steps(experiment, decided, all_commands)
    if not decided.steps:
        count = counted(len(decided.unsupported), "cell")
        first = cannot_run(decided.unsupported[0])
        raise UnsupportedError(f"planning: nothing of {count} can run on this host: {first}")


def permitting(facts: Facts, settings: Sequence[str] | None) -> Facts:
    """Return facts by which kernel settings may be set that the user has named."""
    return replace(facts, permitted_settings=tuple(settings or ()))


def _print_steps(experiment: Experiment, decided: Plan, all_commands: bool) -> None:
    """Print the commands of the first steps, or of all."""
    resolver = resolver_of(experiment)
    for number, step_commands in enumerate(commands(experiment, decided)):
        if number == STEPS_SHOWN and not all_commands:
            say(f"... and {len(decided.steps) - number} more steps; --all prints the commands of every one")
            return
        for line in [*render(step_commands), *_measuring(resolver, step_commands)]:
            say(line)


def _measuring(resolver: Resolver, step_commands: StepCommands) -> Sequence[str]:
    """Return the programs that measure in a step, as a person would type them."""
    if step_commands.step is None:
        return []
    setup, name = resolver.setup(step_commands.cell), step_commands.step.measure
    measure = setup.measures[name]
    lines = measure_kinds()[measure.kind].commands(measure, topology_of(setup.lab))
    begins = parts_of(setup, name)
    if len(begins) == 1:
        return lines
    others = ", ".join(other for other in begins if other != name)
    return (f"# at once with {others}, begins at {begins[name] / NS_PER_S:g} s", *lines)


def _print_plan(decided: Plan, all_commands: bool) -> None:
    duration = f"{format_duration(decided.estimate_ns)}, within a factor of {decided.estimate_factor:.2g}"
    trials, blocks = counted(len(decided.steps), "trial"), counted(decided.blocks, "block")
    say(f"{decided.title}: {trials} in {blocks}, about {duration}")
    say(f"seed {decided.seed}, plan {decided.digest}")
    for factor in decided.factors:
        note = " (changes slowest)" if factor.name in decided.grouping else ""
        say(f"  {factor.name}: {', '.join(factor.labels)}{note}")
    reasons = decided.unsupported if all_commands else unsupported(decided)
    shown = len(reasons) if all_commands else STEPS_SHOWN
    for lacking in reasons[:shown]:
        say(f"  cannot run here: {cannot_run(lacking)}")
    if len(reasons) > shown:
        say(f"  ... and {len(reasons) - shown} more reasons; --all lists all cells")


def _print_emulators(experiment: Experiment, decided: Plan) -> None:
    """Print what emulates the paths of links, and why."""
    resolver = resolver_of(experiment)
    told: dict[str, None] = {}
    for step in decided.steps[:STEPS_READ]:
        lab = resolver.setup(decided.cell(step)).lab
        for name, link in lab.links.items():
            if link.wire is not None:
                told[f"  {name}: emulated by {EMULATORS[link.wire.emulator]}"] = None
            if is_ours(lab, name):
                told[f"  {name}: {CARRIED[carrier_of(lab, name)]}"] = None
    for line in told:
        say(line)


def cannot_run(cells: Unsupported | UnsupportedCells) -> str:
    """Return in a line what cannot run here, and why; of several cells the first and their number."""
    levels = ", ".join(f"{name}={label}" for name, label in cells.cell.items())
    count = cells.count if isinstance(cells, UnsupportedCells) else 1
    others = f" and {count - 1} more" if count > 1 else ""
    return f"{' '.join(filter(None, (cells.measure, levels)))}{others}: {sentence(cells.reason)}"


def install_lines(plan: Plan) -> list[str]:
    """Return the command that installs every Debian package for want of which cells cannot run, for each computer."""
    found: dict[Computer, dict[str, None]] = {}
    for cell in plan.unsupported:
        for lack in lacks_of(cell.reason):
            match lack:
                case ProgramAbsent():
                    found.setdefault(lack.host, {})[lack.package] = None
                case ProgramLack(code="switch-absent"):
                    found.setdefault(lack.host, {})[package_of(lack.program)] = None
                case PlainHostLack(code="iscsi-driver-absent"):
                    found.setdefault(lack.host, {})[ISCSI_DRIVER] = None
    return [
        f"  what is not installed on {sentence(host)}: sudo apt-get install {' '.join(sorted(packages))}"
        for host, packages in found.items()
    ]


def lacks_of(reason: UnmetRequirement) -> tuple[UnmetRequirement, ...]:
    """Return what one reason consists of."""
    return reason.lacks if isinstance(reason, SeveralLacks) else (reason,)
