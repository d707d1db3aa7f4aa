"""Check whether the servers behind a disk still answer, and kill them; each server may hang or die.

A row of `CONNECTIONS` describes a protocol: the type of its test connection, and the name of the test connection. A
process is checked by its state, a guest by its agent.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.answers import CommandResult, Reading
from iolab.agent.client import Agent, Pending
from iolab.agent.messages import Json
from iolab.errors import AgentError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.volumes.exports import by_kernel, control_socket
from iolab.lab.volumes.places import door_of, holder_of, monitor_of, nbd_pid_file
from iolab.lab.volumes.scripts import KILL_SERVER
from iolab.lab.volumes.served import Served, served_of
from iolab.locale import Phrase, Text
from iolab.messages.disks import (
    Condition,
    DiskServer,
    ExistingTargetServer,
    GuestKernel,
    IscsiTarget,
    NoReply,
    ProcessGone,
    ProcessStopped,
    VolumeServer,
    WrongReply,
)
from iolab.trial.disk.own import Answer, parse_own
from iolab.trial.lab_access import Site
from iolab.units import NS_PER_MS

CONNECTIONS: Mapping[str, tuple[str, Phrase]] = {
    "iscsi": ("iscsi", Phrase("trial.iscsi-login")),
    "nvme-tcp": ("nvme-tcp", Phrase("trial.nvme-tcp-connection-request")),
    "nbd": ("nbd", Phrase("trial.nbd-handshake")),
}
"""Type of the test connection (contract/disk-v1.md) and its name, by export."""
QMP = Phrase("trial.qmp-greeting")
AGENT = Phrase("trial.ping-of-agent")
SLACK_MS = 2_000
"""Additional time for starting the checking program [ms]."""
KILL_S = 2.0
"""Time limit for sending a signal [s]."""
STOPPED_STATES = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class Process:
    """Process of a server."""

    kernel: str
    """Kernel of the process."""
    pid_file: str
    """PID file."""
    mark: str
    """Word in the command line or environment that identifies the process."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Address where a server accepts connections."""

    kernel: str
    """Kernel of the initiator."""
    netns: str | None
    peer: Mapping[str, Json]
    """Address of the server, in the form of contract/disk-v1.md."""
    ping: Text
    """Name of the test connection."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server behind a disk."""

    about: DiskServer
    """Name in messages."""
    process: Process | None = None
    """Process of the server; None: the server is a part of a kernel."""
    connection: Connection | None = None
    """Connection to the server; None: the server accepts no connections, or is a guest's kernel, which is checked
    through its agent."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A server that does not answer."""

    server: Server
    condition: Condition


@dataclass(frozen=True, slots=True)
class _Asked:
    """A pending check."""

    server: Server
    pending: Pending
    ping: Text
    timeout_ms: int


def servers_of(site: Site, machine: str, disk: Disk) -> tuple[Server, ...]:
    """Return the servers behind a disk, the farthest from the program first: if two servers hang, the farthest is the
    cause."""
    return tuple(_servers(site, machine, disk))


def _servers(site: Site, machine: str, disk: Disk) -> Iterator[Server]:
    lab, volume = site.lab, site.lab.volumes[disk.volume]
    kernels = dict.fromkeys((holder_of(lab, volume), kernel_of(lab, machine)))
    yield from (Server(GuestKernel(machine=name)) for name in kernels if _is_guest(lab, name))
    served = served_of(lab, site.topology, disk.volume)
    if served is not None:
        kind, ping = CONNECTIONS[served.protocol]
        yield Server(
            *_target(lab, disk.volume, served),
            Connection(served.kernel, served.netns, {"kind": kind, "address": served.portal}, ping),
        )
    if disk.via == "user":
        door, kernel = door_of(disk.volume), kernel_of(lab, machine)
        peer: dict[str, Json] = {"kind": "qmp", "socket": monitor_of(disk.volume)}
        yield Server(
            VolumeServer(code="storage-daemon", volume=disk.volume, machine=machine),
            Process(kernel, f"{door}.pid", f"{door}.pid"),
            Connection(kernel, None, peer, QMP),
        )


def _is_guest(lab: Lab, kernel: str) -> bool:
    return kernel != HERE and lab.machines[kernel].kind == "vm"


def _target(lab: Lab, name: str, served: Served) -> tuple[DiskServer, Process | None]:
    """Return the server that exports a volume, and the server's process; None for a target that iolab did not start."""
    if served.exists:
        return ExistingTargetServer(volume=name, portal=served.portal, target=served.target), None
    volume = lab.volumes[name]
    machine = volume.on or ""
    kernel = holder_of(lab, volume)
    if volume.export == "nvme-tcp":
        return VolumeServer(code="nvme-target", volume=name, machine=machine), None
    if volume.export == "nbd":
        pid_file = nbd_pid_file(name)
        return VolumeServer(code="nbd-server", volume=name, machine=machine), Process(
            kernel, pid_file, pid_file
        )
    if by_kernel(lab, volume):
        return IscsiTarget(volume=name, machine=machine, program="LIO"), None
    socket = control_socket(name)
    process = Process(kernel, f"{socket}.pid", f"TGT_IPC_SOCKET={socket}")
    return IscsiTarget(volume=name, machine=machine, program="tgtd"), process


# Asking -----------------------------------------------------------------------------------------------------


def ask(site: Site, servers: Sequence[Server], timeout_ms: int) -> tuple[Silent, ...]:
    """Check all servers in parallel; return those that do not answer, each with its observed condition."""
    asked = [one for server in servers for one in _questions(site, server, timeout_ms)]
    found: dict[DiskServer, Silent] = {}
    waited_s = 0.0
    for one in asked:
        if one.server.about in found:
            continue  # a server that does not answer cannot answer on its connection
        limit_s = (one.timeout_ms + (0 if one.ping == AGENT else SLACK_MS)) / 1000
        # The checks run in parallel: the time spent waiting for one check counts for all.
        settled = one.pending.settled_within(max(0.0, limit_s - waited_s))
        waited_s = waited_s if settled else max(waited_s, limit_s)
        condition = _condition(site, one, settled=settled)
        if condition is not None:
            found[one.server.about] = Silent(one.server, condition)
    return tuple(found.values())


def _questions(site: Site, server: Server, timeout_ms: int) -> Iterator[_Asked]:
    """Yield the checks of a server, the process state first, because it is more specific than an unanswered
    connection."""
    if isinstance(server.about, GuestKernel):
        pending = site.agent_of(server.about.machine).begin("agent.ping", {})
        yield _Asked(server, pending, AGENT, timeout_ms)
    if server.process is not None:
        one = server.process
        peer: dict[str, Json] = {"kind": "process", "pid_file": one.pid_file, "mark": one.mark}
        yield _asked(site.agent_of(one.kernel), None, server, peer, "", timeout_ms)
    if server.connection is not None:
        to = server.connection
        yield _asked(site.agent_of(to.kernel), to.netns, server, to.peer, to.ping, timeout_ms)


def _asked(
    agent: Agent, netns: str | None, server: Server, peer: Mapping[str, Json], ping: Text, timeout_ms: int
) -> _Asked:
    request = {"program": "ping", "peer": dict(peer), "timeout_ms": timeout_ms}
    params: dict[str, Json] = {
        "argv": [f"/proc/{agent.hello.pid}/exe", "disk"],
        "netns": netns,
        "stdin": json.dumps(request),
        "timeout_ms": timeout_ms + SLACK_MS,
    }
    return _Asked(server, agent.begin("command.run", params), ping, timeout_ms)


def _condition(site: Site, one: _Asked, *, settled: bool) -> Condition | None:
    """Return the condition of a server; None if it answers, or if it could not be checked."""
    if one.ping == AGENT:
        return None if settled and _is_alive(one.pending) else _of_guest(site, one)
    if not settled:
        return None  # the checking agent does not answer: its guest is checked as a separate server
    try:
        done = one.pending.read(CommandResult, 0)
        answer = parse_own(done.stdout).answer
    except (AgentError, ValueError):
        return None
    return None if answer is None else condition_of(answer, one.ping, one.timeout_ms)


def _is_alive(answered: Pending) -> bool:
    """Whether a ping was answered, and did not end because the agent was lost."""
    try:
        answered.result(0)
    except AgentError:
        return False
    return True


def condition_of(answer: Answer, ping: Text, timeout_ms: int) -> Condition | None:
    """Return the condition in an answer; None if the server works."""
    match answer.condition:
        case "stopped":
            return ProcessStopped(pid=answer.pid or 0)
        case "gone":
            return ProcessGone()
        case "refused":
            return WrongReply(code="connection-refused", ping=str(ping))
        case "silent":
            return NoReply(ping=str(ping), waited_ns=timeout_ms * NS_PER_MS)
        case "foreign":
            return WrongReply(code="other-protocol", ping=str(ping))
        case _:
            return None


def _of_guest(site: Site, one: _Asked) -> Condition:
    """Return the condition of a guest whose agent does not answer, as seen from its host."""
    assert isinstance(one.server.about, GuestKernel)
    place = site.guests.get(one.server.about.machine)
    silent = NoReply(ping=str(AGENT), waited_ns=one.timeout_ms * NS_PER_MS)
    if place is None:
        return silent
    pending = site.agent_of(place.parent).begin("sample.read", {"samplers": ["threads"], "netns": []})
    if not pending.settled_within(one.timeout_ms / 1000):
        return silent
    try:
        reading = pending.read(Reading, 0)
    except AgentError:
        return silent
    threads = (row for seen in reading.observations for row in seen.threads)
    own = next((row for row in threads if row.process == place.process and row.pid == row.tid), None)
    if own is None:
        return ProcessGone()
    return ProcessStopped(pid=own.pid) if own.state in STOPPED_STATES else silent


# Ending -----------------------------------------------------------------------------------------------------


def end(site: Site, machine: str, servers: Sequence[Server], silent: Server) -> None:
    """Kill the processes behind a disk, so that waiting programs get errors and end; nothing else ends these programs.

    `silent` is the server that does not answer. Guests are powered off, so that nothing waits for their agents: the
    guest whose kernel is `silent`, and the guest with the disk, whose processes may wait indefinitely.
    """
    kernel = kernel_of(site.lab, machine)
    hung = [silent.about.machine] if isinstance(silent.about, GuestKernel) else []
    hung += [kernel] if _is_guest(site.lab, kernel) and kernel not in hung else []
    pending = [
        site.agent_of(place.parent).begin(
            "process.stop", {"id": place.process, "signal": "KILL", "grace_ms": 0}
        )
        for name in hung
        if (place := site.guests.get(name)) is not None
    ]
    pending += [
        site.agent_of(one.process.kernel).begin(
            "command.run", {"argv": ["sh", "-c", KILL_SERVER, one.process.pid_file, one.process.mark]}
        )
        for one in servers
        if one.process is not None
    ]
    for each in pending:
        each.settled_within(KILL_S)
