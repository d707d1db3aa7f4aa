"""kill -9 of controller, agent, or both, at random moments of a run: is the host as before, are all trials kept?

Usage: python benches/kill.py [KILLS] [SEED]. Needs root and iperf3; about 5 s per kill. The kills hit one run, which is
resumed each time and must end complete. Exit status 1 when anything was left behind or lost.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from iolab.store.read import load_run

IOLAB = Path(sys.executable).with_name("iolab")
LAB = Path(__file__).parent.parent / "labs" / "quickstart.yaml"
VICTIMS = ("controller", "agent", "both")


def host_state() -> dict[str, str]:
    """Return what a lab could leave behind on this host."""
    commands = {
        "netns": ["ip", "netns"],
        "links": ["ip", "-o", "link"],
        "qdiscs": ["tc", "qdisc"],
        "sysctls": [
            "sysctl",
            "-a",
            "--pattern",
            r"net\.(ipv4\.(ip_forward|conf)|ipv6\.conf|core\..*(max|default))",
        ],
        "processes": ["ps", "-eo", "comm"],
    }
    texts = {}
    for name, argv in commands.items():
        texts[name] = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    names = texts["processes"].split()
    texts["processes"] = " ".join(sorted(name for name in names if name.startswith(("iperf3", "iolab"))))
    return texts


def wait_until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Wait for a condition, looking every 20 ms; return whether it came true."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def agent_of(controller: int) -> int | None:
    """Return the process id of a controller's agent."""
    argv = ["ps", "--ppid", str(controller), "-o", "pid=,comm="]
    listed = subprocess.run(argv, capture_output=True, text=True, check=False)
    rows = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return next((int(pid) for pid, name in rows if name.startswith("iolab-agent")), None)


def kill_once(argv: list[str], victim: str, moment_s: float) -> None:
    """Start iolab, kill the victim at that moment, and wait for what remains to end by itself."""
    running = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(moment_s)
    agent = agent_of(running.pid)
    targets = {"controller": [running.pid], "agent": [agent], "both": [agent, running.pid]}[victim]
    for pid in targets:
        if pid is not None:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    running.wait(30)
    if agent is not None:
        wait_until(lambda: not Path(f"/proc/{agent}").exists(), 30)


def finished(folder: Path) -> list[str]:
    """Return the keys of the trials that are stored whole."""
    return [record.key for record in load_run(folder).trials]


def main() -> int:
    """Kill, look, resume, and tell."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    before = host_state()
    faults = 0
    with tempfile.TemporaryDirectory() as parent:
        folder: Path | None = None
        stored: list[str] = []
        for number in range(kills):
            begin = [str(IOLAB), "run", str(LAB), "-o", parent]
            argv = begin if folder is None else [str(IOLAB), "resume", str(folder)]
            victim = chance.choice(VICTIMS)
            kill_once(argv, victim, chance.uniform(0.2, 4.0))
            cleaned = subprocess.run([str(IOLAB), "clean"], capture_output=True, text=True, check=False)
            after = host_state()
            left = [name for name in before if before[name] != after[name]]
            runs = [path for path in Path(parent).iterdir() if (path / "plan.json").exists()]
            folder = runs[0] if runs else None
            now = finished(folder) if folder else []
            lost = [key for key in stored if key not in now]
            if left or lost or cleaned.returncode:
                faults += 1
                print(
                    f"kill {number} ({victim}): left {left}, lost {len(lost)}, clean {cleaned.returncode} {cleaned.stderr}"
                )
                for name in left:
                    print(f"  {name} before: {before[name]!r}\n  {name} after:  {after[name]!r}")
            stored = now
            if folder and len(stored) == len(load_run(folder).plan.steps):
                print(f"run complete after {number + 1} kills; beginning another")
                folder.rename(folder.with_name(f"done-{number}"))
                for name in ("plan.json",):
                    (Path(parent) / f"done-{number}" / name).rename(
                        Path(parent) / f"done-{number}" / f"{name}.done"
                    )
                folder, stored = None, []
        if folder is not None:
            status = subprocess.run(
                [str(IOLAB), "resume", str(folder)], check=False, stdout=subprocess.DEVNULL
            ).returncode
            keys = finished(folder)
            steps = len(load_run(folder).plan.steps)
            twice = len(keys) - len(set(keys))
            print(
                f"last resume ended with {status}; {len(set(keys))} of {steps} trials stored, {twice} twice"
            )
            faults += status != 0 or len(set(keys)) != steps
    print(f"{kills} kills, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
