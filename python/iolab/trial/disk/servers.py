"""The servers behind a disk, each of which may hang or die: asking them whether they still answer, and ending them.

A row of `CONNECTIONS` is a protocol: what a new connection is asked by, and what that is called. A process is asked by
its state, a guest by its agent.
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
from iolab.lab.volumes.exports import by_kernel, control_socket, port_of, way_of
from iolab.lab.volumes.places import door_of, holder_of, monitor_of, nbd_pid_file
from iolab.lab.volumes.scripts import KILL_SERVER
from iolab.messages.disks import (
    Condition,
    DiskServer,
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

CONNECTIONS: Mapping[str, tuple[str, str]] = {
    "iscsi": ("iscsi", "iSCSI login"),
    "nvme-tcp": ("nvme-tcp", "NVMe/TCP connection request"),
    "nbd": ("nbd", "NBD handshake"),
}
"""Export to the kind of ping (contract/disk-v1.md) and its name."""
QMP = "QMP greeting"
AGENT = "ping of its agent"
SLACK_MS = 2_000
"""For starting what asks."""
KILL_S = 2.0
"""For a signal to be sent."""
STOPPED_STATES = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class Process:
    """A server's process."""

    kernel: str
    """Where it runs."""
    pid_file: str
    """Has its number."""
    mark: str
    """A word of its command line or environment, by which it is known."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a server takes new connections."""

    kernel: str
    """Of the initiator."""
    netns: str | None
    peer: Mapping[str, Json]
    """As in contract/disk-v1.md."""
    ping: str
    """What it is called."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server behind a disk."""

    about: DiskServer
    """In statements."""
    process: Process | None = None
    """None: it is a kernel."""
    connection: Connection | None = None
    """None: it takes none, or it is a guest's kernel, which is asked by its agent."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A server that does not answer."""

    server: Server
    condition: Condition


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question under way."""

    server: Server
    pending: Pending
    ping: str
    timeout_ms: int


def servers_of(site: Site, machine: str, disk: Disk) -> tuple[Server, ...]:
    """Return the servers behind a disk, the farthest from its program first: where two hang, it is the cause."""
    return tuple(_servers(site, machine, disk))


def _servers(site: Site, machine: str, disk: Disk) -> Iterator[Server]:
    lab, volume = site.lab, site.lab.volumes[disk.volume]
    kernels = dict.fromkeys((holder_of(lab, volume), kernel_of(lab, machine)))
    yield from (Server(GuestKernel(machine=name)) for name in kernels if _is_guest(lab, name))
    if volume.export is not None and (way := way_of(lab, site.topology, disk.volume)) is not None:
        target, initiator = way
        kind, ping = CONNECTIONS[volume.export]
        address = f"{target.address}:{port_of(lab, disk.volume)}"
        yield Server(
            *_target(lab, disk.volume, target.machine, site.topology.prefix),
            Connection(initiator.kernel, initiator.netns, {"kind": kind, "address": address}, ping),
        )
    if disk.via == "user":
        door, kernel = door_of(disk.volume, site.topology.prefix), kernel_of(lab, machine)
        peer: dict[str, Json] = {"kind": "qmp", "socket": monitor_of(disk.volume, site.topology.prefix)}
        yield Server(
            VolumeServer(code="storage-daemon", volume=disk.volume, machine=machine),
            Process(kernel, f"{door}.pid", f"{door}.pid"),
            Connection(kernel, None, peer, QMP),
        )


def _is_guest(lab: Lab, kernel: str) -> bool:
    return kernel != HERE and lab.machines[kernel].kind == "vm"


def _target(lab: Lab, name: str, machine: str, prefix: str) -> tuple[DiskServer, Process | None]:
    """Return what exports a volume."""
    volume = lab.volumes[name]
    kernel = holder_of(lab, volume)
    if volume.export == "nvme-tcp":
        return VolumeServer(code="nvme-target", volume=name, machine=machine), None
    if volume.export == "nbd":
        pid_file = nbd_pid_file(name, prefix)
        return VolumeServer(code="nbd-server", volume=name, machine=machine), Process(
            kernel, pid_file, pid_file
        )
    if by_kernel(lab, volume):
        return IscsiTarget(volume=name, machine=machine, program="LIO"), None
    socket = control_socket(name, prefix)
    process = Process(kernel, f"{socket}.pid", f"TGT_IPC_SOCKET={socket}")
    return IscsiTarget(volume=name, machine=machine, program="tgtd"), process


# Asking -----------------------------------------------------------------------------------------------------


def ask(site: Site, servers: Sequence[Server], timeout_ms: int) -> tuple[Silent, ...]:
    """Ask all servers at once; return those that do not answer, with what was seen of each."""
    asked = [one for server in servers for one in _questions(site, server, timeout_ms)]
    found: dict[DiskServer, Silent] = {}
    waited_s = 0.0
    for one in asked:
        if one.server.about in found:
            continue  # its connection would only be waited for in vain
        limit_s = (one.timeout_ms + (0 if one.ping == AGENT else SLACK_MS)) / 1000
        # They were asked at the same time: while one was waited for, so were the others.
        settled = one.pending.settled_within(max(0.0, limit_s - waited_s))
        waited_s = waited_s if settled else max(waited_s, limit_s)
        condition = _condition(site, one, settled=settled)
        if condition is not None:
            found[one.server.about] = Silent(one.server, condition)
    return tuple(found.values())


def _questions(site: Site, server: Server, timeout_ms: int) -> Iterator[_Asked]:
    """Give the state of the process first: it says more than a connection that nobody serves."""
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
    agent: Agent, netns: str | None, server: Server, peer: Mapping[str, Json], ping: str, timeout_ms: int
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
    """Return what was seen of a server; None: it answers, or nobody could ask."""
    if one.ping == AGENT:
        return None if settled and _is_alive(one.pending) else _of_guest(site, one)
    if not settled:
        return None  # the agent that was to ask does not answer: it is a server of its own, its guest
    try:
        done = one.pending.read(CommandResult, 0)
        answer = parse_own(done.stdout).answer
    except (AgentError, ValueError):
        return None
    return None if answer is None else condition_of(answer, one.ping, one.timeout_ms)


def _is_alive(answered: Pending) -> bool:
    """Whether a ping was answered, and not by the agent's end."""
    try:
        answered.result(0)
    except AgentError:
        return False
    return True


def condition_of(answer: Answer, ping: str, timeout_ms: int) -> Condition | None:
    """Return what an answer says of a server; None: it is well."""
    match answer.condition:
        case "stopped":
            return ProcessStopped(pid=answer.pid or 0)
        case "gone":
            return ProcessGone()
        case "refused":
            return WrongReply(code="connection-refused", ping=ping)
        case "silent":
            return NoReply(ping=ping, waited_ns=timeout_ms * NS_PER_MS)
        case "foreign":
            return WrongReply(code="other-protocol", ping=ping)
        case _:
            return None


def _of_guest(site: Site, one: _Asked) -> Condition:
    """Return what is seen from outside of a guest whose agent does not answer."""
    assert isinstance(one.server.about, GuestKernel)
    place = site.guests.get(one.server.about.machine)
    silent = NoReply(ping=AGENT, waited_ns=one.timeout_ms * NS_PER_MS)
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
    """Kill the processes behind a disk: what waits for them gets errors, and ends, which nothing else brings about.

    `silent` is the one that does not answer. Guests are powered off, so that nobody waits for their agents: the one
    that it is the kernel of, and the one with the disk, where what waits may wait for ever.
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
