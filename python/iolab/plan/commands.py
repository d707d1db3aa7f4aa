"""The labs of a plan's steps, and the commands from the one that stands to the next, to the last teardown.

Their resources are composed of what was decided at planning and of nothing else, lazily, one lab at a time: `iolab
plan` shows these, and a run makes them. What measures is decided in trial/ and is not shown here.
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import join

from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Section, Setup
from iolab.experiment.model.measures import beside_direction
from iolab.experiment.model.packets import Packets
from iolab.frozen import frozen
from iolab.lab.actions import Action, Command, PinGuest, StartGuest, TypedCommand
from iolab.lab.commands import Found, commands_of
from iolab.lab.compose import compose
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.resources import cpus_of
from iolab.lab.hosts.readiness import Computer, first_card
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Placement, placement_of, ways
from iolab.lab.resources import Resource, difference, guests, waves
from iolab.lab.topology import topology_of
from iolab.plan.types import Plan, Step

MOST_LABS = 50
"""Labs kept with their resources; beyond, they start empty again."""
UNKNOWN = Computer(cpus=2)
"""What this computer is taken for where the plan does not say."""


@frozen
class PlannedLab:
    """What must stand for a step."""

    placement: Placement | None
    """Where the parts of its measure run; None: it sends no frames of our own."""
    resources: tuple[Resource, ...]
    """Each after what it needs."""


class Labs:
    """The labs of one plan; steps that share a lab share its resources."""

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        self._resolver = resolver_of(experiment)
        self._plan = plan
        self._made: dict[tuple[str, str], PlannedLab] = {}

    def setup(self, step: Step) -> Setup:
        """Return the lab and the measures of a step, as the experiment has them."""
        return self._resolver.setup(self._plan.cell(step))

    def beside_direction(self, step: Step) -> str:
        """Return a digest of what a step is without the direction of its measure."""
        cell = self._plan.cell(step)
        return beside_direction(
            self._resolver.lab_key(cell), self._resolver.setup(cell).measures[step.measure]
        )

    def of(self, step: Step) -> PlannedLab:
        """Return what must stand for a step.

        Raises:
            InputError: names or addresses clash, or no way joins the ends of its measure.
        """
        cell, resolver = self._plan.cell(step), self._resolver
        sends = isinstance(resolver.model(Section("measure", step.measure), cell), Packets)
        key = (resolver.lab_key(cell), resolver.measure_key(cell, step.measure) if sends else "")
        if key not in self._made:
            planned = self._planned(resolver.setup(cell), step.measure)
            if len(self._made) >= MOST_LABS:
                self._made.clear()
            self._made[key] = planned
        return self._made[key]

    def _planned(self, setup: Setup, measure: str) -> PlannedLab:
        known = self._plan.computers
        placement = placement_of(setup, measure, self._cpus_of_sender(setup, measure))
        resources = compose(
            setup.lab,
            placement=placement,
            cpus=known.get(HERE, UNKNOWN).cpus,
            other_cpus={kernel: one.cpus for kernel, one in known.items() if kernel != HERE},
            orders={kernel: one.order(first_card(setup.lab, kernel)) for kernel, one in known.items()},
        )
        return PlannedLab(placement, resources)

    def _cpus_of_sender(self, setup: Setup, name: str) -> Sequence[int]:
        """Return the CPUs of the kernel on which a measure's frames are sent, those near the sending card first."""
        measure = setup.measures[name]
        if not isinstance(measure, Packets):
            return ()
        source = ways(setup.lab, topology_of(setup.lab), measure)[0].source
        known = self._plan.computers
        if (sender := known.get(source.kernel)) and (order := sender.order(source.port)):
            return order
        own = known.get(HERE, UNKNOWN).cpus
        others = {name: one.cpus for name, one in known.items()}
        return range(cpus_of(setup.lab, source.kernel, own, others) or own)


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
