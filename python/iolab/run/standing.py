"""The lab that stands now: bring about another one through the agent, read it back, take it down.

What must exist and in which order is decided in lab/; here it is only carried out. Every change is journalled
by the agent before it is made, so undoing is a matter of naming journal keys.
"""

import contextlib
import errno
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from iolab.agent.client import UNDO_DEADLINE_S, Agent, Pending, Refused
from iolab.agent.messages import CommandResult, Json, decode
from iolab.errors import LabError
from iolab.lab.difference import difference
from iolab.lab.resources import (
    FOUND,
    Action,
    Command,
    CreateNetns,
    DeviceState,
    Expectation,
    PinArrivals,
    Reading,
    Resource,
    Run,
    Setting,
    StartDevice,
    Write,
    devices,
    extract,
    filled,
    holds,
    undo_keys,
)
from iolab.run.arrivals import ArrivalThreads
from iolab.trial.result import CommandRecord

COMMAND_TIMEOUT_MS = 10_000
"""Configuration commands take milliseconds; this bounds a kernel that hangs."""
REPLY_DEADLINE_S = COMMAND_TIMEOUT_MS / 1000 + 10

Log = Callable[[Sequence[CommandRecord]], None]
Source = Command | Setting | DeviceState


class StandingLab:
    """The resources that stand on one agent's host."""

    def __init__(self, agent: Agent, log: Log) -> None:
        self._agent = agent
        self._log = log
        self._standing: tuple[Resource, ...] = ()
        self._devices: list[str] = []
        self.arrivals = ArrivalThreads(agent)
        """The kernel threads that take frames in."""

    def change_to(self, wanted: tuple[Resource, ...]) -> None:
        """Bring the wanted lab about, touching only what differs.

        Raises:
            LabError: a command failed; everything is undone then.
        """
        change = difference(self._standing, wanted)
        try:
            self._undo(change.undo)
            for wave in _waves(change.do):
                self._do_together(wave, change.in_place)
        except (LabError, Refused) as error:
            self.take_down()
            raise LabError(str(error)) from error
        self._standing = wanted

    def mismatches(self) -> list[str]:
        """Read every applied level back; return what is not as applied, a sentence each."""
        expectations = [expectation for resource in self._standing for expectation in resource.expect]
        texts = self._read(expectation.reading.source for expectation in expectations)
        found = (_mismatch(expectation, texts[expectation.reading.source]) for expectation in expectations)
        return [sentence for sentence in found if sentence]

    def take_down(self) -> None:
        """Undo everything. Namespaces go first: the kernel takes what is in them along, in one step.

        Raises:
            LabError: something could not be undone.
        """
        actions = [action for resource in reversed(self._standing) for action in resource.actions]
        self._standing = ()
        self._stop(list(self._devices))
        self.arrivals.forget()
        names = [action.name for action in actions if isinstance(action, CreateNetns)]
        for pending in [self._agent.begin("netns.delete", {"name": name}) for name in names]:
            with contextlib.suppress(Refused):  # one that is not to be had so is undone, or told of, below
                pending.result(UNDO_DEADLINE_S)
        report = self._agent.undo()
        if report.failed:
            first = report.failed[0]
            raise LabError(
                f"taking the lab down: {len(report.failed)} changes could not be undone, "
                f"the first is {first.undo_key}: {first.reason}; run `iolab clean`"
            )

    # Undoing and doing ------------------------------------------------------------------------------------

    def _undo(self, resources: Sequence[Resource]) -> None:
        self._stop([device for resource in resources for device in devices(resource)])
        keys = [key for resource in resources for key in undo_keys(resource)]
        if not keys:
            return
        report = self._agent.undo(keys=keys)
        if report.failed:
            raise LabError(f"undoing {report.failed[0].undo_key}: {report.failed[0].reason}")

    def _stop(self, wanted: Sequence[str]) -> None:
        """Stop those of the devices that run."""
        for device in [name for name in wanted if name in self._devices]:
            self._devices.remove(device)
            try:
                self._agent.call("device.stop", {"id": device})
            except Refused as error:
                raise LabError(f"stopping {device}: {error}") from error

    def _do_together(self, wave: Sequence[Resource], in_place: frozenset[str]) -> None:
        """Carry out resources that do not need each other: their first actions at once, then their second, ...

        When one fails the others under way are waited for: nothing may be made after undoing has begun.
        """
        records: list[CommandRecord] = []
        failures: list[LabError] = []
        try:
            for index in range(max(len(resource.actions) for resource in wave)):
                present = [resource for resource in wave if index < len(resource.actions)]
                waiting = [
                    self._begin(resource, resource.actions[index], resource.key in in_place)
                    for resource in present
                ]
                for resource, (record, pending) in zip(present, waiting, strict=True):
                    try:
                        records.append(_finish(resource, resource.actions[index], record, pending))
                    except LabError as error:
                        failures.append(error)
                if failures:
                    raise failures[0]
        finally:
            self._log(records)

    def _begin(self, resource: Resource, action: Action, in_place: bool) -> tuple[CommandRecord, Pending]:
        """Send an action; return it as a person would type it, and its pending reply."""
        match action:
            case CreateNetns(name):
                record = _record(resource, None, ("ip", "netns", "add", name), ("ip", "netns", "del", name))
                return record, self._agent.begin("netns.create", {"name": name})
            case Write(path, netns, value):
                name = path.removeprefix("/proc/sys/").replace("/", ".")
                record = _record(resource, netns, ("sysctl", "-w", f"{name}={value}"), None)
                return record, self._agent.begin(
                    "setting.write", {"path": path, "netns": netns, "value": value}
                )
            case PinArrivals():
                record, pending = self.arrivals.pin(action)
                return replace(record, machine=resource.machine), pending
            case StartDevice():
                return self._begin_device(resource, action)
            case Run(do):
                undo = None if in_place else self._undo_command(action)
                do = do if action.find is None else filled(do, self._found(action.find, do), FOUND)
                record = _record(resource, do.netns, do.argv, undo.argv if undo else None)
                return record, self._agent.begin("command.run", _run_params(resource, do, undo))

    def _begin_device(self, resource: Resource, action: StartDevice) -> tuple[CommandRecord, Pending]:
        words = (f"{name}={value}" for name, value in action.rule)
        argv = ("iolab-agent", "device.start", action.interface, action.towards, *words)
        undo = ("iolab-agent", "device.stop", action.interface)
        params: dict[str, Json] = {
            "id": action.device,
            "netns": action.netns,
            "interface": action.interface,
            "rule": dict(action.rule),
            "action": {"kind": "forward", "interface": action.towards},
        }
        thread = {"cpu": action.cpu, "priority": action.priority}
        params |= {name: value for name, value in thread.items() if value is not None}
        self._devices.append(action.device)
        return _record(resource, action.netns, argv, undo), self._agent.begin("device.start", params)

    def _undo_command(self, action: Run) -> Command | None:
        if action.undo is None or action.original is None:
            return action.undo
        return filled(action.undo, self._found(action.original, action.do))

    def _found(self, reading: Reading, before: Command) -> str:
        """Return what must be known before a command is run."""
        text = self._read([reading.source])[reading.source]
        value = None if text is None else extract(reading, text)
        if value is None:
            raise LabError(f"reading the original value before `{' '.join(before.argv)}`: nothing was found")
        return value

    # Reading ----------------------------------------------------------------------------------------------

    def _read(self, sources: Iterable[Source]) -> dict[Source, str | None]:
        """Return the text of each distinct source, all read at the same time; None where reading failed."""
        waiting = {source: self._begin_reading(source) for source in dict.fromkeys(sources)}
        return {source: _text(source, pending) for source, pending in waiting.items()}

    def _begin_reading(self, source: Source) -> Pending:
        match source:
            case DeviceState(device):
                return self._agent.begin("device.read", {"id": device})
            case Setting(path, netns):
                return self._agent.begin("setting.read", {"path": path, "netns": netns})
            case Command(argv, netns):
                params = {
                    "argv": list(argv),
                    "netns": netns,
                    "timeout_ms": COMMAND_TIMEOUT_MS,
                }
                return self._agent.begin("command.run", params)


def _waves(resources: Sequence[Resource]) -> list[list[Resource]]:
    """Return the resources in groups that can be done together: each needs only what stands before it."""
    depth: dict[str, int] = {}
    waves: list[list[Resource]] = []
    for resource in resources:
        level = 1 + max((depth[key] for key in resource.needs if key in depth), default=-1)
        depth[resource.key] = level
        if level == len(waves):
            waves.append([])
        waves[level].append(resource)
    return waves


def _record(
    resource: Resource, netns: str | None, argv: tuple[str, ...], undo: tuple[str, ...] | None
) -> CommandRecord:
    return CommandRecord(
        machine=resource.machine, netns=netns, argv=argv, undo=undo, exit_status=None, duration_ns=0
    )


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


def _finish(resource: Resource, action: Action, record: CommandRecord, pending: Pending) -> CommandRecord:
    """Wait for an action; return its record with how it went.

    Raises:
        LabError: it failed.
    """
    try:
        reply = pending.result(REPLY_DEADLINE_S)
    except Refused as error:
        absent = isinstance(error.data, dict) and error.data.get("errno") == errno.ENOENT
        if isinstance(action, Write) and action.absent_ok and absent:
            return record
        raise LabError(f"making {resource.key} with `{' '.join(record.argv)}`: {error}") from error
    if isinstance(action, PinArrivals):
        pinned = decode(CommandResult, reply, "command result")
        return _ended(record, pinned.exit_status, pinned.end_ns - pinned.begin_ns)
    if not isinstance(action, Run):
        return _ended(record, 0, 0)
    result = decode(CommandResult, reply, "command result")
    if not result.succeeded:
        said = (result.stderr or result.stdout).strip()[:500] or f"status {result.exit_status}"
        raise LabError(
            f"making {resource.key} with `{' '.join(record.argv)}` in {record.netns or 'the host'}: {said}"
        )
    return _ended(record, result.exit_status, result.end_ns - result.begin_ns)


def _ended(record: CommandRecord, exit_status: int | None, duration_ns: int) -> CommandRecord:
    return replace(record, exit_status=exit_status, duration_ns=duration_ns)


def _text(source: Source, pending: Pending) -> str | None:
    try:
        reply = pending.result(REPLY_DEADLINE_S)
    except Refused:
        return None
    if isinstance(source, Setting):
        return str(reply["value"])
    if isinstance(source, DeviceState):
        return json.dumps(reply)
    result = decode(CommandResult, reply, "command result")
    return result.stdout if result.succeeded else None


def _mismatch(expectation: Expectation, text: str | None) -> str | None:
    value = None if text is None else extract(expectation.reading, text)
    if holds(expectation, value):
        return None
    return (
        f"{expectation.what} was read back as {value or 'nothing'} where {expectation.expected} was applied"
    )
