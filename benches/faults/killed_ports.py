"""Kill the agent that carries a cable's frames on the port of a host; connections over the same port must go on.

Usage: python -m benches.faults.killed_ports [KILLS]. Needs root and sshd; takes about 2 s per kill. Two hosts are
joined by a cable with a delay of 10 ms; their agents are reached by ssh. One TCP connection between the hosts' own
addresses on the cable lasts for the whole bench. In each round, a second TCP connection between the lab's addresses
must be delayed before the kill, and must go on without delay after it. Exit status 1: a connection ended or stood still
for more than 2 s, frames were not delayed before a kill, or taps were left behind. The hosts exist for ten minutes. Run
the bench in separate namespaces:
unshare --mount --net --pid --fork --mount-proc sh -c 'mount -t tmpfs tmpfs /run; ip link set lo up; python ...; true'
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from benches.faults.killed_hosts import two_hosts
from benches.harness.arguments import Argument, arguments
from tests.netns.cabled_hosts import lab_of
from tests.netns.sshd import SshHost

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import Waiting, undo_dead
from iolab.run.lab.standing_lab import StandingLab

ARGUMENTS = (Argument("kills", 100, "how often the agent is killed"),)
LAB = """
lab:
  machines: {pc6: {kind: host, ssh: pc6}, pc7: {kind: host, ssh: pc7}}
  links: {lan: {ends: [pc6.p0, pc7.p0], cable: true, wire: {delay: 10ms}}}
measure: {tcp: {kind: stream, from: pc6, to: pc7}}
"""
OWN, OF_LAB = "198.18.251.7", "198.18.0.2"
"""Addresses of the second host: its own, and that of the lab."""
SERVER = """
import socket, threading
listener = socket.create_server(("0.0.0.0", 7), backlog=64)
print("ready", flush=True)
def answer(one):
    while data := one.recv(64):
        one.sendall(data)
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"""
CLIENT = """
import socket, sys, time
one = socket.create_connection((sys.argv[1], 7), timeout=10)
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def echo():
    began = time.monotonic()
    one.sendall(b"x")
    one.recv(1) or sys.exit("closed")
    return 1e3 * (time.monotonic() - began)
"""
WHOLE = (
    CLIENT
    + """
longest_ms = 0.0
print("ready", flush=True)
while not sys.stdin.closed:
    longest_ms = max(longest_ms, echo())
    print(longest_ms, flush=True)
    time.sleep(0.01)
"""
)
ROUND = (
    CLIENT
    + """
import os, signal
print(min(echo() for _ in range(5)))
os.kill(int(sys.argv[2]), signal.SIGKILL)
print(max(echo() for _ in range(5)))
print(min(echo() for _ in range(20)))
"""
)
MAX_STILL_MS = 2_000
"""Maximum time without an answer after a kill: a few retransmissions."""


def main() -> int:
    """Kill the agent repeatedly; print what went wrong."""
    kills = int(arguments(__doc__, *ARGUMENTS).kills)
    with tempfile.TemporaryDirectory() as folder, two_hosts(Path(folder) / "hosts") as hosts:
        for host, number in zip(hosts, (6, 7), strict=True):
            host.inside(f"ip addr add 198.18.251.{number}/24 dev p0")
        server = python(hosts[1], SERVER)
        whole = python(hosts[0], WHOLE, OWN)
        faults, still_ms = 0, 0.0
        for number in range(1, kills + 1):
            found, longest_ms = kill_once(hosts)
            still_ms = max(still_ms, longest_ms)
            for fault in found:
                print(f"kill {number}: {fault}", flush=True)
            faults += bool(found)
        ended = whole.poll() is not None
        for one in (whole, server):
            one.kill()
        assert whole.stdout is not None
        whole_ms = float(whole.stdout.read().split()[-1])
    print(f"{kills} kills, {faults} with faults; longest wait after a kill: {still_ms:.0f} ms")
    print(f"connection outside the lab: {'ENDED' if ended else 'alive'}, longest answer {whole_ms:.0f} ms")
    return int(faults > 0 or ended or whole_ms > MAX_STILL_MS)


def python(host: SshHost, script: str, *words: str) -> subprocess.Popen[str]:
    """Start a Python script on a host, and wait until it is ready."""
    argv = ["nsenter", "-t", str(host.pid), "--net", "--mount", sys.executable, "-c", script, *words]
    program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


def kill_once(hosts: list[SshHost]) -> tuple[list[str], float]:
    """Build the lab, kill the agent of the first host, and clean up; return faults, and the longest wait [ms]."""
    agents = Agents(Agent(LocalTransport(find_agent())))
    for host in hosts:
        agents.add(host.name, Agent(SshTransport(host.name, find_agent()), name=host.name))
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(lab_of(LAB)))
    pid = hosts[0].agents()[0]
    script = ["nsenter", "-t", str(hosts[0].pid), "--net", "--mount", sys.executable, "-c", ROUND]
    done = subprocess.run([*script, OF_LAB, str(pid)], capture_output=True, text=True, check=False)
    agents.drop("pc6")
    after = Agent(SshTransport("pc6", find_agent()), name="pc6")
    undo_dead(after, Waiting("killed ports"))
    after.close()
    agents.close()
    agents.here.close()
    found = [] if done.returncode == 0 else [f"the connection of the lab ended: {done.stderr}"]
    before_ms, longest_ms, after_ms = [float(word) for word in done.stdout.split()] or [0.0] * 3
    if before_ms < 20:
        found.append(f"before the kill, an answer took only {before_ms:.2f} ms")
    if longest_ms > MAX_STILL_MS or after_ms > 10:
        found.append(
            f"after the kill, answers took up to {longest_ms:.0f} ms, and at least {after_ms:.2f} ms"
        )
    if left := [word for word in hosts[0].inside("ip -br link").split() if word.startswith(("o-", "i-"))]:
        found.append(f"taps were left: {left}")
    return found, longest_ms


if __name__ == "__main__":
    sys.exit(main())
