"""Kill controller, agent or both by kill -9 at random moments of a run; check host state and stored trials.

Usage: python -m benches.faults.kill [KILLS] [SEED] [KIND]. Needs root and iperf3; takes about 4 s per kill. The bench
kills and resumes each run until it is complete, then starts the next run. KIND is the kind of lab: command (iperf3 runs
as a user program), service (a machine has files, commands and services), guests (two virtual machines, one of which is
recreated between trials; needs QEMU and the image linux, 12 s per kill), hosts (two with separate sshds, whose agents
are killed too; they exist for ten minutes: 40 kills), wire (an emulated path), watch (a watched path: no other agent
may work on the kernel then, since BPF programs and maps have no namespace), shape (the kernel or a pacer shapes a
link), disk (a file system is made and mounted for fio), iscsi (the file system is on a target of the lab, which is
killed as well: the run is ended by SIGTERM then), guest-disk (the hypervisor of a guest logs in to such a target; both
are among the victims), existing (two disks, a folder, a LUN and an NBD export that exist before the lab; one disk may
be written). An unrelated file and its loop device must remain. Exit status 1: something was left behind or lost. On a
host with other labs, run it in separate namespaces:
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

from benches.faults import killed_disks, killed_hosts
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
"""Names of further victims, if the lab has them; process names have at most 15 letters."""
HOSTS: list[SshHost] = []
"""Hosts reached by ssh, if the lab has any."""
OURS = ("iperf3", "iolab", "qemu", "vhost-", TARGET)
"""Prefixes of the process names of labs."""
KILLED = f"killed{secrets.token_hex(2)}"
"""Name of the volume of these labs, which is unique on this host, because all labs use one folder."""
ARGUMENTS = (
    Argument("kills", 200, "how often something is killed"),
    Argument("seed", 1, "of the victims and moments"),
    Argument("kind", "", "what the lab is; absent: the quickstart", allowed=tuple(LABS)),
)
MAKE_BPF = ("guests", "hosts", "watch", "wire")
"""Kinds of labs with BPF programs and maps, which have no namespace; in other labs, all BPF programs and maps are
foreign."""
NEIGHBOUR_BYTES = 16 << 20
"""Size of a file and a disk that no lab may touch."""
LATEST_S = 4.0
"""Latest time of a kill. Starting takes about a second, so kills hit start, creation, and the first trials."""
LATEST_GUESTS_S = 16.0
"""Latest time of a kill with guests, which are ready after about 8 s, and again after a restart for another trial
[s]."""
END_S = 30.0
"""Time within which remaining processes must end by themselves."""


class Beside(NamedTuple):
    """Objects outside the runs that must stay, and the kind of lab."""

    file: Path
    disk: str
    """Loop device on the file."""
    kind: str
    disks: killed_disks.Disks | None
    """Disks that exist before the labs, if the kind has them."""

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `iolab run` and `iolab resume`."""
        return () if self.disks is None else self.disks.options


def host_state(beside: Beside) -> dict[str, str]:
    """Return the state that a lab could leave behind on this host, and the state that it must not touch."""
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
        **({} if beside.disks is None else beside.disks.state()),
    }


def neighbours(folder: Path, kind: str, disks: killed_disks.Disks | None) -> Beside:
    """Create a file and a loop device on it."""
    file = folder / "neighbour"
    file.write_bytes(random.Random(1).randbytes(NEIGHBOUR_BYTES))
    return Beside(file, output("losetup", "--find", "--show", str(file)).strip(), kind, disks)


def digests(file: Path, disk: str) -> dict[str, str]:
    """Return the digests of the neighbour files, and the loop devices on them or on volumes of the labs above."""
    loops = shown("losetup", "--list", "--raw").splitlines()
    ours = [line for line in loops if f"iolab-{KILLED}" in line or str(file) in line]
    return {"neighbours": shown("sha256sum", str(file), disk), "loops": "\n".join(ours)}


def state_folders() -> list[str]:
    """Return the non-empty per-lab folders in the agents' state folder, including scratch folders of guests."""
    state = Path(os.environ.get("IOLAB_STATE_DIR", "/run/iolab"))
    return sorted(str(path) for path in state.glob("*/**/*") if path.is_dir())


def wait_until(condition: Callable[[], bool], deadline_s: float) -> None:
    """Wait for a condition, polled every 20 ms, up to a limit."""
    end = time.monotonic() + deadline_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def agent_of(controller: int) -> int | None:
    """Return the process id of a controller's agent."""
    listed = shown("ps", "--ppid", str(controller), "-o", "pid=,comm=")
    rows = [line.split(None, 1) for line in listed.splitlines()]
    return next((int(pid) for pid, name in rows if name.startswith("iolab-agent")), None)


def pid_of(name: str) -> int | None:
    """Return the process ID of the process with this name, if there is one."""
    return next((int(word) for word in shown("ps", "-C", name, "-o", "pid=").split()), None)


def kill_once(argv: list[str], victim: str, moment_s: float) -> list[str]:
    """Start iolab, kill the victim at that moment, and wait; return the other processes that did not end."""
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
        running.kill()  # too early for an agent, or too late
    if victim in ("target", "guest"):  # processes that wait for it wait long
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
    """Return the differences from the state before."""
    after = host_state(beside)
    return [
        f"{when}, {name} is {after[name]!r}, was {before[name]!r}"
        for name in before
        if before[name] != after[name]
    ]


def faults_of(
    before: dict[str, str], victim: str, stored: list[str], folder: Path | None, beside: Beside
) -> list[str]:
    """Return violations: only a killed agent may leave something, until the host is cleaned."""
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
    """Return the keys of completely stored trials."""
    return [record.key for record in load_run(folder).trials] if folder else []


def finish(folder: Path, options: tuple[str, ...]) -> list[str]:
    """Resume a run to its end; return its errors."""
    resumed = subprocess.run(
        [str(IOLAB), "resume", str(folder), "--retry-failed", *options],
        capture_output=True,
        text=True,
        check=False,
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
    """Kill, check, resume, and report."""
    asked = arguments(__doc__, *ARGUMENTS)
    chance = random.Random(asked.seed)
    subprocess.run([str(IOLAB), "clean"], capture_output=True, check=False)  # creates the state folder
    with contextlib.ExitStack() as stack:
        parent, near = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        disks = None
        if asked.kind == "hosts":
            HOSTS.extend(stack.enter_context(killed_hosts.two_hosts(near / "hosts")))
        elif asked.kind == "existing":
            disks = stack.enter_context(killed_disks.existing_disks(near / "disks"))
        beside = neighbours(near, asked.kind, disks)
        stack.callback(subprocess.run, ["losetup", "--detach", beside.disk], check=False)
        faults = kill_often(asked.kills, chance, parent, beside)
    print(f"{asked.kills} kills, {faults} with faults")
    return int(faults > 0)


def kill_often(kills: int, chance: random.Random, parent: Path, beside: Beside) -> int:
    """Kill run after run; return the number of kills with errors."""
    lab, kind = LAB, beside.kind
    if kind:
        lab = parent / f"{kind}.yaml"
        text = LABS[kind].replace("killed", KILLED)
        lab.write_text(text if beside.disks is None else beside.disks.lab(text))
    also = {"iscsi": ("target",), "guest-disk": ("target", "guest"), "hosts": (REMOTE,)}
    victims = (*VICTIMS, *also.get(kind, ()))
    before, folder, faults, finished = host_state(beside), None, 0, 0
    for number in range(1, kills + 1):
        start = ["resume", str(folder)] if folder else ["run", str(lab), "-o", str(parent)]
        stored, victim = keys_of(folder), chance.choice(victims)
        found = kill_once(
            [str(IOLAB), *start, *beside.options],
            victim,
            chance.uniform(0.1, LATEST_GUESTS_S if kind.startswith("guest") else LATEST_S),
        )
        runs = find_runs(parent)
        folder = folder or (runs[-1] if len(runs) > finished else None)
        found += faults_of(before, victim, stored, folder, beside)
        if folder and (number == kills or len(keys_of(folder)) == len(load_run(folder).plan.steps)):
            found += finish(folder, beside.options)
            folder, finished = None, len(runs)
        for fault in found:
            print(f"kill {number} ({victim}): {fault}", flush=True)
        faults += bool(found)
        if number % 10 == 0:
            print(f"{number} kills, {faults} with faults", flush=True)
    return faults


if __name__ == "__main__":
    sys.exit(main())
