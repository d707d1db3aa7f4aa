"""The interrupts of cards: found through the card's device, given to CPUs, read back, and remembered for their undo.

The agent journals each interrupt's original CPUs before it writes others.
"""

from collections.abc import Iterable, Mapping

from iolab.agent.client import Agent, Pending
from iolab.agent.messages import SettingRead, SettingWritten
from iolab.errors import LabError
from iolab.lab.actions import SpreadInterrupts, TypedCommand
from iolab.lab.commands import Found, commands_of, file_words
from iolab.lab.resources import Resource
from iolab.run.agents import Agents

Card = tuple[str, str]
"""Kernel and interface."""


class Interrupts:
    """Those of the lab that stands."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[Card, tuple[str, ...]] = {}

    def spread(self, wanted: SpreadInterrupts, kernel: str) -> tuple[tuple[TypedCommand, ...], "Writes"]:
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
        return commands_of(wanted, Found(paths=paths)), Writes(agent, file_words(wanted, paths))

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

    def __init__(self, agent: Agent, words: Mapping[str, str]) -> None:
        self._pending = {
            path: agent.begin("setting.write", {"path": path, "value": word}) for path, word in words.items()
        }

    def result(self, deadline_s: float) -> dict[str, str]:
        """Wait for all; return what was in each file before."""
        return {path: one.read(SettingWritten, deadline_s).original for path, one in self._pending.items()}


class Affinities:
    """CPUs of several interrupts that are being read."""

    def __init__(self, pending: Iterable[Pending]) -> None:
        self._pending = list(pending)

    def result(self, deadline_s: float) -> str:
        """Return the lists of CPUs that differ from each other; one, where all interrupts have the same."""
        lists = [one.read(SettingRead, deadline_s).value for one in self._pending]
        return " ".join(dict.fromkeys(lists))


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
