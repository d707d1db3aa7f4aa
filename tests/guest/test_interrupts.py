"""Queues and interrupts of a card of a booted computer, which is a guest here: set, read by its own tools, put back."""

from collections.abc import Callable

from pydantic import TypeAdapter

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Link
from iolab.experiment.machines import Machine
from iolab.lab.compose import compose
from iolab.lab.resources import Resource
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

INNER = {"kind": "vm", "on": "outer"}


def lab(**inner: object) -> tuple[Resource, ...]:
    """Return the parent of a guest, its card, and what it does for the guest; but not the guest."""
    machines = {
        "near": {"kind": "netns"},
        "outer": {"kind": "vm", "image": "linux", "cpus": 2, "accel": "tcg"},
        "inner": INNER | inner,
    }
    links = {"lan": ["near.p0", "outer.eth0"], "down": ["outer.eth0", "inner.eth0"]}
    read = TypeAdapter[Machine](Machine).validate_python
    made = compose(
        Lab(
            {name: read(one) for name, one in machines.items()},
            {name: Link.model_validate({"ends": ends}) for name, ends in links.items()},
            {},
        )
    )
    wanted = {"interrupts:outer.eth0", "queues:outer.eth0"}
    for resource in reversed(made):
        wanted |= set(resource.needs) if resource.key in wanted else set()
    return tuple(resource for resource in made if resource.key in wanted)


def shown(agents: Agents) -> tuple[str, Callable[[], set[str]]]:
    """Return how many queues the card uses, and a reader of the CPUs of its interrupts by their names."""
    agent = agents.of("outer")
    queues = agent.run(("ethtool", "-l", "eth0")).stdout.rsplit("Combined:", 1)[1].split()[0]

    def cpus() -> set[str]:
        rows = agent.run(("cat", "/proc/interrupts")).stdout.splitlines()
        own = [row.split(":")[0].strip() for row in rows if "virtio" in row and "put." in row]
        lists = (agent.run(("cat", f"/proc/irq/{number}/smp_affinity_list")).stdout.strip() for number in own)
        return {one for one in lists if one}

    return queues, cpus


def test_a_parents_card_has_the_queues_and_interrupts_that_a_guest_asks_for(agents: Agents) -> None:
    """Then, for a guest that asks for nothing, those it had."""
    standing = StandingLab(agents, lambda _: None)
    try:
        standing.change_to(lab())
        queues, before = shown(agents)
        had = before()
        assert queues == "1"
        assert had != {"1"}
        standing.change_to(lab(host={"irq_cpus": [1]}))
        assert standing.mismatches() == []
        queues, cpus = shown(agents)
        assert (queues, cpus()) == ("1", {"1"})
        standing.change_to(lab(host={"queues": 2, "irq_cpus": [1]}))
        assert standing.mismatches() == []
        queues, cpus = shown(agents)
        assert (queues, cpus()) == ("2", {"1"})
        standing.change_to(lab())
        queues, cpus = shown(agents)
        assert queues == "1"
        assert cpus() != {"1"}
    finally:
        standing.take_down()
