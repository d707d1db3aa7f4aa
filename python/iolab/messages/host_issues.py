"""Host properties that change measured figures. Types only."""

from typing import ClassVar, Literal

from iolab.messages.statement import Name, Statement


class HostIssue(Statement, kind=True):
    """A host property that changes figures."""

    about: ClassVar[str]

    @property
    def subject(self) -> str:
        """Subject of the check: cpu-frequency, turbo, idle-states, irqbalance, or the name of a NIC."""
        return self.about


class GovernorChanges(HostIssue):
    """A governor changes the frequency of CPUs."""

    about = "cpu-frequency"
    governor: Name
    cpus: Name
    """CPU list in kernel syntax: 0-3,8."""


class TurboOn(HostIssue):
    """Turbo is on, so the frequency varies with temperature."""

    about = "turbo"


class DeepSleep(HostIssue):
    """Idle CPUs enter deep C-states."""

    about = "idle-states"
    state: Name
    wake_ns: int


class InterruptsMove(HostIssue):
    """irqbalance moves NIC interrupts between CPUs."""

    about = "irqbalance"
    cards: tuple[Name, ...]


class CardConcern(HostIssue, kind=True):
    """An issue of a NIC."""

    card: Name

    @property
    def subject(self) -> str:
        """Return the name of the NIC."""
        return self.card


Manager = Literal["networkmanager-manages", "networkd-manages"]


class ManagedCard(CardConcern):
    """NetworkManager or systemd-networkd manages a NIC."""

    code: Manager


class PauseFrames(CardConcern):
    """A NIC has pause frames enabled."""

    directions: tuple[Name, ...]
    """rx, tx."""


class FarFromCard(CardConcern):
    """CPUs of the trial are on a NUMA node other than the NIC's."""

    node: int
    near_cpus: Name
    far_cpus: tuple[int, ...]
