"""The other hosts of a lab: reached by ssh, each with its agent; and the guest images that they get."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.agent.ssh import LEASE_S
from iolab.errors import AgentError, InputError, Problem, UnsupportedError
from iolab.experiment import Resolver, cells, resolver_of
from iolab.experiment.experiment import Cell, Experiment, Section
from iolab.experiment.factors.product import MOST_CELLS, sample
from iolab.experiment.model.machines import Host
from iolab.lab.hosts.facts import Facts
from iolab.lab.kernels import HERE
from iolab.locale import Phrase, Text
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import agent_on, carriers_here, refuse_unclean
from iolab.run.hosts.host_facts import read_facts

TOGETHER = 16
"""Hosts that are reached at the same time."""
REBOOT_DEADLINE_S = 180.0
"""Servers test their memory before they boot."""
REBOOT_INTERVAL_S = 2.0
UNDONE_SHOWN = 3
PLACE = frozenset({"kind", "ssh"})
"""Keys of a machine that say on which host it is."""
T = TypeVar("T")


def hosts_of(experiment: Experiment) -> dict[str, str]:
    """Return where the machines that are other hosts are reached, by machine's name.

    Raises:
        InputError: a machine is on two hosts, or two machines are on one.
    """
    resolver, first_cell = resolver_of(experiment), list(islice(cells(experiment), 1))
    found: dict[str, str] = {}
    places: set[str] = set()
    like: object = None
    for section in resolver.sections:
        if section.group != "machines":
            continue
        if (content := resolver.content(section)) != like:
            like, places = (
                content,
                {
                    model.ssh
                    for cell in _distinct(experiment, resolver, section) or first_cell
                    if isinstance(model := resolver.model(section, cell), Host) and model.ssh is not None
                },
            )
        if len(places) > 1:
            allowed = Phrase("run.one-host-per-machine")
            raise _wrong(experiment, section.name, ", ".join(sorted(places)), allowed)
        for place in places:
            found[section.name] = place
    for name, place in found.items():
        first = next(other for other, at in found.items() if at == place)
        if first != name:
            allowed = Phrase("run.host-only-once", machine=first)
            raise _wrong(experiment, name, Phrase("run.host-is-already", place=place, machine=first), allowed)
    return found


def reach(host: str, name: str, own_pid: int | None = None) -> Agent:
    """Start the agent of a host, which must be free and clean.

    `own_pid` is the agent of this run that was lost there. Where it still holds the host, its connection was cut and
    the end of its lease is waited for; where it was killed, what it left is undone. The host was clean when the run
    began, so what is left by an agent of that number is ours.

    Raises:
        AgentError: the host cannot be reached.
        UnsupportedError: it is not free, or not clean; what could not be undone there is named.
    """
    agent = agent_on(host, name)
    for _ in range(LEASE_S + 5):
        if own_pid is None or agent.hello.busy_pid != own_pid:
            break
        agent.close()
        time.sleep(1)  # the other agent frees the host at the end of its lease; nobody but it knows when
        agent = agent_on(host, name)
    try:
        if own_pid is not None and _undo_left(agent, own_pid, host):
            agent.close()
            agent = agent_on(host, name)  # its greeting says whether anything is left
        refuse_unclean(agent, host)
    except UnsupportedError:
        agent.close()
        raise
    return agent


def reach_again(host: str, name: str, own_pid: int | None) -> Agent:
    """Start the agent of a host that was lost in mid-run, waiting until it has booted.

    Raises:
        AgentError: it did not come back in time.
        UnsupportedError: it is not free, or not clean.
    """
    until = time.monotonic() + REBOOT_DEADLINE_S
    while True:
        try:
            return reach(host, name, own_pid)
        except AgentError:
            if time.monotonic() > until:
                raise
        time.sleep(REBOOT_INTERVAL_S)  # a host that boots tells nobody


def _undo_left(agent: Agent, pid: int, host: str) -> bool:
    """Undo what an agent of ours left that was killed, or could not undo; tell whether there was anything.

    Raises:
        UnsupportedError: some of it cannot be undone.
    """
    left = [one for one in agent.hello.predecessors if one.pid == pid]
    try:
        failed = [failure for one in left for failure in agent.undo(one.journal).failed]
    except BaseException:
        agent.close()
        raise
    if failed:
        said = [
            Phrase("errors.failed-with-reason", what=failure.undo_key, reason=failure.reason)
            for failure in failed[:UNDONE_SHOWN]
        ]
        raise UnsupportedError(
            Phrase("run.changes-cannot-be-undone", host=host, count=len(failed), said=said)
        )
    return bool(left)


@contextmanager
def reach_hosts(here: Agent, hosts: Mapping[str, str]) -> Iterator[Agents]:
    """Start an agent on every host; leaving ends them, which undoes everything there.

    Raises:
        AgentError: a host cannot be reached, or undoing left something behind.
        UnsupportedError: a host, or this one, is not free, or not clean.
    """
    refuse_unclean(here)
    agents = Agents(here)
    try:
        reached = together(lambda name: reach(hosts[name], name), list(hosts))
        for name, agent in reached.items():
            if isinstance(agent, Agent):
                agents.add(name, agent)
        for agent in reached.values():
            if isinstance(agent, Exception):
                raise agent
        yield agents
    except BaseException as error:
        if troubles := agents.close():
            raise AgentError(Phrase("run.error-left-behind", error=error, left_behind=troubles)) from error
        raise
    if troubles := agents.close():
        raise AgentError(Phrase("errors.several-clauses", clauses=troubles))


def read_all_facts(agents: Agents) -> tuple[Facts, dict[str, Json]]:
    """Return the facts of this computer with those of the other hosts in them, decoded and as stored in facts.json."""
    facts, raw = read_facts(agents.here)
    own = carriers_here(agents.here, [agents.of(name) for name in agents if name != HERE])
    facts, raw = replace(facts, control_interfaces=tuple(own)), {**raw, "control_interfaces": own}
    others = together(lambda name: read_facts(agents.of(name)), [name for name in agents if name != HERE])
    if not others:
        return facts, raw
    known: dict[str, tuple[Facts, dict[str, Json]]] = {}
    for name, found in others.items():
        if isinstance(found, Exception):
            raise found
        known[name] = found
    decoded = {name: host for name, (host, _) in known.items()}
    return replace(facts, hosts=decoded), {**raw, "hosts": {name: host for name, (_, host) in known.items()}}


def together(work: Callable[[str], T], names: list[str]) -> dict[str, T | Exception]:
    """Do the same for every name at the same time; return what came of each, errors too: nothing may be forgotten."""

    def attempt(name: str) -> T | Exception:
        try:
            return work(name)
        except Exception as error:
            return error

    if not names:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # only where there are other hosts

    with ThreadPoolExecutor(TOGETHER, "host") as workers:
        return dict(zip(names, workers.map(attempt, names), strict=True))


def _distinct(experiment: Experiment, resolver: Resolver, section: Section) -> Iterator[Cell] | None:
    """Yield a cell for each combination of a machine's factors; None, where none of them says on which host it is."""
    varied = resolver.factors_of(section, PLACE)
    return sample(experiment, resolver.factors_of(section), MOST_CELLS) if varied else None


def _wrong(experiment: Experiment, machine: str, seen: Text, allowed: Text) -> InputError:
    place = f"{experiment.source}: lab.machines.{machine}.ssh"
    return InputError([Problem(place, Phrase("run.looking-for-hosts"), seen, allowed)])
