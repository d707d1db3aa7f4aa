"""The commands of a plan, step by step: from the lab that stands to the one that is wanted, and the last teardown.

Composed lazily, one lab at a time. What measures is decided in trial/ and is not shown here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import join

from iolab.experiment.experiment import Experiment
from iolab.lab.cards.tuning import cpu_ranges
from iolab.lab.difference import difference
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.guests.switch import switch_argv, switch_id, switched
from iolab.lab.guests.xen import xl_config
from iolab.lab.resources import (
    ORIGINAL,
    Action,
    Command,
    CreateNetns,
    PinGuest,
    PinNapi,
    Resource,
    Run,
    SpreadInterrupts,
    StartDevice,
    StartGuest,
    Tell,
    TuneProcessors,
    Write,
    device_command,
    device_undo,
    guests,
    scheduled,
    setting_command,
)
from iolab.plan.labs import Labs
from iolab.plan.types import Plan, Step


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    done = [one for resource in change.do for one in _doing(resource, keep=resource.key in change.in_place)]
    return StepCommands(step, cell, tuple(undone), tuple(done))


def _doing(resource: Resource, *, keep: bool) -> Iterator[PlannedCommand]:
    for action in resource.actions:
        for do, end in _switches(action):
            yield _planned(resource, do, end)
        for command in _do(action):
            undo = None if keep or command != _do(action)[0] else _undo(action)
            yield _planned(resource, command, undo)


def _undoing(resource: Resource) -> Iterator[PlannedCommand]:
    for action in reversed(resource.actions):
        undo = _undo(action)
        if undo is not None:
            yield _planned(resource, undo, None)
        for _, end in _switches(action):
            yield _planned(resource, end, None)


def _switches(action: Action) -> Iterator[tuple[Command, Command]]:
    """Return what starts the switches of a guest, before it, and what ends each, after it."""
    if not isinstance(action, StartGuest):
        return
    for nic, backend in switched(action.guest):
        do = Command(switch_argv(nic, backend, "FOLDER", "CPUS"), backend.netns)
        yield do, Command(("iolab-agent", "process.stop", switch_id(action.guest.name, nic.name)))


def _planned(resource: Resource, command: Command, undo: Command | None) -> PlannedCommand:
    return PlannedCommand(resource.key, resource.machine, resource.kernel, command.netns, command.argv, undo)


def _do(action: Action) -> list[Command]:
    match action:
        case CreateNetns(name):
            return [
                Command(("ip", "netns", "add", name)),
                Command(("ip", "link", "set", "dev", "lo", "up"), name),
            ]
        case Write(path, netns, value):
            return [setting_command(path, netns, value)]
        case Run(do):
            return [do]
        case Tell(path, word):
            return [setting_command(path, None, word)]
        case PinNapi(interface, netns, cpu, priority):
            path = f"/sys/class/net/{interface}/threaded"
            thread = f"PID-OF-napi/{interface}"
            return [
                setting_command(path, netns, "1"),
                Command(("taskset", "-c", "-p", str(cpu), thread)),
                Command(scheduled(priority, thread)),
            ]
        case StartDevice(_, netns):
            return [Command(device_command(action), netns)]
        case StartGuest(guest):
            return [_start(guest)]
        case SpreadInterrupts() | TuneProcessors():
            return [_found_when_done(action)]
        case PinGuest(guest, vcpus, carriers):
            return list(_pin(guest, vcpus, carriers))


def _found_when_done(action: SpreadInterrupts | TuneProcessors, value: str | None = None) -> Command:
    """Return the command that writes settings whose files are found when it is done."""
    if isinstance(action, SpreadInterrupts):
        path, own = f"/proc/irq/NUMBERS-OF-{action.interface}/smp_affinity_list", cpu_ranges(action.cpus)
    else:
        path, own = f"/sys/devices/system/cpu/FILES-OF-{action.what.upper()}", action.value
    return setting_command(path, None, own if value is None else value)


def _undo(action: Action) -> Command | None:
    match action:
        case CreateNetns(name):
            return Command(("ip", "netns", "del", name))
        case Write(path, netns):
            return setting_command(path, netns, ORIGINAL)
        case Run(undo=undo):
            return undo
        case SpreadInterrupts() | TuneProcessors():
            return _found_when_done(action, ORIGINAL)
        case Tell() | PinNapi() | PinGuest():
            return None
        case StartGuest(guest) if guest.engine == "xen":
            return Command(("xl", "destroy", guest.name))
        case StartGuest(guest):
            return Command(("iolab-agent", "process.stop", f"guest:{guest.name}"))
        case StartDevice(_, netns):
            return Command(device_undo(action), netns)


def _start(guest: Guest) -> Command:
    """Return the command that starts a guest; words in capitals stand for what is found when it starts."""
    xen = "IMAGE/xen" if guest.image == "xen" else None
    boot = Boot("IMAGE/vmlinux", "IMAGE/initrd", "IMAGE/root.squashfs", "IMAGE/modules.squashfs", xen)
    if guest.engine == "xen":
        return Command(("xl", "create", "/dev/null", *xl_config(guest, "FOLDER", boot).splitlines()))
    argv = qemu_argv(guest, Place(boot=boot, folder="FOLDER", accel="kvm" if guest.accel == "kvm" else "tcg"))
    if guest.accel == "auto":
        at = argv.index("-accel") + 1
        argv = (*argv[:at], "ACCEL", *argv[at + 1 :])
    return Command(argv)


def _pin(guest: str, vcpus: tuple[int, ...], carriers: tuple[int, ...]) -> Iterator[Command]:
    for number, cpu in enumerate(vcpus):
        yield Command(("taskset", "-c", "-p", str(cpu), f"PID-OF-{guest}/vcpu{number}"))
    if carriers:
        allowed = ",".join(str(cpu) for cpu in carriers)
        yield Command(("taskset", "-c", "-p", allowed, f"PID-OF-{guest}/others"))


def _heading(step_commands: StepCommands) -> str:
    step = step_commands.step
    if step is None:
        return "# end: everything is taken back"
    levels = ", ".join(f"{name}={label}" for name, label in step_commands.cell.items())
    same = "" if step_commands.undone or step_commands.done else "; the lab stands already"
    return f"# block {step.block}, {step.measure}{': ' if levels else ''}{levels}{same}"
