"""Client of a running QEMU's monitor (QMP): greeting, commands, and the threads of its CPUs."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TypeVar

from qemu.qmp import QMPClient, QMPError

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.agent.relay import RelayedTransport, at_socket
from iolab.errors import AgentError
from iolab.locale import Phrase


class MonitorError(Exception):
    """The hypervisor does not answer, or the answer is invalid."""


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """The result of one query."""

    status: str
    """Run state: running, paused, ..."""
    vcpus: Mapping[int, int]
    """Thread ID on the parent of each virtual CPU."""
    kvm: bool
    """Whether the guest uses hardware virtualisation."""
    version: str
    """Version of QEMU."""


INQUIRY_DEADLINE_S = 30.0
"""Time limit of an answer; QEMU answers in milliseconds, a stopped QEMU never."""
OPEN_TIMEOUT_MS = 2_000
BUFFER_BYTES = 65_536
Answer = TypeVar("Answer")


def inquire(parent: Agent, relay: str, path: str) -> MonitorReading:
    """Query the run state and the threads of the virtual CPUs from a guest's monitor.

    Raises:
        MonitorError: the monitor does not answer.
        AgentError: the relay could not be opened.
    """
    return _session(parent, relay, path, _ask)


def block_statistics(parent: Agent, relay: str, path: str) -> Json:
    """Query the disk statistics from a guest's monitor.

    Raises:
        MonitorError: the monitor does not answer.
        AgentError: the relay could not be opened.
    """
    return _session(parent, relay, path, _ask_disks)


def _session(
    parent: Agent, relay: str, path: str, ask: Callable[[socket.socket], Coroutine[None, None, Answer]]
) -> Answer:
    """Open a guest's monitor and call `ask` with it."""
    transport = RelayedTransport(parent, relay, at_socket(path), timeout_ms=OPEN_TIMEOUT_MS)
    ours, theirs = socket.socketpair()
    pumps = [threading.Thread(target=pump, args=(transport, ours), daemon=True) for pump in (_in, _out)]
    try:
        for thread in pumps:
            thread.start()
        return asyncio.run(asyncio.wait_for(ask(theirs), INQUIRY_DEADLINE_S))
    except (QMPError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise MonitorError(Phrase("run.qemu-monitor-failed", reason=error or type(error).__name__)) from error
    finally:
        transport.close(INQUIRY_DEADLINE_S)
        for end in (ours, theirs):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from the socket
            end.close()


async def _ask_disks(end: socket.socket) -> Json:
    client = QMPClient("guest")
    await client.connect(end)
    try:
        answer: Json = await client.execute("query-blockstats")
    finally:
        with contextlib.suppress(QMPError, OSError):
            await client.disconnect()
    return answer


async def _ask(end: socket.socket) -> MonitorReading:
    client = QMPClient("guest")
    await client.connect(end)
    try:
        status: Json = await client.execute("query-status")
        cpus: Json = await client.execute("query-cpus-fast")
        kvm: Json = await client.execute("query-kvm")
        version: Json = await client.execute("query-version")
    finally:
        with contextlib.suppress(QMPError, OSError):
            await client.disconnect()
    number = version["qemu"]
    return MonitorReading(
        status=str(status["status"]),
        vcpus={int(cpu["cpu-index"]): int(cpu["thread-id"]) for cpu in cpus},
        kvm=kvm["enabled"] is True,
        version=f"{number['major']}.{number['minor']}.{number['micro']}",
    )


def _in(transport: RelayedTransport, end: socket.socket) -> None:
    """Forward the monitor's output to the library."""
    with contextlib.suppress(OSError):
        while (line := transport.receive()) is not None:
            end.sendall(line.encode() + b"\n")
        end.shutdown(socket.SHUT_WR)


def _out(transport: RelayedTransport, end: socket.socket) -> None:
    """Forward the library's output, JSON objects without line ends, to the monitor."""
    decoder, waiting = json.JSONDecoder(), ""
    with contextlib.suppress(OSError, AgentError, UnicodeDecodeError):
        while data := end.recv(BUFFER_BYTES):
            waiting = (waiting + data.decode("ascii")).lstrip()  # json.dumps writes only ASCII characters
            while waiting:
                try:
                    message, length = decoder.raw_decode(waiting)
                except json.JSONDecodeError:
                    break  # the rest of the object is still missing
                transport.send(json.dumps(message))
                waiting = waiting[length:].lstrip()
