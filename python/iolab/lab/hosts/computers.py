"""What of a computer decides on which CPUs the parts of a lab run. Pure."""

from collections.abc import Mapping
from dataclasses import field

from iolab.experiment.experiment import Lab
from iolab.frozen import frozen
from iolab.lab.hosts.facts import Facts, ProcessorFacts
from iolab.lab.hosts.readiness import cards_of, cpu_order, node_of
from iolab.lab.kernels import HERE


@frozen
class Computer:
    """The CPUs of a computer and the NUMA nodes of its cards."""

    cpus: int
    """CPUs online."""
    online: str | None = None
    """Which these are, as the kernel lists them; None: not known."""
    cores: tuple[str, ...] = ()
    """CPUs of each core."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """CPUs of each NUMA node."""
    cards: Mapping[str, int] = field(default_factory=dict)
    """NUMA node of each card that has one; empty where the computer has one node."""

    def order(self, card: str) -> tuple[int, ...]:
        """Return the CPUs as the parts of a lab get them, those near a card first; empty: not known."""
        processors = ProcessorFacts(online=self.online, cores=self.cores, nodes=self.nodes)
        return cpu_order(processors, self.cards.get(card))


def computers_of(facts: Facts) -> dict[str, Computer]:
    """Return this computer and the other hosts that were reached, by the kernel's name."""
    return {kernel: _computer(one) for kernel, one in {HERE: facts, **facts.hosts}.items()}


def first_card(lab: Lab, kernel: str) -> str:
    """Return the first card of a computer that a cable ends at; empty: it has none."""
    return next(iter(cards_of(lab, kernel)), "")


def _computer(facts: Facts) -> Computer:
    known = facts.processors
    nodes = {card.name: node_of(facts, card.name) for card in facts.interfaces}
    cards = {name: node for name, node in nodes.items() if node is not None}
    return Computer(facts.cpus, known.online, known.cores, dict(known.nodes), cards)
