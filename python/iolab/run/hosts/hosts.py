"""The remote hosts of a lab: reached through ssh, each with its agent; and the guest images for them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.agent.ssh import UNHEARD_S
from iolab.errors import AgentError, InputError, Problem
from iolab.experiment import Resolver, cells, resolver_of
from iolab.experiment.experiment import Cell, Experiment, Section
from iolab.experiment.factors.product import MOST_CELLS, sample
from iolab.experiment.model.machines import Host
from iolab.lab.hosts.facts import Facts
from iolab.lab.kernels import HERE
from iolab.locale import Phrase, Text
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import Waiting, agent_on, carriers_here, in_words, occupy, undo_dead
from iolab.run.hosts.host_facts import read_facts

TOGETHER = 16
"""Maximum number of hosts that are reached in parallel."""
REBOOT_DEADLINE_S = 180.0
"""Time limit of a reboot; servers test their memory first."""
REBOOT_INTERVAL_S = 2.0
PLACE = frozenset({"kind", "ssh"})
"""Keys of a machine that determine its host."""
T = TypeVar("T")


def hosts_of(experiment: Experiment) -> dict[str, str]:
    """Return the ssh destinations of the machines that are remote hosts, by machine name.

    Raises:
        InputError: a machine has two destinations, or two machines share one.
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


def lab_name(experiment: Experiment) -> str:
    """Return the lab name that users see while they wait for this lab."""
    return experiment.source.rpartition("/")[2]


def reach(host: str, name: str, waiting: Waiting) -> Agent:
    """Start the agent of a host and lease the host for a lab.

    Raises:
        AgentError: the host cannot be reached.
        UnsupportedError: the host is busy, or changes left there by a killed agent cannot be undone.
    """
    agent = agent_on(host, name)
    try:
        occupy(agent, waiting, host, name)
    except BaseException:
        agent.close()
        raise
    return agent


def reach_again(host: str, name: str, waiting: Waiting) -> Agent:
    """Start the agent of a host that was lost during a run; wait until the host has booted.

    If only the connection was lost, the lost agent keeps its lease of the host until it has received nothing for
    `UNHEARD_S`.

    Raises:
        AgentError: the host did not return in time.
        UnsupportedError: the host is busy, or changes that were left there cannot be undone.
    """
    until = time.monotonic() + REBOOT_DEADLINE_S
    patient = replace(waiting, limit_s=max(waiting.limit_s, UNHEARD_S + 5))
    while True:
        try:
            return reach(host, name, patient)
        except AgentError:
            if time.monotonic() > until:
                raise
        time.sleep(REBOOT_INTERVAL_S)  # a booting host cannot report that it is ready


@contextmanager
def reach_hosts(here: Agent, hosts: Mapping[str, str], waiting: Waiting) -> Iterator[Agents]:
    """Lease the local host, start agents on all remote hosts and lease those hosts.

    Leaving the context undoes all changes on these hosts.

    Raises:
        AgentError: a host cannot be reached, or changes remain after the undo.
        UnsupportedError: a host is busy, or changes left on it cannot be undone.
    """
    undo_dead(here, waiting)
    agents = Agents(here)
    try:
        reached = together(lambda name: _reached(hosts[name], name, waiting), list(hosts))
        for name, agent in reached.items():
            if isinstance(agent, Agent):
                agents.add(name, agent)
        for agent in reached.values():
            if isinstance(agent, Exception):
                raise agent
        yield agents
    except BaseException as error:
        if troubles := agents.close():
            raise AgentError(
                Phrase("run.error-left-behind", error=in_words(error), left_behind=troubles)
            ) from error
        raise
    if troubles := agents.close():
        raise AgentError(Phrase("errors.several-clauses", clauses=troubles))


def _reached(host: str, name: str, waiting: Waiting) -> Agent:
    agent = agent_on(host, name)
    try:
        undo_dead(agent, waiting, host)
    except BaseException:
        agent.close()
        raise
    return agent


def lease_hosts(agents: Agents, hosts: Mapping[str, str], waiting: Waiting) -> None:
    """Lease the resources of a lab on each of its hosts; all labs use the same order of hosts, which prevents
    deadlocks.

    Raises:
        UnsupportedError: another lab uses a host beyond the waiting time, or changes left on a host cannot be undone.
    """
    occupy(agents.here, waiting)
    for name in sorted(hosts, key=lambda name: hosts[name]):
        occupy(agents.of(name), waiting, hosts[name], name)


def read_all_facts(agents: Agents) -> tuple[Facts, dict[str, Json]]:
    """Return the facts of the local host including those of the remote hosts, decoded and as stored in facts.json."""
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
    """Call a function for all names in parallel; return all results, including exceptions."""

    def attempt(name: str) -> T | Exception:
        try:
            return work(name)
        except Exception as error:
            return error

    if not names:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # imported only if there are remote hosts

    with ThreadPoolExecutor(TOGETHER, "host") as workers:
        return dict(zip(names, workers.map(attempt, names), strict=True))


def _distinct(experiment: Experiment, resolver: Resolver, section: Section) -> Iterator[Cell] | None:
    """Return a cell for each combination of a machine's factors; None: no factor changes the machine's host."""
    varied = resolver.factors_of(section, PLACE)
    return sample(experiment, resolver.factors_of(section), MOST_CELLS) if varied else None


def _wrong(experiment: Experiment, machine: str, seen: Text, allowed: Text) -> InputError:
    place = f"{experiment.source}: lab.machines.{machine}.ssh"
    return InputError([Problem(place, Phrase("run.looking-for-hosts"), seen, allowed)])
