"""Perform one action of a resource through the agent of its kernel, and record the equivalent shell commands."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from iolab.agent.answers import CommandResult
from iolab.agent.client import COMMAND_TIMEOUT_MS, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import Json, SettingOriginal
from iolab.errors import AgentError, InputError, IolabError, LabError
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
from iolab.run.lab.secrets import read_secret
from iolab.run.lab.tuning import Interrupts, NapiThreads, Processors


@dataclass(frozen=True, slots=True)
class ActionUnderWay:
    """An action in progress."""

    resource: Resource
    """The resource that the action creates."""
    action: Action
    """The action."""
    records: tuple[CommandRecord, ...]
    """The equivalent shell commands; the last one is in progress."""
    answer: Awaited
    """The agent's answer."""
    in_place: bool
    """Whether the resource is changed in place, so its first undo is kept."""

    def finish(self) -> tuple[CommandRecord, ...]:
        """Wait for the end; return the records with their results.

        Raises:
            LabError: the action failed.
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
            CommandResult, reply, Phrase("agent.result-of", method="command.run"), agent=self.resource.kernel
        )
        if isinstance(self.action, Run | Tell) and not result.succeeded:
            place = record.netns or self.resource.kernel or Phrase("run.the-host")
            raise LabError(Phrase("run.failed-in-place", what=what, place=place, reason=result.complaint))
        return self._ended(record, result.exit_status, result.end_ns - result.begin_ns)

    def _with_original(self, record: CommandRecord, reply: Any) -> CommandRecord:
        """Return a command's record whose undo has the original value from the agent's answer."""
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
        """Raise the error that prevented the action from being sent."""
        raise self._why


class ActionRunner:
    """Sender of actions to the agents of the actions' kernels."""

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
        """Send an action; with `in_place`, an existing resource is changed and its first undo is kept.

        An error in sending is raised only when the action is finished, because actions that were sent earlier finish
        first.
        """
        try:
            records, answer = self._send(resource, action, in_place)
        except (LabError, AgentError, InputError) as error:
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
        """Send an action that consists of one agent request."""
        found = self._look(resource, action, in_place)
        commands = commands_of(action, found)
        if in_place or isinstance(action, Write):
            commands = _kept(commands)  # the original value of a setting is in the answer
        request = request_of(resource, action, commands[0], found)
        params: dict[str, Json] = dict(request.params)
        if request.method == "command.run":
            params["timeout_ms"] = COMMAND_TIMEOUT_MS
        if isinstance(action, Run) and action.secret is not None:
            params["stdin"] = read_secret(action.secret)
        pending = self._agents.of(resource.kernel).begin(request.method, params)
        return _records(resource, *commands), pending

    def _look(self, resource: Resource, action: Asked, in_place: bool) -> Found:
        """Read the values that are needed before an action."""
        found = PLANNED
        if isinstance(action, Run | Tell) and action.find is not None:
            found = replace(found, value=self._found(resource, action.find, commands_of(action)[0].do))
        if isinstance(action, Run) and action.undo and action.original and not in_place:
            found = replace(found, original=self._found(resource, action.original, action.do))
        return found

    def _found(self, resource: Resource, reading: Reading, before: Command) -> str:
        """Return the values that are needed before a command runs."""
        place = (resource.kernel, reading.source)
        text = self._reader.read([place])[place]
        value = None if text is None else extract(reading, text)
        if value is None:
            raise LabError(Phrase("run.no-original-value", command=" ".join(before.argv)))
        return value


def _is_absent(error: Refused) -> bool:
    return isinstance(error.data, dict) and error.data.get("errno") == errno.ENOENT


def _brief(argv: tuple[str, ...]) -> str:
    """Return a command for a message, without the text of scripts; the run folder has the full command."""
    return " ".join(word if len(word) <= LONGEST_WORD else "..." for word in argv)


def _records(resource: Resource, *commands: TypedCommand) -> tuple[CommandRecord, ...]:
    return tuple(record_of(one, machine=resource.machine, kernel=resource.kernel) for one in commands)


def _kept(commands: Sequence[TypedCommand]) -> tuple[TypedCommand, ...]:
    """Return commands without their undo, because the first undo is kept or the undo is not known yet."""
    return tuple(replace(one, undo=None) for one in commands)


LONGEST_WORD = 80
"""Maximum length of a single word of a command in messages [characters]."""
GUEST_DEADLINE_S = 600.0
"""Time limit longer than any time limit for starting a guest, including under nested emulation."""
