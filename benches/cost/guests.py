"""Measure the start time of a guest compared with the plain QEMU command, of several guests together, and of a lab.

Usage: python -m benches.cost.guests [REPETITIONS]. Needs root, QEMU and the guest image (iolab image build linux). Run
it in separate namespaces: unshare --mount --net sh -c 'mount -t tmpfs tmpfs /run; python ...'
"""

import itertools
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import setup_of
from benches.harness.pairs import alternated

from iolab.agent.client import Agent
from iolab.agent.transport import LocalTransport, find_agent
from iolab.lab.compose import compose
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.qemu import Place, qemu_argv
from iolab.run.agents import Agents
from iolab.run.guests.boot import find_here
from iolab.run.guests.guests import Guests
from iolab.run.guests.hypervisors import find_emulator
from iolab.run.lab.standing_lab import StandingLab

ARGUMENTS = (Argument("repetitions", 5, "starts of one guest, by hand and by iolab each"),)
LAB = """
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
    a: &guest {kind: vm, accel: tcg, forward: route}
    b: *guest
  links: {west: {ends: [near.p0, a.eth0]}, middle: {ends: [a.eth1, b.eth0]}, east: {ends: [b.eth1, far.p0]}}
measure:
  it: {kind: ping, from: near, to: far}
"""
TOGETHER = 4
DEADLINE_S = 60.0
LIMITS = {
    "ratio to the bare command": 1.3,
    "median start [s]": 4.0,
    "four together [s]": 8.0,
    "lab of two [s]": 15.0,
}


def guest(name: str) -> Guest:
    """Return a guest without NICs."""
    return Guest(
        name=name, engine="qemu", image="linux", memory_bytes=512 << 20, cpus=1, accel="tcg", nics=()
    )


def bare_s() -> float:
    """Return the time from the start of the same QEMU command to the greeting of the agent inside [s]."""
    wanted = guest("bare")
    source = find_here(wanted)
    with tempfile.TemporaryDirectory() as folder:
        emulator = find_emulator(wanted)
        program = (str(emulator.program), *emulator.arguments)
        argv = qemu_argv(wanted, Place(boot=source.boot, folder=folder, accel="tcg", program=program))
        begin = time.monotonic()
        with subprocess.Popen(argv) as running, socket.socket(socket.AF_UNIX) as channel:
            _connect(channel, Path(folder) / "agent")
            channel.settimeout(DEADLINE_S)
            channel.recv(1)
            took = time.monotonic() - begin
            running.kill()
    return took


def _connect(channel: socket.socket, path: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        try:
            return channel.connect(str(path))
        except OSError:
            time.sleep(0.005)
    raise TimeoutError(f"no socket {path}")


def started_s(guests: Guests, *names: str) -> float:
    """Return the time until the last agent of guests that are started together answers [s]."""
    begin = time.monotonic()
    for under_way in [guests.start(guest(name), "") for name in names]:
        under_way.result(2 * DEADLINE_S)
    took = time.monotonic() - begin
    guests.stop(names)
    return took


def lab_s(agents: Agents) -> float:
    """Return the time to create, read back and remove a lab of two guests and three links [s]."""
    standing = StandingLab(agents, lambda _: None)
    begin = time.monotonic()
    standing.change_to(compose(setup_of(LAB).lab))
    end = time.monotonic() + 2
    while (wrong := standing.mismatches()) and time.monotonic() < end:
        continue
    if wrong:
        raise SystemExit(f"the lab is not as applied: {wrong}")
    standing.take_down()
    return time.monotonic() - begin


def main() -> None:
    """Print the figures with their limits."""
    repetitions = arguments(__doc__, *ARGUMENTS).repetitions
    numbers = itertools.count()
    with Agent(LocalTransport(find_agent())) as agent:
        agents = Agents(agent)
        guests = Guests(agents)
        starts = {"bare": bare_s, "ours": lambda: started_s(guests, f"one{next(numbers)}")}
        bare, ours = alternated(starts, repetitions).values()
        figures = {
            "ratio to the bare command": median(ours) / median(bare),
            "median start [s]": median(ours),
            "four together [s]": started_s(guests, *(f"of{number}" for number in range(TOGETHER))),
            "lab of two [s]": lab_s(agents),
        }
    print("bare [s]:", " ".join(f"{value:.2f}" for value in bare))
    print("ours [s]:", " ".join(f"{value:.2f}" for value in ours))
    for name, value in figures.items():
        print(f"{name}: {value:.2f} (at most {LIMITS[name]:g})")


if __name__ == "__main__":
    main()
