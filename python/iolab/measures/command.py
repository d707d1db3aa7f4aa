"""Programs of the user's own, with their servers beside them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iolab.experiment.experiment import Section
from iolab.experiment.model.measures import CommandMeasure, Figure, Program
from iolab.experiment.references.lab_references import check_ready
from iolab.experiment.references.view import Place, View, check_machine
from iolab.lab.programs import on_cpus
from iolab.lab.topology import Topology
from iolab.registry.rows import Later, MeasureKind, ShortForm

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab

OWN_FIGURES = ("elapsed_s", "cpu_user_s", "cpu_system_s")
"""What iolab itself sees of a program."""
ONE_RUN = "either run, the program and its arguments as a list of words, or shell, a text for `sh -c`"
ONE_FIGURE = "one of path (JSONPath), pattern (a regular expression), column (of CSV)"


def _check_names(view: View, section: Section, measure: CommandMeasure) -> None:
    _check_program(view, section, (), measure)
    for name, server in measure.servers.items():
        _check_program(view, section, ("servers", name), server)
        check_ready(view, section, ("servers", name, "ready"), server.ready)
    for name, figure in measure.metrics.items():
        _check_figure(view, section, ("metrics", name), figure)
        if name in OWN_FIGURES:
            seen, allowed = name, f"another name: iolab itself gives {', '.join(OWN_FIGURES)}"
            view.say(section, ("metrics", name), seen, allowed)


def _check_program(view: View, section: Section, place: Place, program: Program) -> None:
    check_machine(view, section, (*place, "on"), program.on)
    if bool(program.run) == (program.shell is not None):
        view.say(section, place, "both run and shell" if program.run else "neither run nor shell", ONE_RUN)
    if program.run and not program.run[0]:
        view.say(section, (*place, "run"), "an empty word", "the name of a program first")
    if program.folder is not None and not program.folder.startswith("/"):
        view.say(section, (*place, "folder"), program.folder, "a path from the root, such as /srv/www")


def _check_figure(view: View, section: Section, place: Place, figure: Figure) -> None:
    given = [one for one in (figure.path, figure.pattern, figure.column) if one is not None]
    if len(given) != 1:
        view.say(section, place, f"{len(given)} of them", ONE_FIGURE)
        return
    from iolab.trial.programs.figures import path_trouble, pattern_trouble

    if figure.path is not None and (trouble := path_trouble(figure.path)) is not None:
        view.say(section, (*place, "path"), f"{figure.path} ({trouble})", "JSONPath, such as $.end.sum.bytes")
    if figure.pattern is not None and (trouble := pattern_trouble(figure.pattern)) is not None:
        allowed = "a regular expression with one group, or a group (?P<value>...): the number; (?P<unit>...) beside it"
        view.say(section, (*place, "pattern"), f"{figure.pattern} ({trouble})", allowed)


def _programs(measure: CommandMeasure) -> Iterator[Program]:
    yield from measure.servers.values()
    yield measure


def _named_programs(measure: CommandMeasure) -> Iterator[tuple[str, str]]:
    for program in _programs(measure):
        if program.run and "{" not in program.run[0]:
            yield program.on, program.run[0]


def _check(measure: CommandMeasure, _lab: "Lab", topology: Topology) -> None:
    """Check that every machine that is named in a program's words has an address there. Raises InputError."""
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
