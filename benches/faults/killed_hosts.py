"""Two hosts reached by ssh for kills: real sshds in namespaces, joined by a cable; and their state."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.netns.runs import until
from tests.netns.sshd import Network, SshHost

LAB = """
title: Hosts
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    pc7: {kind: host, ssh: pc7}
    inside: {kind: netns, on: pc6}
  links:
    wire: {cable: true, ends: [pc6.p0, pc7.p0]}
    short: {ends: [pc6.p1, inside.p1]}
measure:
  up: {kind: stream, from: pc6, to: pc7, duration: 1s}
factors:
  links.wire.mtu: [1500, 9000]
blocks: 2
"""
LEFT = """
ip -o addr show scope global; ip -br link; ip netns; tc qdisc
find /run/iolab -mindepth 2 -type d 2>/dev/null | sort; true"""
"""Commands that show what a lab changes on a host."""


@contextmanager
def two_hosts(folder: Path) -> Iterator[list[SshHost]]:
    """Create the hosts; iolab reaches them through IOLAB_SSH while they exist."""
    network = Network(folder)
    try:
        hosts = [network.host(name) for name in ("pc6", "pc7")]
        network.cable(hosts[0], hosts[1], "p0")
        # The state is compared later.
        until(
            lambda: all(" UP " in host.inside("ip -br link show p0") for host in hosts),
            never="p0 has no carrier",
        )
        os.environ["IOLAB_SSH"] = network.ssh
        yield hosts
    finally:
        os.environ.pop("IOLAB_SSH", None)
        network.close()


def states(hosts: list[SshHost]) -> dict[str, str]:
    """Return the state of each host, and the programs of labs that run on it."""
    return {host.name: f"{host.inside(LEFT)} {programs(host)}" for host in hosts}


def programs(host: SshHost) -> list[str]:
    """Return the names of agents and lab programs that run on a host."""
    return sorted(name for name in host.names() if name.startswith(("agent-", "iolab", "iperf3")))


def clean(iolab: Path, hosts: list[SshHost]) -> list[str]:
    """Clean each host like its user; return the errors."""
    found = []
    for host in hosts:
        argv = [str(iolab), "clean", "--host", host.name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            found.append(f"clean --host {host.name} ended with {done.returncode}: {done.stderr}")
    return found
