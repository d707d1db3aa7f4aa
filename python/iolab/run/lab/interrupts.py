"""The interrupts of cards: found through the card's device, given to CPUs, read back, and remembered for their undo.

The agent journals each interrupt's original CPUs before it writes others.
"""

from collections.abc import Iterable

from iolab.agent.client import Agent, Pending
from iolab.agent.messages import SettingRead, SettingWritten
from iolab.errors import LabError
from iolab.lab.cards.tuning import cpu_ranges
from iolab.lab.resources import Resource, SpreadInterrupts
from iolab.record.trial import CommandRecord
from iolab.run.agents import Agents

Card = tuple[str, str]
"""Kernel and interface."""


class Interrupts:
    """Those of the lab that stands."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[Card, tuple[str, ...]] = {}

    def spread(self, wanted: SpreadInterrupts, kernel: str) -> tuple[CommandRecord, "Writes"]:
        """Begin to let the CPUs that are wanted take the interrupts of a card.

        Raises:
            LabError: the card has no interrupts of its own.
        """
        agent = self._agents.of(kernel)
        paths = tuple(_affinity(number) for number in _numbers(agent, wanted.interface))
        if not paths:
            raise LabError(f"giving interrupts of {wanted.interface} to CPUs: its device has none of its own")
        known = self._found.get((kernel, wanted.interface), ())
        self._found[kernel, wanted.interface] = tuple(dict.fromkeys((*known, *paths)))
        cpus = cpu_ranges(wanted.cpus)
        argv = ("sh", "-c", f"for each in {' '.join(paths)}; do echo {cpus} > $each; done")
        record = CommandRecord(machine="", netns=None, argv=argv, undo=None, exit_status=None, duration_ns=0)
        return record, Writes(paths, _written(agent, paths, cpus))

    def undo_keys(self, resource: Resource) -> list[str]:
        """Return the journal keys of the originals that a resource changed; they are known no more."""
        cards = [
            (resource.kernel, action.interface)
            for action in resource.actions
            if isinstance(action, SpreadInterrupts)
        ]
        return [f"setting::{path}" for card in cards for path in self._found.pop(card, ())]

    def forget(self) -> None:
        """Know none any more: all is undone."""
        self._found.clear()

    def state(self, kernel: str, interface: str) -> "Affinities":
        """Begin to read which CPUs take the interrupts of a card."""
        agent = self._agents.of(kernel)
        numbers = _numbers(agent, interface)
        return Affinities([agent.begin("setting.read", {"path": _affinity(number)}) for number in numbers])


class Writes:
    """Settings that are being written; what fails first is raised."""

    def __init__(self, paths: Iterable[str], pending: Iterable[Pending]) -> None:
        self._pending = dict(zip(paths, pending, strict=True))

    def result(self, deadline_s: float) -> tuple[str, ...]:
        """Wait for all; return the command that writes what was there before."""
        originals = {
            path: one.read(SettingWritten, deadline_s).original for path, one in self._pending.items()
        }
        return ("sh", "-c", "; ".join(f"echo {value} > {path}" for path, value in originals.items()))


class Affinities:
    """CPUs of several interrupts that are being read."""

    def __init__(self, pending: Iterable[Pending]) -> None:
        self._pending = list(pending)

    def result(self, deadline_s: float) -> str:
        """Return the lists of CPUs that differ from each other; one, where all interrupts have the same."""
        lists = [one.read(SettingRead, deadline_s).value for one in self._pending]
        return " ".join(dict.fromkeys(lists))


def _written(agent: Agent, paths: Iterable[str], value: str) -> list[Pending]:
    return [agent.begin("setting.write", {"path": path, "value": value}) for path in paths]


def _affinity(number: int) -> str:
    return f"/proc/irq/{number}/smp_affinity_list"


def _numbers(agent: Agent, interface: str) -> list[int]:
    """Return the message-signalled interrupts of a card, or its one line; a virtio card's are its PCI parent's."""
    found = agent.run(("readlink", "-f", f"/sys/class/net/{interface}/device"))
    device = found.stdout.strip()
    if not found.succeeded or not device.startswith("/sys/devices/"):
        return []
    above, _, name = device.rpartition("/")
    device = above if name.startswith("virtio") else device
    words = agent.run(("ls", f"{device}/msi_irqs")).stdout.split()
    words = words or agent.run(("cat", f"{device}/irq")).stdout.split()
    return sorted(int(word) for word in words if word.isdecimal() and int(word))
