"""The command plan: show the actions of a run without performing them."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from iolab.cli.console import advice, say, sentence
from iolab.cli.language import Language
from iolab.cli.options import (
    AllowSetting,
    Blocks,
    File,
    On,
    Only,
    Quick,
    Seed,
    Skip,
    counted_blocks,
    counted_cells,
)
from iolab.errors import UnsupportedError
from iolab.experiment import load
from iolab.lab.hosts.facts import Facts
from iolab.lab.links.link_topology import is_ours
from iolab.lab.links.wires import Carrier, carrier_of
from iolab.lab.requirements.need import package_of
from iolab.locale import ENGLISH, Phrase, Text
from iolab.messages.places import Computer
from iolab.messages.unmet import PlainHostLack, ProgramAbsent, ProgramLack, SeveralLacks, UnmetRequirement
from iolab.plan.commands import Labs, StepCommands, commands, render
from iolab.plan.durations import parts_of
from iolab.plan.plan_json import STEPS_READ, describe, mtu_warnings, not_asked
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan, Unsupported, UnsupportedCells, unsupported
from iolab.registry.registry import measure_kinds
from iolab.run.agents import Agents
from iolab.run.durations_file import durations_file, recall
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import planning_facts, with_named_programs
from iolab.run.hosts.hosts import hosts_of
from iolab.units import NS_PER_S, format_duration, write_bytes

EMULATORS = {
    "auto": Phrase("plan.emulated-in-user-space"),
    "iolab": Phrase("plan.emulated-by-iolab-as-asked"),
    "netem": Phrase("plan.emulated-by-netem"),
}
CARRIED: Mapping[Carrier, Phrase] = {
    "veth": Phrase("plan.carried-by-veth-pairs"),
    "whole": Phrase("plan.carried-by-taps-whole"),
    "apart": Phrase("plan.carried-by-taps-apart"),
    "port-whole": Phrase("plan.carried-on-port-whole"),
    "port-apart": Phrase("plan.carried-on-port-apart"),
}
ISCSI_DRIVER = "qemu-block-extra"
"""Debian package of QEMU's iSCSI driver."""
DEVICE = "device"
"""Key that only existing volumes have: a file without this word has no existing volumes."""
GUEST = "vm"
"""Machine kind of guests: a file without this word has no lab with guests."""
STEPS_SHOWN = 12
"""Number of steps whose commands `plan` prints without `--all`."""


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(plan)


def plan(
    file: File,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    all_commands: Annotated[bool, typer.Option("--all")] = False,
    blocks: Blocks = None,
    seed: Seed = None,
    only: Only = None,
    quick: Quick = False,
    skip_unsupported: Skip = False,
    allow_setting: AllowSetting = None,
    on: On = None,
    _lang: Language = ENGLISH,
) -> None:
    """Show what a run would do: cells, order, duration, and every command with its undo. Change nothing."""
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
    labs = Labs(experiment, decided)
    if as_json:
        from iolab.report.stated import stated  # imports the text of reports

        json.dump(describe(labs, stated, hosts_of(experiment)), sys.stdout, indent=1)
        say("")
    else:
        _print_plan(decided, all_commands)
        for line in install_lines(decided):
            say(line)
        if decided.unsupported and decided.steps and not skip_unsupported:
            say(Phrase("plan.run-refuses-this"))
        _print_emulators(labs)
        if DEVICE in experiment.text:
            _print_devices(labs)
        for warning in mtu_warnings(labs):
            say(Phrase("plan.warning-with-advice", warning=sentence(warning), advice=advice(warning)))
        for name in not_asked(decided, hosts_of(experiment)):
            say(Phrase("plan.cpus-not-known", host=name))
        _print_steps(labs, all_commands)
    if not decided.steps:
        count = counted_cells(len(decided.unsupported))
        first = cannot_run(decided.unsupported[0])
        raise UnsupportedError(Phrase("plan.nothing-can-run-here", cells=count, first=first))


def permitting(facts: Facts, settings: Sequence[str] | None) -> Facts:
    """Return facts that permit the kernel settings which the user has named."""
    return replace(facts, permitted_settings=tuple(settings or ()))


def _print_steps(labs: Labs, all_commands: bool) -> None:
    """Print the commands of the first steps, or of all steps."""
    for number, step_commands in enumerate(commands(labs)):
        if number == STEPS_SHOWN and not all_commands:
            say(Phrase("plan.more-steps", count=len(labs.plan.steps) - number))
            return
        for line in [*render(step_commands), *_measuring(labs, step_commands)]:
            say(line)


def _measuring(labs: Labs, step_commands: StepCommands) -> Sequence[Text]:
    """Return the measurement programs of a step as shell commands."""
    if (step := step_commands.step) is None:
        return []
    setup, name = labs.setup(step), step.measure
    measure = setup.measures[name]
    lines = measure_kinds()[measure.kind].commands(measure, labs.topology(step))
    begins = parts_of(setup, name)
    if len(begins) == 1:
        return lines
    others = [other for other in begins if other != name]
    return (Phrase("plan.begins-at-once-with", others=others, seconds=f"{begins[name] / NS_PER_S:g}"), *lines)


def _print_plan(decided: Plan, all_commands: bool) -> None:
    duration = Phrase(
        "plan.duration-within-factor",
        duration=format_duration(decided.estimate_ns),
        factor=f"{decided.estimate_factor:.2g}",
    )
    trials, blocks = Phrase("plan.count-of-trials", count=len(decided.steps)), counted_blocks(decided.blocks)
    say(Phrase("plan.plan-in-short", title=decided.title, trials=trials, blocks=blocks, duration=duration))
    say(Phrase("plan.seed-and-plan", seed=decided.seed, digest=decided.digest))
    for factor in decided.factors:
        line = Phrase("plan.factor-with-levels", name=factor.name, labels=factor.labels)
        say(Phrase("plan.slowest-factor", factor=line) if factor.name in decided.grouping else line)
    reasons = decided.unsupported if all_commands else unsupported(decided)
    shown = len(reasons) if all_commands else STEPS_SHOWN
    for lacking in reasons[:shown]:
        say(Phrase("plan.cannot-run-here", cell=cannot_run(lacking)))
    if len(reasons) > shown:
        say(Phrase("plan.more-reasons", count=len(reasons) - shown))


def _print_emulators(labs: Labs) -> None:
    """Print the emulator of each emulated link, and the reason for its choice."""
    told: dict[Phrase, None] = {}
    for lab in labs.each(labs.plan.steps[:STEPS_READ]):
        for name, link in lab.links.items():
            if link.wire is not None:
                told[Phrase("plan.link-emulated-by", link=name, emulator=EMULATORS[link.wire.emulator])] = (
                    None
                )
            if is_ours(lab, name):
                told[Phrase("plan.link-carried", link=name, how=CARRIED[carrier_of(lab, name)])] = None
    for line in told:
        say(line)


def _print_devices(labs: Labs) -> None:
    """Print which parts of existing block devices and targets are read and written."""
    from iolab.run.hosts.devices import used_devices  # few plans need the code of disk trials
    from iolab.run.hosts.targets import used_targets

    steps = labs.plan.steps[:STEPS_READ]
    for use in used_devices(labs, steps):
        path, volume, measure = use.path, use.volume, use.measure
        if use.writes_bytes:
            size = write_bytes(use.writes_bytes)
            say(Phrase("plan.device-is-written", device=path, volume=volume, measure=measure, size=size))
        else:
            say(Phrase("plan.device-is-read", device=path, volume=volume, measure=measure))
    for use in used_targets(labs, steps):
        path, volume, measure = use.path, use.volume, use.measure
        if use.writes_bytes:
            size = write_bytes(use.writes_bytes)
            say(Phrase("plan.target-is-written", target=path, volume=volume, measure=measure, size=size))
        else:
            say(Phrase("plan.target-is-read", target=path, volume=volume, measure=measure))


def cannot_run(cells: Unsupported | UnsupportedCells) -> Text:
    """Return a line with the cells that cannot run and the reason.

    If several cells cannot run, the line names the first one and gives their number.
    """
    levels = ", ".join(f"{name}={label}" for name, label in cells.cell.items())
    count = cells.count if isinstance(cells, UnsupportedCells) else 1
    first, reason = " ".join(filter(None, (cells.measure, levels))), sentence(cells.reason)
    if count > 1:
        return Phrase("plan.cells-and-reason", cell=first, others=count - 1, reason=reason)
    return Phrase("errors.failed-with-reason", what=first, reason=reason)


def install_lines(plan: Plan) -> list[Text]:
    """Return, for each host, the command that installs all missing Debian packages."""
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
        Phrase("plan.install-what-is-missing", host=sentence(host), packages=" ".join(sorted(packages)))
        for host, packages in found.items()
    ]


def lacks_of(reason: UnmetRequirement) -> tuple[UnmetRequirement, ...]:
    """Return the unmet requirements of which a reason consists."""
    return reason.lacks if isinstance(reason, SeveralLacks) else (reason,)
