"""Read back commands, settings, devices and guests of all kernels in parallel."""

import json
from collections.abc import Iterable
from typing import Protocol

from iolab.agent.answers import CommandResult
from iolab.agent.client import COMMAND_TIMEOUT_MS, REPLY_SLACK_S, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import Json, SettingValue
from iolab.lab.actions import (
    Command,
    DeviceState,
    Expectation,
    GuestState,
    InterruptState,
    ProcessorState,
    Setting,
    Source,
    WireState,
    extract,
    holds,
)
from iolab.lab.readback.values import ENDED
from iolab.locale import Phrase
from iolab.messages.failures import Difference, NothingReadBack, ReadBack
from iolab.run.agents import Agents
from iolab.run.guests.guests import Guests
from iolab.run.lab.tuning import Interrupts, Processors

REPLY_DEADLINE_S = COMMAND_TIMEOUT_MS / 1000 + REPLY_SLACK_S

Place = tuple[str, Source]
"""The kernel, and the source of the reading."""


class Awaited(Protocol):
    """A pending result."""

    def result(self, deadline_s: float, /) -> Json:
        """Wait for the result and return it."""


class Reader:
    """Reader of sources, such as files, through the agents of the sources' kernels."""

    def __init__(
        self, agents: Agents, guests: Guests, interrupts: Interrupts, processors: Processors
    ) -> None:
        self._agents = agents
        self._guests = guests
        self._interrupts = interrupts
        self._processors = processors

    def read(self, places: Iterable[Place]) -> dict[Place, str | None]:
        """Return the text of each distinct source; None if it could not be read.

        Raises:
            AgentLost: the agent of a kernel is lost.
        """
        waiting = {place: self._begin(*place) for place in dict.fromkeys(places)}
        return {
            (kernel, source): _text(kernel, source, answer) for (kernel, source), answer in waiting.items()
        }

    def _begin(self, kernel: str, source: Source) -> Awaited:
        match source:
            case GuestState(guest):
                return self._guests.state(guest)
            case InterruptState(interface):
                return self._interrupts.state(kernel, interface)
            case ProcessorState():
                return self._processors.state(kernel, source)
            case DeviceState(device):
                return self._agents.of(kernel).begin("device.read", {"id": device})
            case WireState(wire):
                return self._agents.of(kernel).begin("wire.read", {"id": wire})
            case Setting(path, netns):
                return self._agents.of(kernel).begin("setting.read", {"path": path, "netns": netns})
            case Command(argv, netns):
                params = {"argv": list(argv), "netns": netns, "timeout_ms": COMMAND_TIMEOUT_MS}
                return self._agents.of(kernel).begin("command.run", params)


def mismatch(expectation: Expectation, text: str | None) -> Difference | None:
    """Return the difference from the applied value; None: the values do not differ."""
    value = None if text is None else extract(expectation.reading, text)
    if holds(expectation, value):
        return None
    if not value:
        return NothingReadBack(what=expectation.what, applied=expectation.expected)
    return ReadBack(what=expectation.what, read=value, applied=expectation.expected)


def _text(kernel: str, source: Source, answer: Awaited) -> str | None:
    try:
        reply = answer.result(REPLY_DEADLINE_S)
    except Refused as error:
        # a stopped device or emulated link reports the reason
        return json.dumps({ENDED: str(error)}) if isinstance(source, DeviceState | WireState) else None
    except TimeoutError:  # a hung hypervisor does not answer in time
        return None
    match source:
        case GuestState() | InterruptState() | ProcessorState():
            return None if reply is None else str(reply)
        case Setting():
            return decode(
                SettingValue, reply, Phrase("agent.result-of", method="setting.read"), agent=kernel
            ).value
        case DeviceState() | WireState():
            return json.dumps(reply)
        case Command():
            result = decode(
                CommandResult, reply, Phrase("agent.result-of", method="command.run"), agent=kernel
            )
            return result.stdout if result.succeeded else None
