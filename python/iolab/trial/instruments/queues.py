"""Measure the distribution of a trial's frames over the receive queues of NICs, from `ethtool -S` before and after the
trial.

A NIC selects a queue by a hash of addresses and ports, so with few flows some queues and their CPUs stay idle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.client import Agent, AgentLost
from iolab.errors import AgentError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.lab.links.link_topology import is_card
from iolab.lab.topology import Topology
from iolab.messages.warnings import QueuesUneven, TrialWarning
from iolab.results.metric import Dimensions, Metric
from iolab.trial.instruments.instrument import Seen
from iolab.trial.lab_access import Site

FORMS = (
    ("rx_queue_", "_packets"), ("rx", "_packets"), ("rx-", ".packets"), ("queue_", "_rx_cnt"),
    ("[", "]: rx_ucast_packets"),
)  # fmt: skip
"""Text that drivers print before and after a receive queue's number: virtio_net, most Intel drivers, mlx5, i40e, ena,
bnxt."""
LEAST_FRAMES = 1000
"""Minimum number of frames for evaluating their distribution."""
EVEN_RATIO = 0.5
"""Maximum number of frames at which a queue counts as idle, relative to an even distribution [ratio]."""


@dataclass(frozen=True, slots=True)
class QueuedCard:
    """A NIC that may have several receive queues."""

    ref: str
    """Port name, as machine.port."""
    kernel: str
    """Kernel of the NIC."""
    interface: str
    """Interface name."""


Counted = Mapping[str, Mapping[int, int]]
"""Frames received by each queue since its creation, by NIC."""


class Queues:
    """Receive queues of a lab's NICs, read before and after a measure."""

    def __init__(self, agent_of: Callable[[str], Agent], cards: Sequence[QueuedCard]) -> None:
        self._agent_of = agent_of
        self._cards = cards
        self._before: Counted = {}

    def start(self) -> None:
        """Read the queue counters. Raises AgentLost."""
        self._before = read_queues(self._agent_of, self._cards)

    def stop(self) -> Seen:
        """Read the queue counters again, and return the frames that each queue received in between. Raises
        AgentLost."""
        return shares(self._before, read_queues(self._agent_of, self._cards))

    def abandon(self) -> None:
        """Do nothing: no program is running."""


def queues_of(site: Site) -> Queues:
    """Return the instrument that reads the queues of a lab's NICs."""
    return Queues(site.agent_of, queued_cards(site.lab, site.topology))


def queued_cards(lab: Lab, topology: Topology) -> tuple[QueuedCard, ...]:
    """Return the NICs of a lab that may have several queues: NICs with a cable, and guest NICs configured with several
    queues."""
    found = []
    for port in topology.ports():
        machine = lab.machines[port.machine]
        several = isinstance(machine, Vm) and machine.queues > 1 and is_card(lab, port.ref)
        if several or lab.links[port.link].cable:
            found.append(QueuedCard(port.ref, port.kernel, port.name))
    return tuple(found)


def read_queues(agent_of: Callable[[str], Agent], cards: Sequence[QueuedCard]) -> Counted:
    """Read the queue counters through the agents of the NICs' kernels; NICs without such counters are omitted.

    Raises:
        AgentLost: a kernel is lost.
    """
    found: dict[str, Mapping[int, int]] = {}
    for card in cards:
        try:
            shown = agent_of(card.kernel).run(("ethtool", "-S", card.interface))
        except AgentLost:
            raise
        except AgentError:
            continue  # ethtool is missing; nothing else in the trial needs it
        if queues := frames_by_queue(shown.stdout):
            found[card.ref] = queues
    return found


def frames_by_queue(text: str) -> dict[int, int]:
    """Return the frames received by each queue, from the output of `ethtool -S`; empty if the output has no queue
    counters."""
    found: dict[int, int] = {}
    for line in text.splitlines():
        name, _, value = line.strip().rpartition(": ")
        numbers = [number for form in FORMS if (number := _between(name, *form)) is not None]
        if numbers and value.isdecimal():
            found[numbers[0]] = int(value)
    return found


def shares(before: Counted, after: Counted) -> Seen:
    """Return each queue's share of its NIC's received frames, and warnings about an uneven distribution."""
    metrics: list[Metric] = []
    warnings: list[TrialWarning] = []
    for ref, counts in after.items():
        took = {number: count - before.get(ref, {}).get(number, 0) for number, count in counts.items()}
        total = sum(took.values())
        if len(took) < 2 or total < LEAST_FRAMES or min(took.values()) < 0:
            continue  # a single queue has all frames; a recreated NIC counts from 0
        for number, frames in sorted(took.items()):
            metrics.append(Metric.of("queue_ratio", frames / total, Dimensions(port=ref, queue=number)))
        warnings += _uneven(ref, took)
    return Seen(tuple(metrics), tuple(warnings))


def _uneven(ref: str, took: Mapping[int, int]) -> Iterator[TrialWarning]:
    total, even = sum(took.values()), sum(took.values()) / len(took)
    idle = [number for number, frames in took.items() if frames < EVEN_RATIO * even]
    if idle:
        most = max(took, key=lambda number: took[number])
        yield QueuesUneven(
            card=ref,
            queues=len(took),
            even_queues=len(took) - len(idle),
            busiest_queue=most,
            busiest_ratio=took[most] / total,
        )


def _between(name: str, prefix: str, suffix: str) -> int | None:
    number = name.removeprefix(prefix).removesuffix(suffix)
    whole = name == f"{prefix}{number}{suffix}"
    return int(number) if whole and number.isdecimal() else None
