"""Programs that an experiment itself names: whether hosts and guest images have them. None is run to find out."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from pydantic import BaseModel

from iolab.agent.transport import find_agent
from iolab.errors import InputError
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Section
from iolab.experiment.factors.product import Completion, sample
from iolab.experiment.model.machines import Host, Netns, Vm
from iolab.experiment.model.measures import Measure
from iolab.lab.hosts.facts import Facts
from iolab.lab.kernels import HERE
from iolab.lab.services import programs_of
from iolab.registry.registry import measure_kinds
from iolab.run.agents import Agents
from iolab.run.hosts.host_facts import present

MOST_CELLS = 1000
"""Of one measure, that are looked at."""
KEYS = frozenset({"kind", "run", "servers", "services"})
"""Of a measure or a machine, that decide which programs it names."""


def with_named_programs(facts: Facts, agents: Agents, experiment: Experiment) -> Facts:
    """Return the facts of all hosts with what each has of the programs that an experiment names.

    Raises:
        AgentError: an agent is gone.
    """
    if not (names := named_programs(experiment)):
        return facts
    hosts = {
        name: replace(own, programs={**own.programs, **present(agents.of(name), names)})
        for name, own in facts.hosts.items()
    }
    own = {**facts.programs, **present(agents.of(HERE), names)}
    images = tuple(replace(one, programs=_in_image(one.flavour, names)) for one in facts.images)
    return replace(facts, programs=own, hosts=hosts, images=images)


def _in_image(name: str, names: Collection[str]) -> dict[str, bool]:
    """Return each program with whether a guest image has it; nothing where that cannot be seen."""
    from iolab.image.build import find  # only where an image is looked into: what builds images is large
    from iolab.image.layers import programs_in

    image = find(name, find_agent())
    there = None if image is None else programs_in(image)
    return {} if there is None else {each: each in there for each in names if "/" not in each}


def named_programs(experiment: Experiment) -> tuple[str, ...]:
    """Return the programs that the measures and machines of an experiment name, in any cell."""
    resolver, complete = resolver_of(experiment), Completion(experiment.factors)
    machines = [section for section in resolver.sections if section.group == "machines"]
    found: dict[str, None] = {}
    like: object = None
    for section in (*(Section("measure", measure) for measure in resolver.measures), *machines):
        if (content := resolver.content(section)) == like:
            continue
        like = content
        for cell in sample(experiment, resolver.factors_of(section, KEYS), MOST_CELLS):
            try:
                model = resolver.model(section, complete(cell))
            except InputError:
                continue  # planning says what is wrong
            found |= dict.fromkeys(_named(model))
    return tuple(found)


def _named(model: BaseModel | None) -> Iterator[str]:
    """Yield the programs that a measure or a machine names."""
    if isinstance(model, Host | Netns | Vm):
        yield from programs_of(model)
    elif isinstance(model, Measure):
        yield from (program for _, program in measure_kinds()[model.kind].named_programs(model))
