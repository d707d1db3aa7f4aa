"""Start one guest (hypervisor, console, channel), diagnose failed starts, and stop it.

The parent's agent journals the destruction of a domain; it supervises all other hypervisors as processes.
"""

import contextlib
from dataclasses import asdict

from iolab.agent.client import Agent, AgentLost, Refused
from iolab.agent.messages import Json, ProcessEnded
from iolab.agent.relay import RelayedTransport, at_socket, at_terminal
from iolab.errors import AgentError, IolabError, LabError, UnsupportedError
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.start import process_id
from iolab.locale import Phrase, Text
from iolab.run.guests.hypervisors import Launch
from iolab.run.guests.running_guest import RunningGuest
from iolab.run.guests.switches import END_DEADLINE_S, ended, how, start_switches, stop_switches, stop_together
from iolab.run.guests.xen_domains import console_of, create_domain, destroy_domain

NESTED_BOOT_DEADLINE_S = 240.0
"""Time limit of a boot under nested emulation, which takes a minute, as does the boot of an emulated Dom0 on a busy
host."""
START_TIMEOUT_MS = 10_000
SOCKET_TIMEOUT_MS = 500
"""Maximum wait for QEMU's sockets, which appear within 100 ms; after each wait, the QEMU process is checked."""
SOCKET_TRIES = 40
END_WAIT_MS = 2_000
"""Maximum wait for a panicked guest's hypervisor to exit; it normally exits within a second."""


def launched(agent: Agent, guest: Guest, parent: str, launch: Launch) -> RunningGuest:
    """Start the hypervisor of a guest, or create the domain.

    Raises:
        AgentError: the hypervisor cannot be started.
        LabError: a switch of the guest did not start.
        UnsupportedError: xl failed.
    """
    running = RunningGuest(guest=guest, parent=parent, launch=launch)
    try:
        if guest.engine == "xen":
            create_domain(agent, guest.name, launch.argv, launch.configuration)
        else:
            running.switches = start_switches(agent, guest, launch.folder)
            running.pid = _hypervisor(agent, guest, launch)
    except (AgentError, LabError, UnsupportedError):
        end([(agent, running)])
        raise
    return running


def _hypervisor(agent: Agent, guest: Guest, launch: Launch) -> int:
    started = agent.start(
        process_id(guest.name),
        launch.argv,
        netns=guest.netns,
        environment=launch.environment,
        files=launch.files,
        own_user=None if launch.own_user is None else asdict(launch.own_user),
        timeout_ms=START_TIMEOUT_MS,
    )
    return started.pid


def connect(agent: Agent, running: RunningGuest, boot_deadline_s: float) -> Agent:
    """Open the console and the channel of a guest, and wait for its agent's greeting.

    Raises:
        AgentError: the agent does not answer.
        LabError: the hypervisor exited.
        UnsupportedError: the domain has no console.
    """
    name, launch = running.guest.name, running.launch
    if running.guest.engine == "xen":
        at = at_terminal(console_of(agent, name))
        relay = f"{name}:agent"
        running.channel = RelayedTransport(
            agent, relay, at, watch=running.watch, words=lambda: str(running.words())
        )
        running.console = running.channel
    else:
        running.console = _relay(agent, running, "console", launch.console, watch=running.watch)
        running.channel = _relay(agent, running, "agent", launch.channel, words=lambda: str(running.words()))
    if running.panic:
        running.channel.end(running.panic)
    return Agent(running.channel, name=name, hello_deadline_s=boot_deadline_s)


def patience_s(running: RunningGuest, usual_s: float) -> float:
    """Return the time within which a guest's agent must answer [s]."""
    long = running.launch.nested or "xen" in (running.guest.engine, running.guest.image)
    return NESTED_BOOT_DEADLINE_S if long else usual_s


def _relay(agent: Agent, running: RunningGuest, role: str, path: str, **options: Json) -> RelayedTransport:
    relay = f"{running.guest.name}:{role}"
    for _ in range(SOCKET_TRIES):
        try:
            return RelayedTransport(agent, relay, at_socket(path), timeout_ms=SOCKET_TIMEOUT_MS, **options)
        except Refused:
            if (ending := ended(agent, running.process, 1)) is not None:
                raise LabError(_told(ending)) from None
    raise LabError(Phrase("run.hypervisor-without-socket", path=path))


def autopsy(agent: Agent, running: RunningGuest, error: Exception, boot_deadline_s: float) -> Text:
    """Remove a guest that failed to start; return the known reasons."""
    said: Text = error.args[0] if isinstance(error, IolabError) else str(error)
    if isinstance(error, AgentLost) and running.channel is not None:
        gone = running.channel.ended
        ending = ended(agent, running.process, END_WAIT_MS) if gone else None
        waited = Phrase("run.guest-agent-silent", seconds=f"{boot_deadline_s:.0f}")
        said = running.panic or (_told(ending) if ending is not None else gone or waited)
        said = Phrase("errors.several-clauses", clauses=[said, running.words() or _silent(running.launch)])
    for relay in (running.channel, running.console):
        if relay is not None:
            relay.close(END_DEADLINE_S)
    end([(agent, running)])
    return said


def end(guests: list[tuple[Agent, RunningGuest]]) -> None:
    """Stop the guests of these agents, and remove their switches and scratch folders; missing guests are ignored."""
    stop_together((agent, one.process) for agent, one in guests if one.guest.engine == "qemu")
    for agent, running in guests:
        if running.guest.engine == "xen":
            with contextlib.suppress(Refused, AgentLost):
                destroy_domain(agent, running.guest.name)
        stop_switches(agent, running.guest.name, running.switches)
        with contextlib.suppress(
            Refused, AgentLost
        ):  # the folder never existed, or is removed with the parent
            agent.call("folder.delete", {"name": running.guest.name})


def _told(ending: ProcessEnded) -> Text:
    """Return the exit status of a hypervisor as text for a message."""
    said = ending.stderr.strip()[-500:]
    advice = Phrase("run.give-less-memory") if "Cannot allocate memory" in said else ""
    ended_so = Phrase("run.hypervisor-ended", ending=how(ending))
    what = Phrase("errors.failed-with-reason", what=ended_so, reason=said) if said else ended_so
    return Phrase("errors.several-clauses", clauses=[what, advice])


def _silent(launch: Launch) -> Phrase:
    """Return a message with possible reasons why a guest's console shows nothing."""
    if launch.accel != "kvm":
        return Phrase("run.console-shows-nothing")
    if launch.untold:
        return Phrase("run.kvm-boot-not-seen", reason=launch.untold)
    return Phrase("run.kvm-may-run-nothing")
