"""The history of a run on the page: warnings and failures, commands, and how to repeat the run."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.types import Analysis
from iolab.experiment.experiment import Experiment
from iolab.plan.types import unsupported
from iolab.report import sentences, troubles
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.results.trial import CommandRecord
from iolab.store.records import EXPERIMENT, StoredRun, TrialRecord

MOST_LOST = 100
MOST_COMMANDS = 600
"""Maximum number of different commands in the list."""
MOST_TEXT = 200_000
"""Maximum number of characters of the experiment file that are shown."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command in the list, in which equal commands are merged."""

    text: str
    """The command as typed in a shell."""
    undo: str
    """The undo command; empty if no undo is needed."""
    count: int
    """Number of executions."""
    failed: int
    """The last non-zero exit status; 0 if all commands succeeded."""


@dataclass(frozen=True, slots=True)
class HostCommands:
    """The commands for one machine."""

    name: str
    """Name of the machine; then the machine on whose kernel the commands ran, if it is a different one, and the
    namespace, if there is one."""
    commands: tuple[Command, ...]
    """Commands in the order of their first execution."""


@dataclass(frozen=True, slots=True)
class CommandsView:
    """All commands."""

    hosts: tuple[HostCommands, ...]
    """Commands per machine."""
    total: int
    """Number of executed commands."""
    note: str
    """Note with the number of executed commands and the number of distinct commands."""
    left_out: str
    """Note with the number of omitted commands; empty if no command is omitted."""


def commands_view(commands: Sequence[CommandRecord], words: Words) -> CommandsView:
    """Merge equal commands and group them by machine."""
    merged: dict[tuple[str, str, str], list[int]] = {}
    for command in commands:
        text = "   # ".join((shlex.join(command.argv), *map(words.said.say, command.notes)))
        tally = merged.setdefault((_place(command), text, _undo(command)), [0, 0])
        tally[0] += 1
        tally[1] = command.exit_status or tally[1]
    hosts: dict[str, list[Command]] = {}
    for (place, text, undo), (count, failed) in list(merged.items())[:MOST_COMMANDS]:
        hosts.setdefault(place, []).append(Command(text, undo, count, failed))
    left_out = len(merged) - MOST_COMMANDS
    return CommandsView(
        hosts=tuple(HostCommands(place, tuple(each)) for place, each in hosts.items()),
        total=len(commands),
        note=words.text("page.commands_note", total=len(commands), distinct=len(merged)),
        left_out=words.text("page.commands_left_out", count=left_out) if left_out > 0 else "",
    )


def _undo(command: CommandRecord) -> str:
    """Return the undo of a command; the undo's namespace is included if it differs from the command's namespace."""
    elsewhere = command.undo_netns is not None and command.undo_netns != command.netns
    words = ("ip", "netns", "exec", command.undo_netns or "") if elsewhere else ()
    return shlex.join((*words, *command.undo)) if command.undo else ""


def _place(command: CommandRecord) -> str:
    elsewhere = command.kernel not in ("", command.machine)
    place = f"{command.machine} @ {command.kernel}" if elsewhere else command.machine
    return place if command.netns is None else f"{place} ({command.netns})"


def troubles_view(
    run: StoredRun, trials: Sequence[TrialRecord], analysis: Analysis, named: Names
) -> Mapping[str, object]:
    """Return warnings, failed trials, unsupported cells and notes as rows of text."""
    words, said = named.words, named.words.said
    lost = troubles.lost(trials)
    left_out = len(lost) - MOST_LOST
    return {
        "warning_rows": [
            (each.code, str(each.count), troubles.places(each, named), said.say(each.first), said.advise(each.first))
            for each in troubles.warnings(trials)
        ],
        "lost_rows": [
            (words.name("trouble.statuses", each.status), named.measure(each.measure), named.cell(each.cell),
             troubles.block_list(each.blocks, words), said.say_any(each.reason))
            for each in lost[:MOST_LOST]
        ],
        "lost_left_out": words.text("trouble.left_out", count=left_out) if left_out > 0 else "",
        "unsupported_rows": [
            (named.measure(each.measure), named.cell(each.cell), str(each.count), said.say(each.reason))
            for each in unsupported(run.plan)
        ],
        "stored_notes": [
            sentences.noted(note, named.words) for note in analysis.notes
        ],
    }  # fmt: skip


def _selected(cells: Mapping[str, Sequence[str]]) -> str:
    """Return a selection of cells as `--only` reads it."""
    return ",".join(f"{name}={'|'.join(labels)}" for name, labels in cells.items())


def repeat_view(run: StoredRun, experiment: Experiment, version: str, words: Words) -> Mapping[str, object]:
    """Return the command lines that repeat the run and the report, and the identification of the run."""
    plan = run.plan
    lines = [
        words.text(
            "page.repeat_run",
            source=shlex.quote(_source(run, experiment)),
            seed=plan.seed,
            blocks=plan.blocks,
            only="".join(f" --only {shlex.quote(_selected(one))}" for one in plan.only),
        ),
        words.text("page.repeat_report", run=shlex.quote(str(run.folder))),
        words.text("page.repeat_trials", run=shlex.quote(str(run.folder))),
    ]
    return {
        "repeat_lines": lines,
        "identity": [
            (words.text(key), value)
            for key, value in (
                ("page.run", run.name),
                ("page.seed", str(plan.seed)),
                ("page.blocks", str(plan.blocks)),
                ("page.grouping", words.listed(plan.grouping) or words.text("none")),
                ("page.digest", plan.digest),
                ("page.version", version),
            )
        ],
        "experiment_text": experiment.text[:MOST_TEXT],
    }


def _source(run: StoredRun, experiment: Experiment) -> str:
    """Return the path of the experiment file as it was given, or of its copy in the run folder."""
    named = experiment.source.endswith((".yaml", ".yml"))
    return experiment.source if named else str(run.folder / EXPERIMENT)
