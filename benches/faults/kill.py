"""kill -9 of controller, agent, or both, at random moments of a run: is the host as before, are all trials kept?

Usage: python -m benches.faults.kill [KILLS] [SEED] [KIND]. Needs root and iperf3; about 4 s per kill, which hit
one run after another until each is complete. KIND is what the lab is: command (iperf3 runs as a program of the user's
own), service (a machine has files, commands and services), guests (two virtual machines, one of which is made again
between trials; needs QEMU and the image linux, 12 s per kill), hosts (two behind sshds of their own, whose agents are
killed too; they stand for ten minutes: 40 kills), wire (an emulated path), watch (a watched one: no other agent may
work on the kernel then, for BPF programs and maps have no namespace), shape (the kernel or a pacer shapes a link),
disk (a file system is made and mounted for fio), iscsi (it lies on a target of the lab, which is killed as well: the
run is ended by SIGTERM then), guest-disk (the hypervisor of a guest logs in to such a target; both are among the
victims). A neighbour file and its loop device must stay. Exit status 1: something was left behind or lost.
On a host where other labs work, give it namespaces of its own:
unshare --mount --net --pid --fork --mount-proc sh -c 'mount -t tmpfs tmpfs /run; python ...; true'
"""

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benches.faults import killed_hosts
from benches.faults.kill_labs import LABS
from benches.harness import bpf_objects
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import output, shown
from benches.harness.run import IOLAB
from tests.netns.sshd import SshHost

from iolab.store.read import find_runs, load_run

LAB = Path(__file__).parents[2] / "labs" / "quickstart.yaml"
VICTIMS = ("controller", "agent", "both")
TARGET, GUEST, REMOTE = "tgtd", "qemu-system-x86", "remote agent"
"""Killed as well where the lab has one; the names of processes have 15 letters."""
HOSTS: list[SshHost] = []
"""Behind ssh, where the lab has any."""
OURS = ("iperf3", "iolab", "qemu", "vhost-", TARGET)
"""How the names of processes of labs begin."""
KILLED = f"killed{secrets.token_hex(2)}"
"""The volume of these labs: no other lab of this computer has one of that name, though all lie in one folder."""
ARGUMENTS = (
    Argument("kills", 200, "how often something is killed"),
    Argument("seed", 1, "of the victims and moments"),
    Argument("kind", "", "what the lab is; absent: the quickstart", allowed=tuple(LABS)),
)
MAKE_BPF = ("guests", "hosts", "watch", "wire")
"""Labs with BPF programs and maps. These have no namespace: where a lab makes none, all there are belong to others."""
NEIGHBOUR_BYTES = 16 << 20
"""Of a file and a disk that no lab may touch."""
LATEST_S = 4.0
"""Starting takes about a second, so kills fall on starting, building, and on the first trials."""
LATEST_GUESTS_S = 16.0
"""Guests are there after about 8 s, and again when one was made anew for another trial."""
END_S = 30.0
"""What remains must end by itself within this."""


class Beside(NamedTuple):
    """What stands beside the runs and must stay, and what their lab is."""

    file: Path
    disk: str
    """A loop device on the file."""
    kind: str


def host_state(beside: Beside) -> dict[str, str]:
    """Return what a lab could leave behind on this host, and what it must not touch."""
    sysctls = r"net\.(ipv4\.(ip_forward|conf)|ipv6\.conf|core\..*(max|default))"
    commands = {
        "netns": ["ip", "netns"],
        "links": ["ip", "-o", "link"],
        "qdiscs": ["tc", "qdisc"],
        "mounts": ["grep", "iolab", "/proc/self/mounts"],
        "sysctls": ["sysctl", "-a", "--pattern", sysctls],
        "processes": ["ps", "-eo", "state=,comm="],
    }
    texts = {name: shown(*argv) for name, argv in commands.items()}
    alive = [line.split(None, 1)[1] for line in texts["processes"].splitlines() if not line.startswith("Z")]
    ours = sorted(name for name in alive if name.startswith(OURS))
    return {
        **texts,
        **digests(beside.file, beside.disk),
        "processes": " ".join(ours),
        "bpf": bpf_objects.ours() if beside.kind in MAKE_BPF else "",
        "volumes": " ".join(map(str, Path("/var/tmp").glob(f"iolab-{KILLED}*"))),
        "folders": " ".join(state_folders()),
        **killed_hosts.states(HOSTS),
    }


def neighbours(folder: Path, kind: str) -> Beside:
    """Make a file, and a loop device on it."""
    file = folder / "neighbour"
    file.write_bytes(random.Random(1).randbytes(NEIGHBOUR_BYTES))
    return Beside(file, output("losetup", "--find", "--show", str(file)).strip(), kind)


def digests(file: Path, disk: str) -> dict[str, str]:
    """Return what the neighbours hold, and which loop devices are on them or on volumes of the labs above."""
    loops = shown("losetup", "--list", "--raw").splitlines()
    ours = [line for line in loops if f"iolab-{KILLED}" in line or str(file) in line]
    return {"neighbours": shown("sha256sum", str(file), disk), "loops": "\n".join(ours)}


def state_folders() -> list[str]:
    """Return the folders of the agents' state folder that hold something of one lab: guests' scratch among them."""
    state = Path(os.environ.get("IOLAB_STATE_DIR", "/run/iolab"))
    return sorted(str(path) for path in state.glob("*/**/*") if path.is_dir())


def wait_until(condition: Callable[[], bool], deadline_s: float) -> None:
    """Wait for a condition, looking every 20 ms, at most that long."""
    end = time.monotonic() + deadline_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def agent_of(controller: int) -> int | None:
    """Return the process id of a controller's agent."""
    listed = shown("ps", "--ppid", str(controller), "-o", "pid=,comm=")
    rows = [line.split(None, 1) for line in listed.splitlines()]
    return next((int(pid) for pid, name in rows if name.startswith("iolab-agent")), None)


def pid_of(name: str) -> int | None:
    """Return the process of this name, if there is one."""
    return next((int(word) for word in shown("ps", "-C", name, "-o", "pid=").split()), None)


def kill_once(argv: list[str], victim: str, moment_s: float) -> list[str]:
    """Start iolab, kill the victim at that moment, and wait for what remains to end by itself; return what did not."""
    running = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(moment_s)
    agent = agent_of(running.pid)
    targets: dict[str, list[int | None]] = {
        "controller": [running.pid],
        "agent": [agent],
        "both": [agent, running.pid],
        "target": [pid_of(TARGET)],
        "guest": [pid_of(GUEST)],
        REMOTE: [pid for host in HOSTS[:1] for pid in host.agents()],
    }
    for pid in targets[victim]:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if victim == "agent" and agent is None:
        running.kill()  # it was too early for an agent, or too late
    if victim in ("target", "guest"):  # what waits for it waits long
        time.sleep(1)
        running.terminate()
    wait_until(lambda: running.poll() is not None, END_S)
    waits = shown("ps", "-eo", "pid=,ppid=,stat=,wchan:20=,args=")
    found = [] if running.poll() is not None else [f"iolab did not end within {END_S:g} s: {waits}"]
    running.kill()
    running.wait()
    if agent is not None:
        wait_until(lambda: not Path(f"/proc/{agent}").exists(), END_S)
    return found


def differences(before: dict[str, str], when: str, beside: Beside) -> list[str]:
    """Return what differs from the state before."""
    after = host_state(beside)
    return [
        f"{when}, {name} is {after[name]!r}, was {before[name]!r}"
        for name in before
        if before[name] != after[name]
    ]


def faults_of(
    before: dict[str, str], victim: str, stored: list[str], folder: Path | None, beside: Beside
) -> list[str]:
    """Return what is not as it must be; only a killed agent may leave something, until the host is cleaned."""
    found = (
        differences(before, "before cleaning", beside) if victim in ("controller", "target", "guest") else []
    )
    cleaned = subprocess.run([str(IOLAB), "clean"], capture_output=True, text=True, check=False)
    found += killed_hosts.clean(IOLAB, HOSTS)
    found += differences(before, "after cleaning", beside)
    if cleaned.returncode:
        found.append(f"clean ended with {cleaned.returncode}: {cleaned.stderr}")
    lost = set(stored) - set(keys_of(folder))
    if lost:
        found.append(f"{len(lost)} stored trials are lost")
    return found


def keys_of(folder: Path | None) -> list[str]:
    """Return the keys of the trials that are stored whole."""
    return [record.key for record in load_run(folder).trials] if folder else []


def finish(folder: Path) -> list[str]:
    """Resume a run to its end; return what is wrong with it."""
    resumed = subprocess.run(
        [str(IOLAB), "resume", str(folder), "--retry-failed"], capture_output=True, text=True, check=False
    )
    keys, steps = keys_of(folder), load_run(folder).plan.steps
    print(
        f"{folder.name}: {len(keys)} trials of {len(steps)}, {len(keys) - len(set(keys))} again", flush=True
    )
    if resumed.returncode or set(keys) != {step.key for step in steps}:
        whys = [str(record.result.reason) for record in load_run(folder).trials if record.result.reason]
        return [f"resume ended with {resumed.returncode}: {resumed.stderr} {'; '.join(whys)}"]
    return []


def main() -> int:
    """Kill, look, resume, and tell."""
    asked = arguments(__doc__, *ARGUMENTS)
    chance = random.Random(asked.seed)
    subprocess.run([str(IOLAB), "clean"], capture_output=True, check=False)  # makes the state folder
    with tempfile.TemporaryDirectory() as parent, tempfile.TemporaryDirectory() as near:
        beside = neighbours(Path(near), asked.kind)
        try:
            with contextlib.ExitStack() as stack:
                if asked.kind == "hosts":
                    HOSTS.extend(stack.enter_context(killed_hosts.two_hosts(Path(near) / "hosts")))
                faults = kill_often(asked.kills, chance, Path(parent), beside)
        finally:
            subprocess.run(["losetup", "--detach", beside.disk], check=False)
    print(f"{asked.kills} kills, {faults} with faults")
    return int(faults > 0)


def kill_often(kills: int, chance: random.Random, parent: Path, beside: Beside) -> int:
    """Kill run after run; return how many kills had faults."""
    lab, kind = LAB, beside.kind
    if kind:
        lab = parent / f"{kind}.yaml"
        lab.write_text(LABS[kind].replace("killed", KILLED))
    also = {"iscsi": ("target",), "guest-disk": ("target", "guest"), "hosts": (REMOTE,)}
    victims = (*VICTIMS, *also.get(kind, ()))
    before, folder, faults, finished = host_state(beside), None, 0, 0
    for number in range(1, kills + 1):
        begin = [str(IOLAB), "run", str(lab), "-o", str(parent)]
        stored, victim = keys_of(folder), chance.choice(victims)
        found = kill_once(
            [str(IOLAB), "resume", str(folder)] if folder else begin,
            victim,
            chance.uniform(0.1, LATEST_GUESTS_S if kind.startswith("guest") else LATEST_S),
        )
        runs = find_runs(parent)
        folder = folder or (runs[-1] if len(runs) > finished else None)
        found += faults_of(before, victim, stored, folder, beside)
        if folder and (number == kills or len(keys_of(folder)) == len(load_run(folder).plan.steps)):
            found += finish(folder)
            folder, finished = None, len(runs)
        for fault in found:
            print(f"kill {number} ({victim}): {fault}", flush=True)
        faults += bool(found)
        if number % 10 == 0:
            print(f"{number} kills, {faults} with faults", flush=True)
    return faults


if __name__ == "__main__":
    sys.exit(main())
