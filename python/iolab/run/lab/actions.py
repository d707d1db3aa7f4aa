"""Carry out one action of a resource through the agent of its kernel; say what a person would have typed."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from iolab.agent.answers import CommandResult
from iolab.agent.client import COMMAND_TIMEOUT_MS, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import Json, SettingOriginal
from iolab.errors import AgentError, IolabError, LabError
from iolab.lab.actions import (
    Action,
    Command,
    CreateNetns,
    ImpairWire,
    PinGuest,
    PinNapi,
    Reading,
    Run,
    SpreadInterrupts,
    StartDevice,
    StartGuest,
    StartWire,
    Tell,
    TuneProcessors,
    TypedCommand,
    Write,
    extract,
)
from iolab.lab.commands import PLANNED, Asked, Found, commands_of, request_of
from iolab.lab.resources import Resource
from iolab.locale import Phrase
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.guests.guests import Guests
from iolab.run.guests.running_guest import record_of
from iolab.run.lab.readback import REPLY_DEADLINE_S, Awaited, Reader
from iolab.run.lab.tuning import Interrupts, NapiThreads, Processors


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
        what = Phrase("run.making-resource", resource=self.resource.key, command=_brief(record.argv))
        try:
            if isinstance(self.action, StartGuest | PinGuest):
                done: tuple[CommandRecord, ...] = self.answer.result(GUEST_DEADLINE_S)
                return tuple(replace(one, machine=self.resource.machine) for one in done)
            reply = self.answer.result(REPLY_DEADLINE_S)
        except TimeoutError as error:
            raise LabError(
                Phrase("run.not-done-in-time", what=what, seconds=f"{GUEST_DEADLINE_S:.0f}")
            ) from error
        except AgentError as error:
            absent_ok = isinstance(self.action, Write) and self.action.absent_ok
            if absent_ok and isinstance(error, Refused) and _is_absent(error):
                return self.records
            raise LabError(Phrase("errors.failed-with-reason", what=what, reason=error)) from error
        if not self.in_place:
            record = self._with_original(record, reply)
        if not isinstance(self.action, Run | Tell | PinNapi):
            return self._ended(record, 0, 0)
        result = decode(
            CommandResult, reply, Phrase("agent.result-of", method="command"), agent=self.resource.kernel
        )
        if isinstance(self.action, Run | Tell) and not result.succeeded:
            place = record.netns or self.resource.kernel or Phrase("run.the-host")
            raise LabError(Phrase("run.failed-in-place", what=what, place=place, reason=result.complaint))
        return self._ended(record, result.exit_status, result.end_ns - result.begin_ns)

    def _with_original(self, record: CommandRecord, reply: Any) -> CommandRecord:
        """Return the record with what was there before in its undo, which the agent has journalled and answers."""
        match self.action:
            case Write():
                written = decode(
                    SettingOriginal,
                    reply,
                    Phrase("agent.result-of", method="setting.write"),
                    agent=self.resource.kernel,
                )
                found = Found(original=written.original)
            case SpreadInterrupts() | TuneProcessors():
                found = Found(paths=tuple(reply), originals=reply)
            case _:
                return record
        done = commands_of(self.action, found)[0]
        known = record_of(done, machine=record.machine, kernel=record.kernel)
        return replace(record, undo=known.undo, undo_netns=known.undo_netns)

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

        What keeps it from being sent is reported when it is finished, after those that were sent before it.
        """
        try:
            records, answer = self._send(resource, action, in_place)
        except (LabError, AgentError) as error:
            records, answer = (
                _records(resource, TypedCommand(Command((type(action).__name__,)))),
                Unsent(error),
            )
        return ActionUnderWay(resource, action, records, answer, in_place)

    def _send(
        self, resource: Resource, action: Action, in_place: bool
    ) -> tuple[tuple[CommandRecord, ...], Awaited]:
        match action:
            case StartGuest(guest):
                begun = TypedCommand(Command((guest.engine, guest.name)))
                return _records(resource, begun), self._guests.start(guest, resource.kernel)
            case PinGuest(guest):
                return _records(resource, TypedCommand(Command(("taskset", guest)))), self._guests.pin(action)
            case PinNapi():
                commands, pending = self._napi_threads.pin(action, resource.kernel)
                return _records(resource, *commands), pending
            case SpreadInterrupts():
                commands, writes = self._interrupts.spread(action, resource.kernel)
                return _records(resource, *_kept(commands)), writes
            case TuneProcessors():
                commands, writes = self._processors.tune(action, resource.kernel)
                return _records(resource, *_kept(commands)), writes
            case CreateNetns() | Write() | Run() | Tell() | StartDevice() | StartWire() | ImpairWire():
                return self._ask(resource, action, in_place)

    def _ask(
        self, resource: Resource, action: Asked, in_place: bool
    ) -> tuple[tuple[CommandRecord, ...], Awaited]:
        """Send an action that is one request of the agent."""
        found = self._look(resource, action, in_place)
        commands = commands_of(action, found)
        if in_place or isinstance(action, Write):
            commands = _kept(commands)  # a setting's original comes with the answer
        request = request_of(resource, action, commands[0], found)
        params: dict[str, Json] = dict(request.params)
        if request.method == "command.run":
            params["timeout_ms"] = COMMAND_TIMEOUT_MS
        pending = self._agents.of(resource.kernel).begin(request.method, params)
        return _records(resource, *commands), pending

    def _look(self, resource: Resource, action: Asked, in_place: bool) -> Found:
        """Read what must be known before an action."""
        found = PLANNED
        if isinstance(action, Run | Tell) and action.find is not None:
            found = replace(found, value=self._found(resource, action.find, commands_of(action)[0].do))
        if isinstance(action, Run) and action.undo and action.original and not in_place:
            found = replace(found, original=self._found(resource, action.original, action.do))
        return found

    def _found(self, resource: Resource, reading: Reading, before: Command) -> str:
        """Return what must be known before a command is run."""
        place = (resource.kernel, reading.source)
        text = self._reader.read([place])[place]
        value = None if text is None else extract(reading, text)
        if value is None:
            raise LabError(Phrase("run.no-original-value", command=" ".join(before.argv)))
        return value


def _is_absent(error: Refused) -> bool:
    return isinstance(error.data, dict) and error.data.get("errno") == errno.ENOENT


def _brief(argv: tuple[str, ...]) -> str:
    """Return a command for a message, without the texts of scripts; the run's folder has it whole."""
    return " ".join(word if len(word) <= LONGEST_WORD else "..." for word in argv)


def _records(resource: Resource, *commands: TypedCommand) -> tuple[CommandRecord, ...]:
    return tuple(record_of(one, machine=resource.machine, kernel=resource.kernel) for one in commands)


def _kept(commands: Sequence[TypedCommand]) -> tuple[TypedCommand, ...]:
    """Return commands without an undo: that of an earlier one is kept, or it is not known yet."""
    return tuple(replace(one, undo=None) for one in commands)


LONGEST_WORD = 80
"""Of a command in messages [characters]."""
GUEST_DEADLINE_S = 600.0
"""Bounds what starting a guest bounds itself, nested emulation included."""
