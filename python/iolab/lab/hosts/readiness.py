"""How ready a host is to be measured on: what of it changes figures, and in which order its CPUs are used. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from iolab.experiment.experiment import Lab
from iolab.frozen import frozen
from iolab.lab.hosts.facts import Facts, InterfaceFact, ProcessorFacts, cpu_list
from iolab.lab.kernels import HERE, kernel_of
from iolab.messages.host_issues import (
    DeepSleep,
    FarFromCard,
    GovernorChanges,
    HostIssue,
    InterruptsMove,
    ManagedCard,
    Manager,
    PauseFrames,
    TurboOn,
)


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


STEADY = "performance"
"""The governor that keeps the frequency (Linux, admin-guide/pm/cpufreq)."""
DEEP_NS = 20_000
"""Waking from a state that takes so long shows in latencies of frames, which are of 5 to 50 us [ns]."""
BALANCER = "irqbalance"


def concerns(facts: Facts, cards: Collection[str], cpus: Collection[int] = ()) -> tuple[HostIssue, ...]:
    """Return what disturbs a measurement with these cards, and with its own threads on these CPUs."""
    known = [interface for interface in facts.interfaces if interface.name in cards]
    return (*_frequency(facts.processors), *_sleep(facts.processors), *_interrupts(facts, known), *_cards(known),
            *_distance(facts.processors, known, cpus))  # fmt: skip


def cpu_order(processors: ProcessorFacts, node: int | None) -> tuple[int, ...]:
    """Return the CPUs in the order in which the parts of a trial get them; empty: not known.

    Those of the card's NUMA node come first; of each node one thread of every core comes before the second of any.
    """
    if processors.online is None:
        return ()
    online = cpu_list(processors.online)
    second = {cpu for core in processors.cores for cpu in cpu_list(core)[1:]}
    near = cpu_list(processors.nodes.get(str(node), "")) if node is not None else online
    return tuple(sorted(online, key=lambda cpu: (cpu not in near, cpu in second, cpu)))


def cards_of(lab: Lab, kernel: str) -> tuple[str, ...]:
    """Return the cards of a computer in a lab: its interfaces that cables end at."""
    ends = (end for link in lab.links.values() if link.cable for end in link.ends)
    return tuple(dict.fromkeys(end.port for end in ends if kernel_of(lab, end.machine) == kernel))


def node_of(facts: Facts, card: str) -> int | None:
    """Return the NUMA node of a card; None: it has none, or there is one for all."""
    found = next((one.numa_node for one in facts.interfaces if one.name == card), None)
    return found if len(facts.processors.nodes) > 1 else None


def _frequency(processors: ProcessorFacts) -> Iterator[HostIssue]:
    for governor, cpus in processors.governors.items():
        if governor != STEADY:
            yield GovernorChanges(governor=governor, cpus=cpus)
    if processors.turbo:
        yield TurboOn()


def _sleep(processors: ProcessorFacts) -> Iterator[HostIssue]:
    deepest = max(processors.idle_states, key=lambda state: state.exit_latency_ns, default=None)
    if deepest is not None and deepest.exit_latency_ns >= DEEP_NS:
        yield DeepSleep(state=deepest.name, wake_ns=deepest.exit_latency_ns)


def _interrupts(facts: Facts, cards: Sequence[InterfaceFact]) -> Iterator[HostIssue]:
    if cards and BALANCER in facts.daemons:
        yield InterruptsMove(cards=tuple(card.name for card in cards))


def _cards(cards: Sequence[InterfaceFact]) -> Iterator[HostIssue]:
    for card in cards:
        if card.manager is not None:
            yield ManagedCard(code=MANAGED[card.manager], card=card.name)
        on = tuple(word for word in ("rx", "tx") if card.pause.get(word))
        if on:
            yield PauseFrames(card=card.name, directions=on)


def _distance(
    processors: ProcessorFacts, cards: Sequence[InterfaceFact], cpus: Collection[int]
) -> Iterator[HostIssue]:
    for card in cards:
        near = processors.nodes.get(str(card.numa_node))
        if card.numa_node is None or near is None or len(processors.nodes) < 2:
            continue
        if far := sorted(set(cpus) - set(cpu_list(near))):
            yield FarFromCard(card=card.name, node=card.numa_node, near_cpus=near, far_cpus=tuple(far))


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


MANAGED: Mapping[str, Manager] = {
    "NetworkManager": "networkmanager-manages",
    "systemd-networkd": "networkd-manages",
}
"""Daemons that may manage an interface."""
