"""Check the readiness of a host for measurements, and determine the order in which its CPUs are used. Pure."""

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
    """The CPUs of a host and the NUMA nodes of its NICs."""

    cpus: int
    """Number of online CPUs."""
    online: str | None = None
    """The online CPUs as a list in kernel syntax; None: unknown."""
    cores: tuple[str, ...] = ()
    """CPUs of each core."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """CPUs of each NUMA node."""
    cards: Mapping[str, int] = field(default_factory=dict)
    """NUMA node of each NIC that has one; empty if the host has only one node."""

    def order(self, card: str) -> tuple[int, ...]:
        """Return the CPUs in the order of their assignment, those near a NIC first; empty: unknown."""
        processors = ProcessorFacts(online=self.online, cores=self.cores, nodes=self.nodes)
        return cpu_order(processors, self.cards.get(card))


STEADY = "performance"
"""The governor that keeps the frequency constant (Linux, admin-guide/pm/cpufreq)."""
DEEP_NS = 20_000
"""Minimum exit latency that affects the latency of frames, which is 5 to 50 us [ns]."""
BALANCER = "irqbalance"


def concerns(facts: Facts, cards: Collection[str], cpus: Collection[int] = ()) -> tuple[HostIssue, ...]:
    """Return the host issues that would disturb a measurement that uses these NICs and runs its threads on these
    CPUs."""
    known = [interface for interface in facts.interfaces if interface.name in cards]
    return (*_frequency(facts.processors), *_sleep(facts.processors), *_interrupts(facts, known), *_cards(known),
            *_distance(facts.processors, known, cpus))  # fmt: skip


def cpu_order(processors: ProcessorFacts, node: int | None) -> tuple[int, ...]:
    """Return the CPUs in the order in which the parts of a trial get them; empty: unknown.

    CPUs of the NIC's NUMA node come first; within each node, one thread of every core precedes the second threads.
    """
    if processors.online is None:
        return ()
    online = cpu_list(processors.online)
    second = {cpu for core in processors.cores for cpu in cpu_list(core)[1:]}
    near = cpu_list(processors.nodes.get(str(node), "")) if node is not None else online
    return tuple(sorted(online, key=lambda cpu: (cpu not in near, cpu in second, cpu)))


def cards_of(lab: Lab, kernel: str) -> tuple[str, ...]:
    """Return the NICs of a host in a lab: the interfaces at which cables end."""
    ends = (end for link in lab.links.values() if link.cable for end in link.ends)
    return tuple(dict.fromkeys(end.port for end in ends if kernel_of(lab, end.machine) == kernel))


def node_of(facts: Facts, card: str) -> int | None:
    """Return the NUMA node of a NIC; None: the NIC has none, or the host has only one node."""
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
    """Return the local host and the other hosts that were reached, by kernel name."""
    return {kernel: _computer(one) for kernel, one in {HERE: facts, **facts.hosts}.items()}


def first_card(lab: Lab, kernel: str) -> str:
    """Return a host's first NIC that has a cable; empty: the host has no such NIC."""
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
