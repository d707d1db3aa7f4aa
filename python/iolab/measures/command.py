"""User-defined programs, with their servers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iolab.experiment.experiment import Section
from iolab.experiment.model.measures import CommandMeasure, Figure, Program
from iolab.experiment.references.lab_references import check_ready
from iolab.experiment.references.view import Place, View, check_machine
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Topology
from iolab.locale import Phrase
from iolab.registry.rows import Later, MeasureKind, ShortForm

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab

OWN_FIGURES = ("elapsed_s", "cpu_user_s", "cpu_system_s")
"""Figures that iolab itself measures for a program."""


def _check_names(view: View, section: Section, measure: CommandMeasure) -> None:
    _check_program(view, section, (), measure)
    for name, server in measure.servers.items():
        _check_program(view, section, ("servers", name), server)
        check_ready(view, section, ("servers", name, "ready"), server.ready)
    for name, figure in measure.metrics.items():
        _check_figure(view, section, ("metrics", name), figure)
        if name in OWN_FIGURES:
            view.say(
                section, ("metrics", name), name, Phrase("measures.name-of-no-own-figure", names=OWN_FIGURES)
            )


def _check_program(view: View, section: Section, place: Place, program: Program) -> None:
    check_machine(view, section, (*place, "on"), program.on)
    if bool(program.run) == (program.shell is not None):
        both = Phrase("measures.both-keys", keys=["run", "shell"])
        neither = Phrase("measures.neither-run-nor-shell")
        view.say(section, place, both if program.run else neither, Phrase("measures.run-or-shell"))
    if program.run and not program.run[0]:
        view.say(section, (*place, "run"), Phrase("check.empty-word"), Phrase("check.program-name-first"))
    if program.folder is not None and not program.folder.startswith("/"):
        view.say(section, (*place, "folder"), program.folder, Phrase("measures.absolute-path"))


def _check_figure(view: View, section: Section, place: Place, figure: Figure) -> None:
    given = [one for one in (figure.path, figure.pattern, figure.column) if one is not None]
    if len(given) != 1:
        seen = Phrase("check.several-of-them", count=len(given))
        allowed = Phrase("measures.one-source-of-figure")
        view.say(section, place, seen, allowed)
        return
    from iolab.trial.programs.figures import path_trouble, pattern_trouble

    if figure.path is not None and (trouble := path_trouble(figure.path)) is not None:
        seen = Phrase("measures.value-and-reason", value=figure.path, reason=trouble)
        view.say(section, (*place, "path"), seen, Phrase("measures.json-path"))
    if figure.pattern is not None and (error := pattern_trouble(figure.pattern)) is not None:
        seen = Phrase("measures.value-and-reason", value=figure.pattern, reason=error)
        view.say(section, (*place, "pattern"), seen, Phrase("measures.pattern-with-group"))


def _programs(measure: CommandMeasure) -> Iterator[Program]:
    yield from measure.servers.values()
    yield measure


def _named_programs(measure: CommandMeasure) -> Iterator[tuple[str, str]]:
    for program in _programs(measure):
        if program.run and "{" not in program.run[0]:
            yield program.on, program.run[0]


def _check(measure: CommandMeasure, _lab: "Lab", topology: Topology) -> None:
    """Check that every machine named in a program's arguments has an address. Raises InputError."""
    from iolab.trial.programs.words import addresses_of

    for program in _programs(measure):
        addresses_of(measure, program, topology)


def _commands(measure: CommandMeasure, topology: Topology) -> Sequence[str]:
    *servers, own = (_typed(measure, program, topology) for program in _programs(measure))
    return (*(f"{line} &" for line in servers), own)


def _typed(measure: CommandMeasure, program: Program, topology: Topology) -> str:
    from iolab.lab.actions import Command
    from iolab.plan.commands import prompted
    from iolab.trial.programs.words import argv_of, filler

    argv = argv_of(program, program.folder, filler(measure, program, topology))
    home = topology.homes[program.on]
    return prompted(Command(on_cpus(argv, home.cpus), home.netns), home.kernel)


COMMAND = MeasureKind(
    model=CommandMeasure,
    duration_ns=lambda measure: measure.duration,
    measure=Later("iolab.trial.programs.measure:measure_command"),
    conclude=Later("iolab.trial.programs.measure:conclude_command"),
    check_names=_check_names,
    named_by=frozenset({"on", "servers"}),
    named_programs=_named_programs,
    as_part=lambda measure, _: measure,
    short_forms={"command": ShortForm(program=True)},
    check=_check,
    commands=_commands,
)
