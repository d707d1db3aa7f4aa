"""Check that two labs that run on one host at the same time do not change each other.

Usage: python -m benches.faults.labs_at_once [PAIRS [SEED]]. Needs root and iperf3; about 8 s per pair.

Each pair is two random labs: machines, bridges or routers, VLAN or not, MTU, a shaper or an emulated link, kernel
settings. The first lab runs longer. Its namespaces are read with ip, tc, ethtool and sysctl, independently of iolab,
before the second lab starts, several times while it runs, and after it has ended: the result must be the same each
time. All trials of both labs must be ok, and the host's namespaces, interfaces, qdiscs and iolab's journals must be the
same as before the pair. In every fifth pair, the second lab's processes are killed during the run, and `iolab clean
FILE` undoes the second lab while the first continues. The exit status is 1 if something differed.
"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.programs import lab_netns, shown
from benches.harness.run import IOLAB

from iolab.store.read import all_ok, find_runs, load_run

ARGUMENTS = (
    Argument("pairs", 100, "pairs of labs"),
    Argument("seed", 1, "of the random labs"),
)
PATIENCE_S = 60.0
LAB = """
title: {name}
lab:
  machines:
    {{{name}a: {{kind: netns{settings}}}, {name}m: {{kind: netns, forward: {forward}}}, {name}b: {{kind: netns}}}}
  links:
    one: {{ends: [{name}a.eth0, {name}m.eth0], mtu: {mtu}{first}}}
    two: {{ends: [{name}m.eth1, {name}b.eth0], mtu: {mtu}{second}}}
measure:
  tcp: {{kind: stream, from: {name}a, to: {name}b, duration: {seconds}s}}
blocks: {blocks}
"""
FIRST = (
    "",
    ", shape: {at: PORT, qdisc: tbf, rate: 300Mbit}",
    ", shape: {at: PORT, qdisc: htb, rate: 200Mbit}",
    ", wire: {delay: 2ms, rate: 100Mbit}",
    ", offload: {tso: off}",
)
SETTINGS = (
    "",
    ", settings: {net.ipv4.tcp_rmem: '4096 131072 4194304'}",
    ", settings: {net.ipv4.tcp_sack: '0'}",
)
LOOKS = (
    ("ip", "-d", "-o", "link"),
    ("ip", "-o", "addr"),
    ("ip", "-4", "route"),
    ("tc", "qdisc"),
    ("sysctl", "net.ipv4.tcp_rmem", "net.ipv4.tcp_sack", "net.ipv4.ip_forward"),
)


def main() -> int:
    """Run the pairs; return the exit status."""
    given = arguments(__doc__, *ARGUMENTS)
    draws, found = random.Random(given.seed), Counter[str]()
    for number in range(given.pairs):
        with tempfile.TemporaryDirectory(prefix="iolab-pair-") as folder:
            before = host()
            problems = pair(Path(folder), draws, killed=number % 5 == 4)
            if host() != before:
                problems.append("the host differs afterwards")
        found["pairs"] += 1
        for problem in problems:
            found[f"WRONG {problem}"] += 1
            print(f"pair {number}: {problem}", flush=True)
    for what, count in sorted(found.items()):
        print(f"{what}: {count}")
    return 1 if any(what.startswith("WRONG") for what in found) else 0


def host() -> dict[str, str]:
    """Return the state that a lab could leave behind on this host, apart from counters."""
    journals = " ".join(map(str, Path("/run/iolab/journal").glob("*")))
    looks = {
        " ".join(argv): shown(*argv) for argv in (("ip", "netns"), ("ip", "-o", "link"), ("tc", "qdisc"))
    }
    return {**looks, "journals": journals}


def pair(folder: Path, draws: random.Random, *, killed: bool) -> list[str]:
    """Run two random labs at the same time; return the errors."""
    problems: list[str] = []
    one = begun(written(folder, "f", draws, seconds=2, blocks=2))
    waited(lambda: settled("f") or one.poll() is not None)
    if one.poll() is not None:
        return [f"the first lab was not built: {one.communicate()[1]}"]
    before = state("f")
    two = begun(written(folder, "s", draws, seconds=1, blocks=1))
    if killed and waited(lambda: settled("s") or two.poll() is not None) and two.poll() is None:
        kill(two)
        cleaned = subprocess.run([IOLAB, "clean", "s.yaml"], check=False, capture_output=True, text=True)
        if cleaned.returncode:
            problems.append(f"cleaning the killed lab: {cleaned.stderr}")
    while two.poll() is None and one.poll() is None and not problems:
        problems += changes("f", before)
        time.sleep(0.1)  # between two looks, so that the labs have the CPUs
    two.communicate(timeout=PATIENCE_S)
    problems += changes("f", before)
    one.communicate(timeout=PATIENCE_S)
    for name, running in (("f", one), ("s", two)):
        if name == "s" and killed:
            continue
        runs = find_runs(folder / name / "runs")
        if running.returncode or not runs or not all_ok(load_run(runs[0])):
            problems.append(f"lab {name} ended with {running.returncode}, or a trial is not ok")
    return problems


def written(folder: Path, name: str, draws: random.Random, *, seconds: int, blocks: int) -> Path:
    """Write a random lab."""
    path = folder / name / f"{name}.yaml"
    path.parent.mkdir()
    first = draws.choice(FIRST)
    text = LAB.format(
        name=name,
        forward=draws.choice(("bridge", "route")),
        settings=draws.choice(SETTINGS),
        mtu=draws.choice((1500, 4000, 9000)),
        first=first.replace("PORT", f"{name}a.eth0"),
        second="" if "wire" in first else draws.choice(FIRST[:3]).replace("PORT", f"{name}m.eth1"),
        seconds=seconds,
        blocks=blocks,
    )
    path.write_text(text)
    return path


def begun(path: Path) -> "subprocess.Popen[str]":
    """Start a run in the folder of its file."""
    argv: list[str | Path] = [IOLAB, "run", path]
    return subprocess.Popen(argv, cwd=path.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def settled(name: str) -> bool:
    """Whether a lab is built; until then, the programs that build the lab run in its namespaces too."""
    netns = lab_netns(f"{name}b")
    pids = shown("ip", "netns", "pids", netns).split() if netns else []
    return any("iperf3" in shown("cat", f"/proc/{pid}/comm") for pid in pids)


def state(name: str) -> dict[str, str]:
    """Return the state of a lab's namespaces, apart from counters and routes that the kernel learns."""
    found = {}
    for machine in (f"{name}a", f"{name}m", f"{name}b"):
        netns = lab_netns(machine)
        for argv in LOOKS:
            text = shown("ip", "netns", "exec", netns, *argv)
            found[f"{machine}: {' '.join(argv)}"] = re.sub(
                r"valid_lft \S+|preferred_lft \S+|\b\w+_timer +\S+", "", text
            )
    return found


def changes(name: str, before: dict[str, str]) -> list[str]:
    """Return the changes in a lab after a second reading, because a lab that is being removed differs at first."""
    seen = []
    for _ in range(2):
        if not settled(name):
            return []
        seen.append(difference(before, state(name)))
        time.sleep(0.3)  # a lab is removed in less
    return [f"the first lab was changed: {seen[0]}"] if all(seen) and settled(name) else []


def difference(before: dict[str, str], after: dict[str, str]) -> str:
    """Return the first difference of two states."""
    return next(
        (f"{key}: {before[key]!r} -> {after.get(key)!r}" for key in before if before[key] != after.get(key)),
        "",
    )


def kill(running: "subprocess.Popen[str]") -> None:
    """Kill a controller and its agent."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    for pid in (*map(int, children), running.pid):
        os.kill(pid, signal.SIGKILL)
    running.wait()


def waited(holds: Callable[[], bool]) -> bool:
    """Wait until a condition is true; return whether it became true in time."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)  # no event reports this change by another program
    return True


if __name__ == "__main__":
    sys.exit(main())
