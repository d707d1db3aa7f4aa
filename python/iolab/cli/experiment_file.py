"""check, plan, schema, new: what can be done with an experiment file without measuring."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from iolab.cli.console import cannot_run, say
from iolab.cli.planned import install_lines
from iolab.errors import ExitCode, InputError, Problem, UnsupportedError
from iolab.experiment import Resolver, cells, json_schema, load, starter
from iolab.experiment.check import LARGEST_SEED, MOST_BLOCKS
from iolab.experiment.experiment import Experiment
from iolab.experiment.product import names
from iolab.lab.hosts.facts import Facts
from iolab.lab.links.carriers import Carrier, carrier_of
from iolab.lab.links.link_topology import is_ours
from iolab.lab.topology import make_topology
from iolab.parts.registry import measure_kinds
from iolab.plan.at_once import parts_of
from iolab.plan.commands import StepCommands, commands, render
from iolab.plan.feasibility import check_cells, left_out
from iolab.plan.plan_json import describe, not_asked
from iolab.plan.planning import make_plan
from iolab.plan.selection import selection
from iolab.plan.types import Plan
from iolab.report.stated import stated
from iolab.report.troubles import unsupported
from iolab.report.words import EN
from iolab.run.agents import Agents
from iolab.run.durations import durations_file, recall
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import read_facts
from iolab.run.hosts.hosts import hosts_of
from iolab.run.hosts.named_programs import with_named_programs
from iolab.units import format_duration

File = Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file (YAML).", show_default=False)]
Only = Annotated[
    list[str] | None, typer.Option(metavar="EXPR", help="factor=level|level,...: only these cells.")
]
Skip = Annotated[bool, typer.Option("--skip-unsupported", help="Leave out cells that this host cannot do.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Only the cells that the file calls quick, in one block.")
]
On = Annotated[
    Path | None,
    typer.Option(
        "--on", metavar="SITE", help="Where to run it: a file that names hosts, guests there, cables."
    ),
]
Blocks = Annotated[
    int | None, typer.Option(min=1, max=MOST_BLOCKS, help="Blocks instead of the file's.", metavar="N")
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=LARGEST_SEED, help="Seed of the order instead of the file's.", metavar="S"),
]
AllowSetting = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-setting", metavar="NAME", help="Let the file set this kernel setting: kernel.core_pattern."
    ),
]
STANDARD_INPUT = Path("/dev/stdin")
CHECK_SCHEMA = 1
"""Version of `check --json`: additions keep it, changes and removals raise it."""
STEPS_READ = 1000
"""Steps whose links are looked at."""
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
NOT_ASKED = (
    "  the CPUs of {host} are not known before a run: `iolab run` reads them first, and may pin what is there to "
    "others than the commands below"
)
"""Said of each host that a plan does not reach."""
NS_PER_S = 1_000_000_000
STEPS_SHOWN = 12
"""Steps whose commands `plan` prints unless all are asked for."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(check)
    app.command()(plan)
    app.command()(schema)
    app.command()(new)


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Experiment files (YAML); - is standard input.", show_default=False
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: what each file means, or what is wrong.")
    ] = False,
    on: On = None,
) -> int:
    """Check experiment files and say what they mean; every error of all of them at once."""
    wrong: list[InputError] = []
    correct: list[Experiment] = []
    for file in files:
        try:
            correct.append(_checked(file, on))
        except InputError as error:
            wrong.append(error)
    if as_json:
        say(json.dumps(_checked_json(correct, wrong), ensure_ascii=False))
        return ExitCode.INPUT_WRONG if wrong else ExitCode.DONE
    for experiment in correct:
        _print_meaning(experiment)
    if wrong:
        raise InputError([problem for error in wrong for problem in error.problems])
    return ExitCode.DONE


def _checked(file: Path, on: Path | None) -> Experiment:
    experiment = load(STANDARD_INPUT if str(file) == "-" else file, on)
    check_cells(experiment)
    return experiment


def _checked_json(correct: Sequence[Experiment], wrong: Sequence[InputError]) -> dict[str, object]:
    return {
        "schema": CHECK_SCHEMA,
        "correct": [
            {
                "file": one.source,
                "title": one.title,
                "factors": {name: list(labels) for name, labels in names(one.factors).items()},
                "cells": sum(1 for _ in cells(one)),
                "blocks": one.blocks,
                "seed": one.seed,
            }
            for one in correct
        ],
        "problems": [asdict(problem) for error in wrong for problem in error.problems],
    }


def _print_meaning(experiment: Experiment) -> None:
    file = experiment.source
    cell_count = sum(1 for _ in cells(experiment))
    lab, measures = experiment.tree["lab"], experiment.tree["measure"]
    assert isinstance(lab, dict)
    assert isinstance(measures, dict)
    parts = ", ".join(
        _counted(len(lab[kind]), kind[:-1]) for kind in ("machines", "links", "volumes") if lab.get(kind)
    )
    say(f"{file}: {experiment.title}")
    say(f"  lab: {parts}; measures: {', '.join(measures)}")
    if experiment.site is not None:
        _print_site(experiment)
    for name, labels in names(experiment.factors).items():
        say(f"  {name}: {', '.join(labels)}")
    text = f"{_counted(cell_count, 'cell')}, {_counted(experiment.blocks, 'block')}"
    say(f"  {text}, seed {experiment.seed}: correct")


def _print_site(experiment: Experiment) -> None:
    """Print where the machines are, and which levels there are not."""
    site = experiment.site
    assert site is not None
    for name, place in site.hosts.items():
        guests = [machine for machine, host in site.on.items() if host == name]
        say(f"  {name}: {place or 'this computer'}{', with ' + ', '.join(guests) if guests else ''}")
    for link, ends in site.cables.items():
        say(f"  {link}: the cable {' - '.join(ends)}")
    for reason in left_out(experiment):
        say(f"  left out: {EN.said.say(reason)}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
        facts, _ = read_facts(agent)
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
        json.dump(describe(decided, experiment, stated, hosts_of(experiment)), sys.stdout, indent=1)
        say("")
    else:
        _print_plan(decided, all_commands)
        for line in install_lines(decided):
            say(line)
        if decided.unsupported and decided.steps and not skip_unsupported:
            say("  iolab run refuses this; --skip-unsupported runs the others")
        _print_emulators(experiment, decided)
        for name in not_asked(decided, hosts_of(experiment)):
            say(NOT_ASKED.format(host=name))
        _print_steps(experiment, decided, all_commands)
    if not decided.steps:
        count = _counted(len(decided.unsupported), "cell")
        first = cannot_run(decided.unsupported[0])
        raise UnsupportedError(f"planning: nothing of {count} can run on this host: {first}")


def permitting(facts: Facts, settings: Sequence[str] | None) -> Facts:
    """Return facts by which kernel settings may be set that the user has named."""
    return replace(facts, permitted_settings=tuple(settings or ()))


def _print_steps(experiment: Experiment, decided: Plan, all_commands: bool) -> None:
    """Print the commands of the first steps, or of all."""
    resolver = Resolver(experiment)
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
    lines = measure_kinds()[measure.kind].commands(measure, make_topology(setup.lab))
    begins = parts_of(setup, name)
    if len(begins) == 1:
        return lines
    others = ", ".join(other for other in begins if other != name)
    return (f"# at once with {others}, begins at {begins[name] / NS_PER_S:g} s", *lines)


def _print_plan(decided: Plan, all_commands: bool) -> None:
    duration = f"{format_duration(decided.estimate_ns)}, within a factor of {decided.estimate_factor:.2g}"
    trials, blocks = _counted(len(decided.steps), "trial"), _counted(decided.blocks, "block")
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
    resolver = Resolver(experiment)
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


def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    say(json.dumps(json_schema(), indent=2))


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the experiment; NAME.yaml is written.")
    ],
) -> None:
    """Write a small experiment to start from."""
    path = Path(name).with_suffix(".yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(path.stem))
    except FileExistsError:
        raise InputError(
            [Problem(str(path), "writing a new experiment", "the file exists", "a new name")]
        ) from None
    except OSError as error:
        problem = Problem(
            str(path), "writing a new experiment", str(error.strerror), "a folder that can be written to"
        )
        raise InputError([problem]) from None
    say(f"{path} written; try: iolab check {path}, iolab plan {path}, iolab run {path}")
