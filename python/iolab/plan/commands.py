"""Compute the labs of a plan's steps, and the commands for each change from one lab to the next, up to the final
teardown.

Resources are composed only from decisions made during planning, lazily, one lab at a time. `iolab plan` shows the
resources, and a run creates them. The package `trial` decides on the measuring programs, which are not shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from shlex import join

from iolab.errors import InputError
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
from iolab.lab.leases import Lease, leases_of, tag_of, tagged
from iolab.lab.packets.placement import Placement, placed, ways
from iolab.lab.resources import Resource, difference, guests, waves
from iolab.lab.topology import Endpoint, Topology, topology_of
from iolab.locale import Phrase, Text
from iolab.plan.types import Plan, Step
from iolab.registry.registry import measure_kinds

MOST_LABS = 50
"""Maximum number of labs whose resources are cached; the cache is cleared when it is full."""
UNKNOWN = Computer(cpus=2)
"""Default description of the local host's CPUs, if the plan has none."""


@frozen
class PlannedLab:
    """Resources that a step requires."""

    placement: Placement | None
    """Machines and CPUs of the measure's parts; None: the measure sends no frames of iolab."""
    topology: Topology
    """Connections between the ports."""
    resources: tuple[Resource, ...]
    """Resources, each after its requirements."""


class Labs:
    """A plan together with the labs and measures of its steps; steps with the same lab share its resources."""

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        self._resolver = resolver_of(experiment)
        self.plan = plan
        """The plan."""
        self._made: dict[tuple[str, str], PlannedLab] = {}
        self._tag = tag_of(plan.digest)

    def setup(self, step: Step) -> Setup:
        """Return the lab and the measures of a step, as resolved from the experiment."""
        return self._tagged(self._resolver.setup(self.plan.cell(step)))

    def topology(self, step: Step) -> Topology:
        """Return the topology of a step's lab."""
        return topology_of(self.setup(step).lab)

    def each(self, steps: Iterable[Step]) -> Iterator[Lab]:
        """Yield each distinct lab of the plan's steps once."""
        seen: set[str] = set()
        for step in steps:
            cell = self.plan.cell(step)
            key = self._resolver.lab_key(cell)
            if key not in seen:
                seen.add(key)
                yield self._tagged(self._resolver.setup(cell)).lab

    def _tagged(self, setup: Setup) -> Setup:
        return Setup(tagged(setup.lab, self._tag), setup.measures)

    def leases(self) -> dict[str, tuple[str, ...]]:
        """Return the resources that the labs of all steps need exclusively, by kernel, sorted."""
        found: set[Lease] = set()
        seen: set[tuple[str, str]] = set()
        for step in self.plan.steps:
            cell = self.plan.cell(step)
            key = (self._resolver.lab_key(cell), self._resolver.measure_key(cell, step.measure))
            if key in seen:
                continue
            seen.add(key)
            with suppress(InputError):  # the trial reports the error
                planned, setup = self.of(step), self.setup(step)
                measure, topology = setup.measures[step.measure], planned.topology
                row = measure_kinds()[measure.kind]
                alone = product(row.kernels(measure, topology) or (HERE,), row.alone)
                found |= leases_of(setup.lab, topology, planned.resources, planned.placement, alone)
        by_kernel: dict[str, list[str]] = {}
        for kernel, resource in sorted(found):
            by_kernel.setdefault(kernel, []).append(resource)
        return {kernel: tuple(resources) for kernel, resources in by_kernel.items()}

    def beside_direction(self, step: Step) -> str:
        """Return a digest of a step without the direction of its measure."""
        cell = self.plan.cell(step)
        return beside_direction(
            self._resolver.lab_key(cell), self._resolver.setup(cell).measures[step.measure]
        )

    def of(self, step: Step) -> PlannedLab:
        """Return the resources that a step requires.

        Raises:
            InputError: names or addresses conflict, or no path joins the ends of the measure.
        """
        cell, resolver = self.plan.cell(step), self._resolver
        sends = isinstance(resolver.model(Section("measure", step.measure), cell), Packets)
        key = (resolver.lab_key(cell), resolver.measure_key(cell, step.measure) if sends else "")
        if key not in self._made:
            setup = self._tagged(resolver.setup(cell))
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
        """Return the CPUs of the kernel that sends frames, those near the sending NIC first."""
        known = self.plan.computers
        if (sender := known.get(source.kernel)) and (order := sender.order(source.port)):
            return order
        own = known.get(HERE, UNKNOWN).cpus
        others = {name: one.cpus for name, one in known.items()}
        return range(cpus_of(lab, source.kernel, own, others) or own)


@frozen
class PlannedCommand:
    """A command as a user would type it."""

    key: str
    """Key of the resource to which the command belongs."""
    machine: str
    """Machine that the command configures."""
    kernel: str
    """Machine on whose kernel the command runs; empty: the local host."""
    netns: str | None
    """Network namespace of the command; None: the kernel's initial namespace."""
    argv: tuple[str, ...]
    """Program and arguments; "{original}" stands for the previous value."""
    undo: Command | None
    """Undo command; None if there is nothing to undo, or if this command is an undo."""


@frozen
class StepCommands:
    """Commands before a step, or after the last step."""

    step: Step | None
    """The step; None: the final teardown."""
    cell: Mapping[str, str]
    """Level label by factor."""
    undone: tuple[PlannedCommand, ...]
    """Undo commands for the previous lab, in order."""
    done: tuple[PlannedCommand, ...]
    """Commands that create or change resources, in order."""


def commands(labs: Labs) -> Iterator[StepCommands]:
    """Yield, for each step in order, the commands from the previous lab to the step's lab; then the teardown."""
    standing: tuple[Resource, ...] = ()
    for step in labs.plan.steps:
        wanted = labs.of(step).resources
        yield _transition(step, labs.plan.cell(step), standing, wanted)
        standing = wanted
    yield _transition(None, {}, standing, ())


def render(step_commands: StepCommands) -> list[Text]:
    """Return a step's commands as lines for a root shell, each with its undo as a comment.

    A line for the shell of a remote machine starts with that machine's prompt: "dut# ...".
    """
    lines: list[Text] = [_heading(step_commands)]
    for one in (*step_commands.undone, *step_commands.done):
        line = prompted(Command(one.argv, one.netns), one.kernel)
        undo = one.undo and Phrase("plan.command-with-undo", command=line, undo=typed(one.undo))
        lines.append(undo or line)
    return lines


def prompted(command: Command, kernel: str) -> str:
    """Return a command as typed text, after the prompt of the machine on which it runs."""
    return f"{kernel}# {typed(command)}" if kernel else typed(command)


def typed(command: Command) -> str:
    """Return a command as typed text, quoted for a shell."""
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
    """Return the commands of an action, with placeholders for the values that are looked up at run time."""
    guest = known.get(action.guest) if isinstance(action, PinGuest) else None
    return commands_of(action, Found(guest=guest))


def _planned(resource: Resource, command: Command, undo: Command | None) -> PlannedCommand:
    return PlannedCommand(resource.key, resource.machine, resource.kernel, command.netns, command.argv, undo)


def _heading(step_commands: StepCommands) -> Text:
    step = step_commands.step
    if step is None:
        return Phrase("plan.commands-of-end")
    levels = ", ".join(f"{name}={label}" for name, label in step_commands.cell.items())
    trial = f"{step.measure}: {levels}" if levels else step.measure
    if step_commands.undone or step_commands.done:
        return Phrase("plan.commands-of-step", block=step.block, trial=trial)
    return Phrase("plan.step-in-same-lab", block=step.block, trial=trial)
