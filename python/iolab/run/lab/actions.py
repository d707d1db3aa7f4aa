"""Carry out one action of a resource through the agent of its kernel; say what a person would have typed."""

import errno
from dataclasses import dataclass, replace

from iolab.agent.client import COMMAND_TIMEOUT_MS, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import CommandResult, Json, SettingWritten
from iolab.errors import AgentError, IolabError, LabError
from iolab.lab.resources import (
    FOUND,
    Action,
    Command,
    CreateNetns,
    PinGuest,
    PinNapi,
    Reading,
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
    extract,
    filled,
    setting_command,
)
from iolab.record.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.guests.guests import Guests
from iolab.run.lab.interrupts import Interrupts
from iolab.run.lab.napi_threads import NapiThreads
from iolab.run.lab.processors import Processors
from iolab.run.lab.readback import REPLY_DEADLINE_S, Awaited, Reader


@dataclass(frozen=True, slots=True)
class ActionUnderWay:
    """An action under way."""

    resource: Resource
    """What it makes."""
    action: Action
    """What is done."""
    records: tuple[CommandRecord, ...]
    """As a person would type it; the last one is under way."""
    answer: Awaited
    """How it went."""
    in_place: bool
    """The undo of the first time is kept."""

    def finish(self) -> tuple[CommandRecord, ...]:
        """Wait for the end; return the records with how it went.

        Raises:
            LabError: it failed.
        """
        record = self.records[-1]
        what = f"making {self.resource.key} with `{_brief(record.argv)}`"
        try:
            if isinstance(self.action, StartGuest | PinGuest):
                done: tuple[CommandRecord, ...] = self.answer.result(GUEST_DEADLINE_S)
                return tuple(replace(one, machine=self.resource.machine) for one in done)
            reply = self.answer.result(REPLY_DEADLINE_S)
        except TimeoutError as error:
            raise LabError(f"{what}: not done after {GUEST_DEADLINE_S:.0f} s") from error
        except AgentError as error:
            absent_ok = isinstance(self.action, Write) and self.action.absent_ok
            if absent_ok and isinstance(error, Refused) and _is_absent(error):
                return self.records
            raise LabError(f"{what}: {error}") from error
        if isinstance(self.action, Write | SpreadInterrupts | TuneProcessors) and not self.in_place:
            record = replace(record, undo=_original(self.action, reply, self.resource.kernel))
        if not isinstance(self.action, Run | Tell | PinNapi):
            return self._ended(record, 0, 0)
        result = decode(CommandResult, reply, "command result", agent=self.resource.kernel)
        if isinstance(self.action, Run | Tell) and not result.succeeded:
            place = record.netns or self.resource.kernel or "the host"
            raise LabError(f"{what} in {place}: {result.complaint}")
        return self._ended(record, result.exit_status, result.end_ns - result.begin_ns)

    def _ended(
        self, record: CommandRecord, exit_status: int | None, duration_ns: int
    ) -> tuple[CommandRecord, ...]:
        before = (replace(one, exit_status=0) for one in self.records[:-1])
        return (*before, replace(record, exit_status=exit_status, duration_ns=duration_ns))


class Unsent:
    """The answer to an action that could not be sent."""

    def __init__(self, why: IolabError) -> None:
        self._why = why

    def result(self, deadline_s: float) -> Json:
        """Raise what kept it from being sent."""
        raise self._why


class ActionRunner:
    """Sends actions to the agents of their kernels."""

    def __init__(
        self,
        agents: Agents,
        guests: Guests,
        napi_threads: NapiThreads,
        interrupts: Interrupts,
        processors: Processors,
        reader: Reader,
    ) -> None:
        self._agents = agents
        self._guests = guests
        self._napi_threads = napi_threads
        self._interrupts = interrupts
        self._processors = processors
        self._reader = reader

    def begin(self, resource: Resource, action: Action, *, in_place: bool) -> ActionUnderWay:
        """Send an action; with `in_place` the undo of the first time is kept.

        What keeps it from being sent is told when it is finished, after those that were sent before it.
        """
        try:
            records, answer = self._send(resource, action, in_place)
        except (LabError, AgentError) as error:
            records, answer = (_record(resource, None, (type(action).__name__,), None),), Unsent(error)
        return ActionUnderWay(resource, action, records, answer, in_place)

    def _send(
        self, resource: Resource, action: Action, in_place: bool
    ) -> tuple[tuple[CommandRecord, ...], Awaited]:
        match action:
            case StartGuest(guest):
                record = _record(resource, None, (guest.engine, guest.name), None)
                return (record,), self._guests.start(guest, resource.kernel)
            case PinGuest(guest):
                return (_record(resource, None, ("taskset", guest), None),), self._guests.pin(action)
            case PinNapi():
                records, pending = self._napi_threads.pin(action, resource.kernel)
                return tuple(_placed(one, resource) for one in records), pending
            case SpreadInterrupts() | TuneProcessors():
                record, writes = self._write_found(action, resource.kernel)
                return (_placed(record, resource),), writes
            case CreateNetns(name):
                record = _record(resource, None, ("ip", "netns", "add", name), ("ip", "netns", "del", name))
                up = _record(resource, name, ("ip", "link", "set", "dev", "lo", "up"), None)
                return (record, up), self._begin(resource, "netns.create", {"name": name})
            case Write(path, netns, value):
                record = _record(resource, netns, setting_command(path, netns, value).argv, None)
                params = {"path": path, "netns": netns, "value": value}
                return (record,), self._begin(resource, "setting.write", params)
            case Tell(path, word, find):
                do = Command(("sh", "-c", f"echo {word} > {path}"))
                word = word if find is None else word.replace(FOUND, self._found(resource, find, do))
                record = _record(resource, None, ("sh", "-c", f"echo {word} > {path}"), None)
                told: dict[str, Json] = {"argv": ["tee", path], "stdin": word}
                return (record,), self._begin(resource, "command.run", told)
            case StartDevice():
                return self._start_device(resource, action)
            case Run(do):
                undo = None if in_place else self._undo_command(resource, action)
                do = do if action.find is None else filled(do, self._found(resource, action.find, do), FOUND)
                record = _record(resource, do.netns, do.argv, undo.argv if undo else None)
                return (record,), self._begin(resource, "command.run", _run_params(resource, do, undo))

    def _write_found(
        self, action: SpreadInterrupts | TuneProcessors, kernel: str
    ) -> tuple[CommandRecord, Awaited]:
        """Begin to write settings whose files are found first."""
        if isinstance(action, SpreadInterrupts):
            return self._interrupts.spread(action, kernel)
        return self._processors.tune(action, kernel)

    def _start_device(
        self, resource: Resource, action: StartDevice
    ) -> tuple[tuple[CommandRecord, ...], Awaited]:
        params: dict[str, Json] = {
            "id": action.device,
            "netns": action.netns,
            "interface": action.interface,
            "rule": dict(action.rule),
            "action": {"kind": "forward", "interface": action.towards},
        }
        thread = {"cpu": action.cpu, "priority": action.priority}
        params |= {name: value for name, value in thread.items() if value is not None}
        record = _record(resource, action.netns, device_command(action), device_undo(action))
        return (record,), self._begin(resource, "device.start", params)

    def _begin(self, resource: Resource, method: str, params: dict[str, Json]) -> Awaited:
        return self._agents.of(resource.kernel).begin(method, params)

    def _undo_command(self, resource: Resource, action: Run) -> Command | None:
        if action.undo is None or action.original is None:
            return action.undo
        return filled(action.undo, self._found(resource, action.original, action.do))

    def _found(self, resource: Resource, reading: Reading, before: Command) -> str:
        """Return what must be known before a command is run."""
        place = (resource.kernel, reading.source)
        text = self._reader.read([place])[place]
        value = None if text is None else extract(reading, text)
        if value is None:
            raise LabError(f"reading the original value before `{' '.join(before.argv)}`: nothing was found")
        return value


def _is_absent(error: Refused) -> bool:
    return isinstance(error.data, dict) and error.data.get("errno") == errno.ENOENT


def _brief(argv: tuple[str, ...]) -> str:
    """Return a command for a message, without the texts of scripts; the run's folder has it whole."""
    return " ".join(word if len(word) <= LONGEST_WORD else "..." for word in argv)


def _record(
    resource: Resource, netns: str | None, argv: tuple[str, ...], undo: tuple[str, ...] | None
) -> CommandRecord:
    return CommandRecord(
        machine=resource.machine,
        kernel=resource.kernel,
        netns=netns,
        argv=argv,
        undo=undo,
        exit_status=None,
        duration_ns=0,
    )


def _original(action: Write | SpreadInterrupts | TuneProcessors, reply: Json, kernel: str) -> tuple[str, ...]:
    """Return the command that writes again what was there before, which the agent has journalled."""
    if isinstance(action, SpreadInterrupts | TuneProcessors):
        return tuple(reply)
    written = decode(SettingWritten, reply, "setting.write result", agent=kernel)
    return setting_command(action.path, action.netns, written.original).argv


def _placed(record: CommandRecord, resource: Resource) -> CommandRecord:
    return replace(record, machine=resource.machine, kernel=resource.kernel)


def _run_params(resource: Resource, do: Command, undo: Command | None) -> dict[str, Json]:
    journalled: Json = (
        None if undo is None else {"kind": "command", "argv": list(undo.argv), "netns": undo.netns}
    )
    return {
        "argv": list(do.argv),
        "netns": do.netns,
        "timeout_ms": COMMAND_TIMEOUT_MS,
        "undo": journalled,
        "undo_key": None if undo is None else resource.key,
    }


LONGEST_WORD = 80
"""Of a command in messages [characters]."""
GUEST_DEADLINE_S = 600.0
"""Bounds what starting a guest bounds itself, nested emulation included."""
