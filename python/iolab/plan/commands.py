"""The commands of a plan, step by step: from the lab that stands to the one that is wanted, and the last teardown.

Composed lazily, one lab at a time. What measures is decided in trial/ and is not shown here.
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import join

from iolab.experiment.experiment import Experiment
from iolab.frozen import frozen
from iolab.lab.actions import Action, Command, PinGuest, StartGuest, TypedCommand
from iolab.lab.commands import Found, commands_of
from iolab.lab.guests.guest import Guest
from iolab.lab.resources import Resource, difference, guests, waves
from iolab.plan.labs import Labs
from iolab.plan.types import Plan, Step


@frozen
class PlannedCommand:
    """A command as a person would type it."""

    key: str
    """The resource it belongs to."""
    machine: str
    """The machine it is run for."""
    kernel: str
    """The machine on whose kernel it runs; empty: this computer."""
    netns: str | None
    """Network namespace it runs in; None: the kernel's own."""
    argv: tuple[str, ...]
    """Program and arguments; "{original}" stands for what was there before."""
    undo: Command | None
    """What takes it back; None: nothing to take back, or this is itself an undo."""


@frozen
class StepCommands:
    """What is done to the lab before a step, or after the last."""

    step: Step | None
    """The step; None: the end, when everything is taken back."""
    cell: Mapping[str, str]
    """Factor to label."""
    undone: tuple[PlannedCommand, ...]
    """What of the lab before is taken back, in order."""
    done: tuple[PlannedCommand, ...]
    """What is made or changed then, in order."""


def commands(experiment: Experiment, plan: Plan) -> Iterator[StepCommands]:
    """Yield, for each step in order, the way from the lab before to the lab of the step; then the teardown."""
    labs = Labs(experiment, plan)
    standing: tuple[Resource, ...] = ()
    for step in plan.steps:
        wanted = labs.of(step).resources
        yield _transition(step, plan.cell(step), standing, wanted)
        standing = wanted
    yield _transition(None, {}, standing, ())


def render(step_commands: StepCommands) -> list[str]:
    """Return a step's commands as lines to paste into a root shell, each with its undo as a comment.

    A line for another machine's shell begins with that machine's prompt: "dut# ...".
    """
    lines = [_heading(step_commands)]
    for one in (*step_commands.undone, *step_commands.done):
        undo = f"   # undo: {typed(one.undo)}" if one.undo else ""
        lines.append(prompted(Command(one.argv, one.netns), one.kernel) + undo)
    return lines


def prompted(command: Command, kernel: str) -> str:
    """Return a command as a person would type it, behind the prompt of the machine whose shell it is for."""
    return f"{kernel}# {typed(command)}" if kernel else typed(command)


def typed(command: Command) -> str:
    """Return a command as a person would type it, quoted for a shell."""
    if command.netns is None:
        return join(command.argv)
    if command.argv[0] == "ip":
        return join(("ip", "-n", command.netns, *command.argv[1:]))
    return join(("ip", "netns", "exec", command.netns, *command.argv))


def _transition(
    step: Step | None, cell: Mapping[str, str], standing: Sequence[Resource], wanted: Sequence[Resource]
) -> StepCommands:
    change = difference(standing, wanted)
    ended = {guest for resource in change.undo for guest in guests(resource)}
    undone = [one for resource in change.undo if resource.kernel not in ended for one in _undoing(resource)]
    known = {
        action.guest.name: action.guest
        for one in wanted
        for action in one.actions
        if isinstance(action, StartGuest)
    }
    done: list[PlannedCommand] = []
    for wave in waves(change.do):
        for index in range(max(len(resource.actions) for resource in wave)):
            for resource in (one for one in wave if index < len(one.actions)):
                made = _commands(resource.actions[index], known)
                keep = resource.key in change.in_place
                done += [_planned(resource, one.do, None if keep else one.undo) for one in made]
    return StepCommands(step, cell, tuple(undone), tuple(done))


def _undoing(resource: Resource) -> Iterator[PlannedCommand]:
    for action in reversed(resource.actions):
        for one in reversed(_commands(action, {})):
            if one.undo is not None:
                yield _planned(resource, one.undo, None)


def _commands(action: Action, known: Mapping[str, Guest]) -> tuple[TypedCommand, ...]:
    """Return the commands of an action before anything was looked for."""
    guest = known.get(action.guest) if isinstance(action, PinGuest) else None
    return commands_of(action, Found(guest=guest))


def _planned(resource: Resource, command: Command, undo: Command | None) -> PlannedCommand:
    return PlannedCommand(resource.key, resource.machine, resource.kernel, command.netns, command.argv, undo)


def _heading(step_commands: StepCommands) -> str:
    step = step_commands.step
    if step is None:
        return "# end: everything is taken back"
    levels = ", ".join(f"{name}={label}" for name, label in step_commands.cell.items())
    same = "" if step_commands.undone or step_commands.done else "; the lab stands already"
    return f"# block {step.block}, {step.measure}{': ' if levels else ''}{levels}{same}"
