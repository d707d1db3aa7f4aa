"""A started virtual machine: its console output, its state, and the CPUs of its threads.

The module does not stop virtual machines.
"""

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from iolab.agent.client import Agent, Refused
from iolab.agent.decoding import understood
from iolab.agent.messages import Json
from iolab.agent.relay import RelayedTransport
from iolab.errors import LabError
from iolab.lab.actions import PinGuest, TypedCommand
from iolab.lab.commands import Found, commands_of
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.start import GuestStart, SwitchStart, process_id
from iolab.lab.hosts.facts import cpu_list
from iolab.locale import Phrase, Text
from iolab.results.trial import CommandRecord, GuestUse
from iolab.run.guests.hypervisors import Launch
from iolab.run.guests.qemu_monitor import MonitorError, MonitorReading
from iolab.run.guests.switches import Switch
from iolab.run.guests.xen_domains import XL_TIMEOUT_MS, domain_state

WORDS_LINES = 12
"""Maximum number of console lines in messages."""
PANIC = "Kernel panic"
PANIC_GRACE_S = 0.5


@dataclass(slots=True)
class RunningGuest:
    """A guest that was started."""

    guest: Guest
    """The requested parameters."""
    parent: str
    """Kernel on which the guest runs."""
    launch: Launch
    """The start parameters."""
    pid: int = 0
    """Process ID of the hypervisor on the parent; a Xen domain has no process there."""
    switches: Mapping[str, Switch] = field(default_factory=dict)
    """User-space switches of the guest's NICs, by NIC name."""
    use: GuestUse | None = None
    """Data about the running guest; available after the guest's agent has answered."""
    console: RelayedTransport | None = None
    """Serial line of the guest."""
    channel: RelayedTransport | None = None
    """Channel to the guest's agent."""
    panic: str = ""
    """Panic message of the guest's kernel."""

    @property
    def process(self) -> str:
        """Return the ID of the hypervisor's process."""
        return process_id(self.guest.name)

    @property
    def start(self) -> GuestStart:
        """Return the start parameters."""
        switches = (
            SwitchStart(card, one.netns, one.argv, one.environment) for card, one in self.switches.items()
        )
        return GuestStart(
            argv=self.launch.argv,
            environment=self.launch.environment,
            folder=self.launch.folder,
            configuration=self.launch.configuration,
            nested=self.launch.nested,
            switches=tuple(switches),
            unprivileged=self.launch.own_user is not None,
        )

    def words(self) -> Text:
        """Return the last lines of the console; after a panic, the lines from the start of the panic."""
        lines = [] if self.console is None else [line for line in list(self.console.noise) if line.strip()]
        panic = next((number for number, line in enumerate(lines) if PANIC in line), None)
        shown = lines[-WORDS_LINES:] if panic is None else lines[panic : panic + WORDS_LINES]
        return Phrase("run.console-last-lines", lines="\n".join(shown)) if shown else ""

    def watch(self, line: str) -> None:
        """Check a console line: a panic is reported immediately, without waiting for a time-out."""
        if PANIC in line:
            self.panic = line.strip()
            # The following console lines show the cause; the hypervisor ends a panicked guest shortly afterwards.
            threading.Timer(PANIC_GRACE_S, self._end_channel).start()

    def _end_channel(self) -> None:
        if self.channel is not None:
            self.channel.end(self.panic)


def read_state(agent: Agent, running: RunningGuest) -> str | None:
    """Return the state of a guest and the affinities of its threads, in the format of lab.readback's GuestThreads."""
    if running.guest.engine == "xen":
        return domain_state(agent, running.guest.name)
    try:
        reading = _inquire(agent, running)
    except (MonitorError, Refused):
        return json.dumps({"status": "not answering"})
    threads = _threads(agent, running)
    gone = [card for card, switch in running.switches.items() if switch.pid not in threads]
    status = f"{reading.status}, the switch of {', '.join(gone)} ended" if gone else reading.status
    found = affinities(agent, reading.vcpus, threads)
    return json.dumps({"status": status, "vcpus": found.vcpus, "carriers": found.carriers})


def pin_threads(agent: Agent, running: RunningGuest, action: PinGuest) -> tuple[CommandRecord, ...]:
    """Pin a guest's threads to CPUs of its parent; return the commands, with the name of each thread.

    Raises:
        LabError: pinning failed.
    """
    found = Found(guest=running.guest)
    if running.guest.engine != "xen":
        try:
            reading = _inquire(agent, running)
        except (MonitorError, Refused) as error:
            raise LabError(Phrase("run.guest-not-pinned", guest=action.guest, reason=error)) from error
        vcpus = {number: str(thread) for number, thread in reading.vcpus.items()}
        threads = {str(thread): name for thread, name in _threads(agent, running).items()}
        carriers = {thread: name for thread, name in threads.items() if thread not in vcpus.values()}
        found = replace(found, vcpus=vcpus, carriers=carriers)
    commands = commands_of(action, found)
    results = agent.run_all([(one.do.argv, None) for one in commands], timeout_ms=XL_TIMEOUT_MS)
    for one, result in zip(commands, results, strict=True):
        if not result.succeeded and "No such process" not in result.stderr:
            raise LabError(
                Phrase(
                    "run.guest-not-pinned-by-command",
                    guest=action.guest,
                    command=" ".join(one.do.argv),
                    complaint=result.complaint,
                )
            )
    return tuple(
        record_of(
            one,
            machine=action.guest,
            kernel=running.parent,
            exit_status=result.exit_status,
            duration_ns=result.end_ns - result.begin_ns,
        )
        for one, result in zip(commands, results, strict=True)
    )


def _threads(agent: Agent, running: RunningGuest) -> dict[int, str]:
    return threads_of(agent, running.pid, [switch.pid for switch in running.switches.values()])


def has_monitor(running: RunningGuest | None) -> bool:
    """Whether a guest's hypervisor has a monitor, as QEMU does."""
    return running is not None and bool(running.launch.monitor)


def disk_statistics(agent: Agent, running: RunningGuest) -> Json:
    """Return QEMU's statistics of a guest's disks.

    Raises:
        MonitorError: the monitor does not answer.
        AgentError: the relay could not be opened.
    """
    from iolab.run.guests.qemu_monitor import block_statistics  # asyncio and TLS are slow to import

    return block_statistics(agent, f"{running.guest.name}:monitor", running.launch.monitor)


def _inquire(agent: Agent, running: RunningGuest) -> MonitorReading:
    from iolab.run.guests.qemu_monitor import inquire  # asyncio and TLS are slow to import

    return inquire(agent, f"{running.guest.name}:monitor", running.launch.monitor)


LIST = ("ps", "-e", "-L", "-o", "pid=,tid=,comm=")


@dataclass(frozen=True, slots=True)
class Affinities:
    """The CPU affinities of a guest's threads."""

    vcpus: list[list[int]]
    """The parent's CPUs of each virtual CPU, in order."""
    carriers: list[list[int]]
    """The parent's CPUs of each other thread: vhost, switches, the hypervisor's main loop and workers."""


def threads_of(agent: Agent, pid: int, switches: Collection[int] = ()) -> dict[int, str]:
    """Return the threads of a hypervisor, with its vhost threads and switches, by thread ID."""
    found: dict[int, str] = {}
    lines = agent.run(LIST).stdout.splitlines()
    with understood(agent.name, Phrase("agent.threads-of-guest")):
        for line in lines:
            process, thread, name = line.split(None, 2)
            if int(process) in (pid, *switches) or name == f"vhost-{pid}":
                found[int(thread)] = name
    return found


def affinities(agent: Agent, vcpus: Mapping[int, int], threads: Mapping[int, str]) -> Affinities:
    """Read the affinities of threads; threads that have exited are omitted."""
    order = [vcpus[number] for number in sorted(vcpus)]
    others = [thread for thread in threads if thread not in order]
    shown = agent.run_all([(("taskset", "-c", "-p", str(thread)), None) for thread in [*order, *others]])
    with understood(agent.name, Phrase("agent.cpus-of-threads")):
        lists = [cpu_list(one.stdout.rpartition(":")[2]) if one.succeeded else [] for one in shown]
    return Affinities(lists[: len(order)], [cpus for cpus in lists[len(order) :] if cpus])


def record_of(
    command: TypedCommand,
    *,
    machine: str,
    kernel: str,
    exit_status: int | None = None,
    duration_ns: int = 0,
) -> CommandRecord:
    """Return the record of a machine's command; without a status, the command is still running."""
    return CommandRecord(
        machine=machine,
        kernel=kernel,
        netns=command.do.netns,
        argv=command.do.argv,
        undo=None if command.undo is None else command.undo.argv,
        undo_netns=None if command.undo is None else command.undo.netns,
        exit_status=exit_status,
        duration_ns=duration_ns,
        notes=command.notes,
    )
