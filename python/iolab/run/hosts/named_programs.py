"""Programs that an experiment itself names: whether the hosts have them. Nothing is run to find out."""

from collections.abc import Collection
from dataclasses import replace

from iolab.agent.client import Agent
from iolab.errors import InputError
from iolab.experiment import Resolver
from iolab.experiment.experiment import Experiment
from iolab.experiment.product import Completion, sample
from iolab.experiment.sections import Section
from iolab.lab.hosts.facts import Facts
from iolab.lab.kernels import HERE
from iolab.parts.registry import measure_kinds
from iolab.run.agents import Agents

MOST_CELLS = 1000
"""Of one measure, that are looked at."""
KEYS = frozenset({"kind", "run", "servers"})
"""Of a measure, that decide which programs it names."""
LOOK = 'for name; do command -v -- "$name" >/dev/null && printf "%s\\n" "$name"; done; true'
"""Prints those of its arguments that are programs."""


def with_named_programs(facts: Facts, agents: Agents, experiment: Experiment) -> Facts:
    """Return the facts of all hosts with what each has of the programs that an experiment names.

    Raises:
        AgentError: an agent is gone.
    """
    if not (names := named_programs(experiment)):
        return facts
    hosts = {
        name: replace(own, programs={**own.programs, **_present(agents.of(name), names)})
        for name, own in facts.hosts.items()
    }
    return replace(facts, programs={**facts.programs, **_present(agents.of(HERE), names)}, hosts=hosts)


def named_programs(experiment: Experiment) -> tuple[str, ...]:
    """Return the programs that the measures of an experiment name, in any cell."""
    resolver, complete = Resolver(experiment), Completion(experiment.factors)
    found: dict[str, None] = {}
    for measure in resolver.measures:
        section = Section("measure", measure)
        for cell in sample(experiment, resolver.factors_of(section, KEYS), MOST_CELLS):
            try:
                model = resolver.model(section, complete(cell))
            except InputError:
                continue  # planning says what is wrong
            kind = measure_kinds()[getattr(model, "kind", "")]
            found |= dict.fromkeys(program for _, program in kind.named_programs(model))
    return tuple(found)


def _present(agent: Agent, names: Collection[str]) -> dict[str, str | None]:
    """Return each program with itself, or None where it is not there."""
    there = set(agent.run(("sh", "-c", LOOK, "sh", *names)).stdout.split("\n"))
    return {name: name if name in there else None for name in names}
