"""The switches in user space that carry cards of guests: started before their guest, ended after it.

What a switch is, is decided in lab/switch.py.
"""

from collections.abc import Iterable, Mapping

from iolab.agent.client import REPLY_SLACK_S, Agent, AgentLost, Refused
from iolab.agent.messages import Json
from iolab.errors import LabError
from iolab.lab.guest import Guest, GuestNic, VhostUserBackend
from iolab.lab.switch import PROGRAM, switch_argv, switch_id, switched

START_TIMEOUT_MS = 10_000
WAIT_MS = 50
TRIES = 1200
"""It makes its socket within a second, on a busy computer within many; after each wait it is asked whether it runs."""
GRACE_MS = 500
END_DEADLINE_S = 10.0
ADVICE = "install the package dpdk-dev, with which its drivers net_vhost and net_tap come"
ALLOWED = ("grep", "-h", "Cpus_allowed_list:", "/proc/self/status")
"""Shows on which CPUs programs of the agent may run."""


def start_switches(agent: Agent, guest: Guest, folder: str) -> dict[str, int]:
    """Start the switches of a guest; return the process id of each card's when all have made their sockets.

    Raises:
        LabError: one did not come up; none is left then.
    """
    cards = switched(guest)
    if not cards:
        return {}
    cpus = agent.run(ALLOWED).stdout.partition(":")[2].strip() or "0"
    started: dict[str, int] = {}
    try:
        for nic, backend in cards:
            started[nic.name] = _start(agent, guest.name, nic, backend, (folder, cpus))
        for nic, backend in cards:
            _await_socket(agent, guest.name, nic, f"{folder}/{backend.socket}")
    except LabError:
        stop_switches(agent, guest.name, started)
        raise
    return started


def stop_switches(agent: Agent, guest: str, cards: Iterable[str]) -> None:
    """End the switches of these cards; what is gone already is passed over."""
    params = [{"id": switch_id(guest, name), "grace_ms": GRACE_MS} for name in cards]
    for pending in [agent.begin("process.stop", one) for one in params]:
        try:
            pending.result(END_DEADLINE_S)
        except (Refused, AgentLost):
            continue


def _start(agent: Agent, guest: str, nic: GuestNic, backend: VhostUserBackend, place: tuple[str, str]) -> int:
    folder, cpus = place
    params: dict[str, Json] = {
        "id": switch_id(guest, nic.name),
        "argv": list(switch_argv(nic, backend, folder, cpus)),
        "netns": backend.netns,
        "env": {
            "RUNTIME_DIRECTORY": folder
        },  # where it would keep what it shares; nothing of it outlives the guest
        "timeout_ms": START_TIMEOUT_MS,
    }
    try:
        return int(agent.call("process.start", params, START_TIMEOUT_MS / 1000 + REPLY_SLACK_S)["pid"])
    except Refused as error:
        raise LabError(f"starting the switch of {guest}.{nic.name}: {error}; {ADVICE}") from error


def _await_socket(agent: Agent, guest: str, nic: GuestNic, path: str) -> None:
    what = f"starting the switch of {guest}.{nic.name}"
    for _ in range(TRIES):
        if agent.run(("test", "-S", path)).succeeded:
            return
        try:
            params = {"id": switch_id(guest, nic.name), "timeout_ms": WAIT_MS}
            ended: Mapping[str, Json] = agent.call("process.wait", params)
        except Refused:
            continue  # it runs
        raise LabError(f"{what}: {_told(ended)}")
    raise LabError(f"{what}: {PROGRAM} made no socket within {TRIES * WAIT_MS // 1000} s")


def _told(ended: Mapping[str, Json]) -> str:
    """Return how a switch ended, in its own words where they say so."""
    lines = [line.strip() for line in f"{ended['stderr']}\n{ended['stdout']}".splitlines()]
    said = "; ".join(line for line in lines if any(word in line.lower() for word in COMPLAINTS))[:WORDS]
    how = f"signal {ended['signal']}" if ended.get("signal") is not None else f"status {ended['exit_status']}"
    advice = f"; {ADVICE}" if NO_DRIVER in said else ""
    return f"{PROGRAM} ended with {how}{f': {said}' if said else ''}{advice}"


COMPLAINTS = ("unable", "cannot", "failed", "invalid", "error", "cause")
WORDS = 500
NO_DRIVER = "Unable to parse device"
"""What DPDK says of a device for which it has no driver."""
