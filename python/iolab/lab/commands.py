"""Convert an action to shell commands with their undo, and to the agent's request. Pure.

Plans, requests and commands.jsonl use the same commands; they differ only in the values that are already known.
"""

import json
from collections.abc import Mapping
from dataclasses import field

from iolab.experiment.model.impairments import Stage
from iolab.frozen import frozen
from iolab.lab.actions import (
    FOUND,
    ORIGINAL,
    Action,
    Command,
    CreateNetns,
    ImpairWire,
    PinGuest,
    PinNapi,
    Run,
    SpreadInterrupts,
    StartDevice,
    StartGuest,
    StartWire,
    Tell,
    TuneProcessors,
    TypedCommand,
    Write,
    filled,
)
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.start import GuestStart, planned_start, start_commands
from iolab.lab.hosts.tuning import cpu_ranges, processor_word
from iolab.lab.links.pacer import Pacing
from iolab.lab.resources import Resource
from iolab.messages.commands import (
    CommandNote,
    GuestThread,
    NapiThreads,
    NoNapiThread,
    OtherThreads,
    ReadsSecret,
    VcpuThread,
)

EVERY_CPU = "0-1023"
"""CPU range that includes all CPUs; the kernel ignores CPUs that do not exist."""
ANYWHERE = "all"
"""Any CPU, in the syntax of xl."""


@frozen(kw_only=True)
class Found:
    """Values that are read when an action runs; placeholders in capitals or braces stand for unknown values."""

    value: str = FOUND
    """Value that `Run.find` or `Tell.find` read."""
    original: str = ORIGINAL
    """Original value before the change."""
    paths: tuple[str, ...] | None = None
    """Files of interrupts or processors."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Original value of each file."""
    threads: tuple[str, ...] | None = None
    """Process IDs of an interface's threads."""
    guest: Guest | None = None
    """The guest whose threads are pinned."""
    vcpus: Mapping[int, str] | None = None
    """Thread ID of each virtual CPU, by the CPU's index."""
    carriers: Mapping[str, str] | None = None
    """Name of each of the guest's other threads, by thread ID."""
    start: GuestStart | None = None
    """Start parameters of a guest."""


PLANNED = Found()
"""Values of a plan: nothing has been read yet."""


def commands_of(action: Action, found: Found = PLANNED) -> tuple[TypedCommand, ...]:
    """Return the commands of an action, in order, each with its undo."""
    match action:
        case CreateNetns(name):
            made = TypedCommand(Command(("ip", "netns", "add", name)), Command(("ip", "netns", "del", name)))
            return made, TypedCommand(Command(("ip", "link", "set", "dev", "lo", "up"), name))
        case Write(path, netns, value):
            undo = setting_command(path, netns, found.original)
            return (TypedCommand(setting_command(path, netns, value), undo),)
        case Run(do, undo):
            back = None if undo is None else filled(undo, found.original)
            notes = () if action.secret is None else (ReadsSecret(place=action.secret.place),)
            return (TypedCommand(filled(do, found.value, FOUND), back, notes),)
        case Tell(path, word):
            return (TypedCommand(_echo(word.replace(FOUND, found.value), path)),)
        case PinNapi():
            return _napi_commands(action, found)
        case StartDevice() | StartWire() | ImpairWire():
            return (_of_agent(action),)
        case StartGuest(guest, nested):
            return start_commands(guest, found.start or planned_start(guest, nested=nested))
        case PinGuest():
            return _pin_commands(action, found)
        case SpreadInterrupts() | TuneProcessors():
            return (_file_commands(action, found),)


def _napi_commands(action: PinNapi, found: Found) -> tuple[TypedCommand, ...]:
    """Return the commands that enable threaded NAPI on an interface and pin the threads, if there are any."""
    interface = action.interface
    threads = found.threads
    if threads is None:
        threads = tuple(f"PID-OF-napi/{interface}-{number}" for number in range(action.queues))
    listed = NapiThreads(threads=threads, interface=interface)
    notes = (listed if threads else NoNapiThread(interface=interface),)
    made = TypedCommand(setting_command(threads_path(interface), action.netns, "1"), notes=notes)
    scheduling = (TypedCommand(Command(scheduled(action.priority, one)), notes=notes) for one in threads)
    placing = (
        TypedCommand(Command(("taskset", "-c", "-p", str(action.cpu), one)), notes=notes) for one in threads
    )
    return (made, *scheduling, *placing)


def _pin_commands(action: PinGuest, found: Found) -> tuple[TypedCommand, ...]:
    """Return the commands that pin a guest's threads; for a Xen domain, only its virtual CPUs."""
    name, guest = action.guest, found.guest
    if guest is not None and guest.engine == "xen":
        wanted = [str(cpu) for cpu in action.vcpus or guest.own_cpus] or [ANYWHERE] * guest.cpus
        pins = (("xl", "vcpu-pin", name, str(number), cpu) for number, cpu in enumerate(wanted))
        return tuple(TypedCommand(Command(argv)) for argv in pins)
    vcpus, carriers = found.vcpus, found.carriers
    if vcpus is None:
        count = len(action.vcpus) if guest is None else guest.cpus + guest.domains_cpus
        vcpus = {number: f"PID-OF-{name}/vcpu{number}" for number in range(count)}
    others = f"PID-OF-{name}/others"
    notes: dict[str, CommandNote] = (
        {others: OtherThreads(threads=others, guest=name)}
        if carriers is None
        else {one: GuestThread(thread=one, called=called, guest=name) for one, called in carriers.items()}
    )
    places = {
        thread: str(action.vcpus[number % len(action.vcpus)]) if action.vcpus else EVERY_CPU
        for number, thread in vcpus.items()
    }
    places |= dict.fromkeys(notes, ",".join(map(str, action.carriers)) or EVERY_CPU)
    notes |= {
        thread: VcpuThread(thread=thread, number=number, guest=name) for number, thread in vcpus.items()
    }
    return tuple(
        TypedCommand(Command(("taskset", "-c", "-p", cpus, thread)), notes=(notes[thread],))
        for thread, cpus in places.items()
    )


def _file_commands(action: SpreadInterrupts | TuneProcessors, found: Found) -> TypedCommand:
    """Return the command that writes the same word to several files."""
    words = file_words(action, found.paths or _planned_paths(action))
    back = {path: found.originals.get(path, found.original) for path in words}
    return TypedCommand(_script(words), _script(back))


def file_words(action: SpreadInterrupts | TuneProcessors, paths: tuple[str, ...]) -> dict[str, str]:
    """Return the word to write to each file."""
    if isinstance(action, SpreadInterrupts):
        return dict.fromkeys(paths, cpu_ranges(action.cpus))
    return {path: processor_word(action, path) for path in paths}


def _planned_paths(action: SpreadInterrupts | TuneProcessors) -> tuple[str, ...]:
    if isinstance(action, SpreadInterrupts):
        return (f"/proc/irq/NUMBERS-OF-{action.interface}/smp_affinity_list",)
    return (f"/sys/devices/system/cpu/FILES-OF-{action.what.upper()}",)


def _script(words: Mapping[str, str]) -> Command:
    return Command(("sh", "-c", "; ".join(f"echo {word} > {path}" for path, word in words.items())))


def setting_command(path: str, netns: str | None, value: str) -> Command:
    """Return the shell command equivalent to writing a kernel setting; the agent writes the file directly."""
    if not path.startswith("/proc/sys/"):
        return _echo(value, path, netns)
    name = path.removeprefix("/proc/sys/").translate(str.maketrans("/.", "./"))
    return Command(("sysctl", "-w", f"{name}={value}"), netns)


def _echo(value: str, path: str, netns: str | None = None) -> Command:
    return Command(("sh", "-c", f"echo {value} > {path}"), netns)


def threads_path(interface: str) -> str:
    """Return the path of the setting that enables threaded NAPI on an interface."""
    return f"/sys/class/net/{interface}/threaded"


def scheduled(priority: int | None, pid: str) -> tuple[str, ...]:
    """Return the command that sets a thread's SCHED_FIFO priority, or normal scheduling."""
    return (
        ("chrt", "--other", "-p", "0", pid)
        if priority is None
        else ("chrt", "--fifo", "-p", str(priority), pid)
    )


def _device(action: StartDevice) -> tuple[str, ...]:
    """Return the request for a reference device, which is a part of the agent, as a command."""
    given = (
        ("impairments", json.dumps(action.impairments.stages(), separators=(",", ":"))),
        ("seed", action.impairments.seed),
        ("cpu", action.cpu),
        ("priority", action.priority),
    )
    words = [f"{name}={value}" for name, value in given if value is not None]
    return ("iolab-agent", "device.start", action.interface, action.towards, *words)


def _end(action: StartDevice) -> tuple[str, ...]:
    return ("iolab-agent", "device.stop", action.interface)


def _of_agent(action: StartDevice | StartWire | ImpairWire) -> TypedCommand:
    """Return the command of a part of the agent, as if the part were a separate program."""
    match action:
        case StartDevice(_, netns):
            return TypedCommand(Command(_device(action), netns), Command(_end(action), netns))
        case StartWire(wire):
            return TypedCommand(_wire("start", wire, _wire_ends(action)), _wire("stop", wire))
        case ImpairWire(wire):
            return TypedCommand(_wire("change", wire, _wire_ways(action)))


def _wire(method: str, wire: str, params: Mapping[str, object] | None = None) -> Command:
    words = (f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in (params or {}).items())
    return Command(("iolab-agent", f"wire.{method}", wire, *words))


def _wire_ends(action: StartWire) -> dict[str, object]:
    ends = [{"netns": netns, "interface": interface} for netns, interface in action.ends]
    thread: dict[str, object] = {} if action.priority is None else {"priority": action.priority}
    if action.veth_frame_bytes is not None:
        thread["veth_frame_bytes"] = action.veth_frame_bytes
    if action.apart:
        thread["apart"] = True
    if (port := action.on_port) is not None:
        vlan = {} if port.vlan is None else {"vlan": port.vlan}
        thread["on_port"] = {"interface": port.interface, **vlan, "networks": list(port.networks)}
    return {"ends": ends, "super_frames": action.super_frames, **thread}


def _wire_ways(action: ImpairWire) -> dict[str, object]:
    ways = zip(action.ways, action.pacing, action.memory_bytes, strict=True)
    return {
        "ways": [
            {
                "impairments": [*_stages(pacing), *done.stages()],
                "seed": done.seed,
                "memory_bytes": memory_bytes,
            }
            for done, pacing, memory_bytes in ways
        ]
    }


def _stages(pacing: Pacing | None) -> tuple[Stage, ...]:
    return () if pacing is None else (pacing.stage(),)


# Requests -------------------------------------------------------------------------------------------------


@frozen
class Request:
    """A request to an agent."""

    method: str
    """Method name in contract/agent-v1.md."""
    params: Mapping[str, object]
    """Parameters of the method."""


Asked = CreateNetns | Write | Run | Tell | StartDevice | StartWire | ImpairWire
"""An action that consists of one agent request."""


def request_of(
    resource: Resource,
    action: Asked,
    command: TypedCommand,
    found: Found,
) -> Request:
    """Return the request that performs an action; `command` is the first of its commands."""
    match action:
        case CreateNetns(name):
            return Request("netns.create", {"name": name})
        case Write(path, netns, value):
            return Request("setting.write", {"path": path, "netns": netns, "value": value})
        case Tell(path, word):
            return Request("command.run", {"argv": ["tee", path], "stdin": word.replace(FOUND, found.value)})
        case StartDevice():
            return Request("device.start", _device_params(action))
        case StartWire(wire):
            return Request("wire.start", {"id": wire} | _wire_ends(action))
        case ImpairWire(wire):
            return Request("wire.change", {"id": wire} | _wire_ways(action))
        case Run():
            back = command.undo
            journalled = (
                None if back is None else {"kind": "command", "argv": list(back.argv), "netns": back.netns}
            )
            params = {"argv": list(command.do.argv), "netns": command.do.netns, "undo": journalled}
            return Request("command.run", params | {"undo_key": None if back is None else resource.key})


def _device_params(action: StartDevice) -> dict[str, object]:
    params: dict[str, object] = {
        "id": action.device,
        "netns": action.netns,
        "interface": action.interface,
        "impairments": list(action.impairments.stages()),
        "seed": action.impairments.seed,
        "action": {"kind": "forward", "interface": action.towards},
    }
    thread = {"cpu": action.cpu, "priority": action.priority}
    return params | {name: value for name, value in thread.items() if value is not None}
