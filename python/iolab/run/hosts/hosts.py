"""The other hosts of a lab: reached by ssh, each with its agent; and the guest images that they get."""

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
from iolab.run.hosts.host_agent import Waiting, agent_on, carriers_here, in_words, occupy
from iolab.run.hosts.host_facts import read_facts

TOGETHER = 16
"""Hosts that are reached at the same time."""
REBOOT_DEADLINE_S = 180.0
"""Servers test their memory before they boot."""
REBOOT_INTERVAL_S = 2.0
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


def lab_name(experiment: Experiment) -> str:
    """Return the name that others see who wait for the lab of an experiment."""
    return experiment.source.rpartition("/")[2]


def reach(host: str, name: str, waiting: Waiting) -> Agent:
    """Start the agent of a host and take the host for a lab.

    Raises:
        AgentError: the host cannot be reached.
        UnsupportedError: it is not free, or what a killed agent left there cannot be undone.
    """
    agent = agent_on(host, name)
    try:
        occupy(agent, waiting, host)
    except BaseException:
        agent.close()
        raise
    return agent


def reach_again(host: str, name: str, waiting: Waiting) -> Agent:
    """Start the agent of a host that was lost in mid-run, waiting until it has booted.

    Where only the connection was cut, the lost agent holds the host until it has heard nothing for `UNHEARD_S`.

    Raises:
        AgentError: it did not come back in time.
        UnsupportedError: it is not free, or what was left there cannot be undone.
    """
    until = time.monotonic() + REBOOT_DEADLINE_S
    patient = replace(waiting, limit_s=max(waiting.limit_s, UNHEARD_S + 5))
    while True:
        try:
            return reach(host, name, patient)
        except AgentError:
            if time.monotonic() > until:
                raise
        time.sleep(REBOOT_INTERVAL_S)  # a host that boots tells nobody


@contextmanager
def reach_hosts(here: Agent, hosts: Mapping[str, str], waiting: Waiting) -> Iterator[Agents]:
    """Take this host, start an agent on every other and take these; leaving ends them, which undoes everything there.

    Raises:
        AgentError: a host cannot be reached, or undoing left something behind.
        UnsupportedError: a host, or this one, is not free, or not to be cleaned.
    """
    occupy(here, waiting)
    agents = Agents(here)
    try:
        reached = together(lambda name: reach(hosts[name], name, waiting), list(hosts))
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
