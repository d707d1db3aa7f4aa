"""User-space switches for guests' NICs: start, pin, stop; and processes that an agent supervises."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iolab.agent.client import Agent, AgentLost, Refused
from iolab.agent.messages import ProcessEnded
from iolab.errors import AgentError, LabError
from iolab.lab.guests.guest import Guest, GuestNic, VhostUserBackend
from iolab.lab.guests.start import PROGRAM, RUNTIME, switch_argv, switch_id, switched
from iolab.locale import Phrase, Text

GRACE_MS = 500
END_DEADLINE_S = 10.0
START_TIMEOUT_MS = 10_000
WAIT_MS = 50
TRIES = 1200
"""Number of waits for the socket, which appears within a second, or within many seconds on a busy host; after each wait
the process is checked."""
ADVICE = Phrase("run.install-dpdk-drivers")
ALLOWED = ("grep", "-h", "Cpus_allowed_list:", "/proc/self/status")
"""Command that shows the CPUs on which the agent's programs may run."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A started switch."""

    pid: int
    """Process ID on the guest's parent."""
    netns: str | None
    """Network namespace of the switch."""
    argv: tuple[str, ...]
    """Command of the switch."""
    environment: Mapping[str, str]
    """Additional environment variables."""


def start_switches(agent: Agent, guest: Guest, folder: str) -> dict[str, Switch]:
    """Start the switches of a guest; return the switch of each NIC when all sockets exist.

    Raises:
        LabError: a switch did not start; the others are stopped.
    """
    cards = switched(guest)
    if not cards:
        return {}
    cpus = agent.run(ALLOWED).stdout.partition(":")[2].strip() or "0"
    started: dict[str, Switch] = {}
    try:
        for nic, backend in cards:
            started[nic.name] = _start(agent, guest.name, nic, backend, (folder, cpus))
        for nic, backend in cards:
            _await_socket(agent, guest.name, nic, f"{folder}/{backend.socket}")
    except (AgentError, LabError):
        stop_switches(agent, guest.name, started)
        raise
    return started


def stop_switches(agent: Agent, guest: str, cards: Iterable[str]) -> None:
    """Stop the switches of these NICs; missing switches are ignored."""
    stop_together((agent, switch_id(guest, name)) for name in cards)


def _start(
    agent: Agent, guest: str, nic: GuestNic, backend: VhostUserBackend, place: tuple[str, str]
) -> Switch:
    folder, cpus = place
    argv, environment = switch_argv(nic, backend, folder, cpus), {RUNTIME: folder}
    try:
        started = agent.start(
            switch_id(guest, nic.name),
            argv,
            netns=backend.netns,
            environment=environment,  # the switch's files are removed with the guest
            timeout_ms=START_TIMEOUT_MS,
        )
    except Refused as error:
        raise LabError(
            Phrase("run.switch-did-not-start", guest=guest, nic=nic.name, reason=error, advice=ADVICE)
        ) from error
    return Switch(started.pid, backend.netns, argv, environment)


def _await_socket(agent: Agent, guest: str, nic: GuestNic, path: str) -> None:
    what = Phrase("run.starting-the-switch", guest=guest, nic=nic.name)
    for _ in range(TRIES):
        if agent.run(("test", "-S", path)).succeeded:
            return
        if (ending := ended(agent, switch_id(guest, nic.name), WAIT_MS)) is not None:
            raise LabError(Phrase("errors.failed-with-reason", what=what, reason=_told(ending)))
    raise LabError(
        Phrase("run.switch-made-no-socket", what=what, program=PROGRAM, seconds=TRIES * WAIT_MS // 1000)
    )


def _told(ending: ProcessEnded) -> Text:
    """Return the reason why a switch exited, from its own output if possible."""
    lines = [line.strip() for line in f"{ending.stderr}\n{ending.stdout}".splitlines()]
    said = "; ".join(line for line in lines if any(word in line.lower() for word in COMPLAINTS))[:WORDS]
    ended_so = Phrase("run.program-ended", program=PROGRAM, ending=how(ending))
    what = Phrase("errors.failed-with-reason", what=ended_so, reason=said) if said else ended_so
    return Phrase("errors.several-clauses", clauses=[what, ADVICE if NO_DRIVER in said else ""])


def ended(agent: Agent, process: str, timeout_ms: int) -> ProcessEnded | None:
    """Return the exit status of a process within a time limit; None: the process runs, or its state is unknown."""
    try:
        return agent.wait(process, timeout_ms)
    except (Refused, AgentLost):
        return None


def how(end: ProcessEnded) -> Text:
    """Return the exit status of a process as text."""
    return (
        Phrase("run.ended-by-signal", signal=end.signal)
        if end.signal is not None
        else Phrase("run.ended-with-status", status=end.exit_status)
    )


def stop_together(processes: Iterable[tuple[Agent, str]]) -> None:
    """Stop processes of several agents; missing ones are ignored."""
    params = [(agent, {"id": process, "grace_ms": GRACE_MS}) for agent, process in processes]
    for pending in [agent.begin("process.stop", one) for agent, one in params]:
        try:
            pending.result(END_DEADLINE_S)
        except (Refused, AgentLost):
            continue


COMPLAINTS = ("unable", "cannot", "failed", "invalid", "error", "cause")
WORDS = 500
NO_DRIVER = "Unable to parse device"
"""DPDK's message that a device has no driver."""
