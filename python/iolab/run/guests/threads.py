"""The threads of a guest on its parent: which there are, where they may run, and what puts them there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.lab.hosts.facts import cpu_list
from iolab.lab.resources import PinGuest

LIST = ("ps", "-e", "-L", "-o", "pid=,tid=,comm=")
EVERY_CPU = "0-1023"
"""The kernel takes those that there are."""


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


def pin_commands(
    action: PinGuest, vcpus: Mapping[int, int], threads: Mapping[int, str]
) -> list[tuple[str, ...]]:
    """Return the commands that put a guest's threads where they shall be."""
    carriers = [thread for thread in threads if thread not in vcpus.values()]
    anywhere = _words(action.carriers)
    chosen = dict.fromkeys(carriers, anywhere)
    for number, thread in vcpus.items():
        chosen[thread] = str(action.vcpus[number]) if action.vcpus else EVERY_CPU
    return [("taskset", "-c", "-p", cpus, str(thread)) for thread, cpus in chosen.items()]


def affinities(agent: Agent, vcpus: Mapping[int, int], threads: Mapping[int, str]) -> Affinities:
    """Read where threads may run; one that has ended meanwhile is left out."""
    order = [vcpus[number] for number in sorted(vcpus)]
    others = [thread for thread in threads if thread not in order]
    shown = agent.run_all([(("taskset", "-c", "-p", str(thread)), None) for thread in [*order, *others]])
    with understood(agent.name, "where threads may run"):
        lists = [cpu_list(one.stdout.rpartition(":")[2]) if one.succeeded else [] for one in shown]
    return Affinities(lists[: len(order)], [cpus for cpus in lists[len(order) :] if cpus])


def _words(cpus: tuple[int, ...]) -> str:
    return ",".join(str(cpu) for cpu in cpus) or EVERY_CPU
