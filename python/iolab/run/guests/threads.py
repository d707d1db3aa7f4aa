"""The threads of a guest on its parent: which there are, and where they may run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.lab.hosts.facts import cpu_list

LIST = ("ps", "-e", "-L", "-o", "pid=,tid=,comm=")


@dataclass(frozen=True, slots=True)
class Affinities:
    """Where a guest's threads may run."""

    vcpus: list[list[int]]
    """The parent's CPUs of each virtual CPU, in order."""
    carriers: list[list[int]]
    """Those of each other thread: vhost, switches, the hypervisor's main loop and workers."""


def threads_of(agent: Agent, pid: int, switches: Collection[int] = ()) -> dict[int, str]:
    """Return the threads of a hypervisor, and of the kernel's vhost and the switches that work for it, by thread id."""
    found: dict[int, str] = {}
    lines = agent.run(LIST).stdout.splitlines()
    with understood(agent.name, "the threads of a guest"):
        for line in lines:
            process, thread, name = line.split(None, 2)
            if int(process) in (pid, *switches) or name == f"vhost-{pid}":
                found[int(thread)] = name
    return found


def affinities(agent: Agent, vcpus: Mapping[int, int], threads: Mapping[int, str]) -> Affinities:
    """Read where threads may run; one that has ended meanwhile is left out."""
    order = [vcpus[number] for number in sorted(vcpus)]
    others = [thread for thread in threads if thread not in order]
    shown = agent.run_all([(("taskset", "-c", "-p", str(thread)), None) for thread in [*order, *others]])
    with understood(agent.name, "where threads may run"):
        lists = [cpu_list(one.stdout.rpartition(":")[2]) if one.succeeded else [] for one in shown]
    return Affinities(lists[: len(order)], [cpus for cpus in lists[len(order) :] if cpus])
