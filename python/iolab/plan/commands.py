"""The labs of a plan's steps, and the commands from the one that stands to the next, to the last teardown.

Their resources are composed of what was decided at planning and of nothing else, lazily, one lab at a time: `iolab
plan` shows these, and a run makes them. What measures is decided in trial/ and is not shown here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import join

from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Lab, Section, Setup
from iolab.experiment.model.measures import Measure, beside_direction
from iolab.experiment.model.packets import Packets
from iolab.frozen import frozen
from iolab.lab.actions import Action, Command, PinGuest, StartGuest, TypedCommand
from iolab.lab.commands import Found, commands_of
from iolab.lab.compose import compose
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.resources import cpus_of
from iolab.lab.hosts.readiness import Computer, first_card
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Placement, placed, ways
from iolab.lab.resources import Resource, difference, guests, waves
from iolab.lab.topology import Endpoint, Topology, topology_of
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
    topology: Topology
    """What is joined to what."""
    resources: tuple[Resource, ...]
    """Each after what it needs."""


class Labs:
    """A plan with what its steps mean: their labs and measures. Steps that share a lab share its resources."""

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        self._resolver = resolver_of(experiment)
        self.plan = plan
        """The plan."""
        self._made: dict[tuple[str, str], PlannedLab] = {}

    def setup(self, step: Step) -> Setup:
        """Return the lab and the measures of a step, as the experiment has them."""
        return self._resolver.setup(self.plan.cell(step))

    def topology(self, step: Step) -> Topology:
        """Return what is joined to what in the lab of a step."""
        return topology_of(self.setup(step).lab)

    def each(self, steps: Iterable[Step]) -> Iterator[Lab]:
        """Yield the labs of steps, each once."""
        seen: set[str] = set()
        for step in steps:
            cell = self.plan.cell(step)
            key = self._resolver.lab_key(cell)
            if key not in seen:
                seen.add(key)
                yield self._resolver.setup(cell).lab

    def beside_direction(self, step: Step) -> str:
        """Return a digest of what a step is without the direction of its measure."""
        cell = self.plan.cell(step)
        return beside_direction(
            self._resolver.lab_key(cell), self._resolver.setup(cell).measures[step.measure]
        )

    def of(self, step: Step) -> PlannedLab:
        """Return what must stand for a step.

        Raises:
            InputError: names or addresses clash, or no way joins the ends of its measure.
        """
        cell, resolver = self.plan.cell(step), self._resolver
        sends = isinstance(resolver.model(Section("measure", step.measure), cell), Packets)
        key = (resolver.lab_key(cell), resolver.measure_key(cell, step.measure) if sends else "")
        if key not in self._made:
            setup = resolver.setup(cell)
            planned = self._planned(setup.lab, setup.measures[step.measure])
            if len(self._made) >= MOST_LABS:
                self._made.clear()
            self._made[key] = planned
        return self._made[key]

    def _planned(self, lab: Lab, measure: Measure) -> PlannedLab:
        known, topology = self.plan.computers, topology_of(lab)
        placement = None
        if isinstance(measure, Packets):
            directions = ways(lab, topology, measure)
            placement = placed(lab, measure, directions, self._cpus_of_sender(lab, directions[0].source))
        resources = compose(
            lab,
            placement=placement,
            cpus=known.get(HERE, UNKNOWN).cpus,
            other_cpus={kernel: one.cpus for kernel, one in known.items() if kernel != HERE},
            orders={kernel: one.order(first_card(lab, kernel)) for kernel, one in known.items()},
        )
        return PlannedLab(placement, topology, resources)

    def _cpus_of_sender(self, lab: Lab, source: Endpoint) -> Sequence[int]:
        """Return the CPUs of the kernel on which frames are sent, those near the sending card first."""
        known = self.plan.computers
        if (sender := known.get(source.kernel)) and (order := sender.order(source.port)):
            return order
        own = known.get(HERE, UNKNOWN).cpus
        others = {name: one.cpus for name, one in known.items()}
        return range(cpus_of(lab, source.kernel, own, others) or own)


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


def commands(labs: Labs) -> Iterator[StepCommands]:
    """Yield, for each step in order, the way from the lab before to the lab of the step; then the teardown."""
    standing: tuple[Resource, ...] = ()
    for step in labs.plan.steps:
        wanted = labs.of(step).resources
        yield _transition(step, labs.plan.cell(step), standing, wanted)
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
