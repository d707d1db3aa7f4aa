"""What of a computer changes figures that are measured on it. Types only."""

from typing import ClassVar, Literal

from iolab.messages.statement import Name, Statement


class HostIssue(Statement, kind=True):
    """Something of a computer that changes figures."""

    about: ClassVar[str]

    @property
    def subject(self) -> str:
        """What is looked at: cpu-frequency, turbo, idle-states, irqbalance, or the name of a card."""
        return self.about


class GovernorChanges(HostIssue):
    """A governor changes the frequency of CPUs."""

    about = "cpu-frequency"
    governor: Name
    cpus: Name
    """As a list of the kernel's: 0-3,8."""


class TurboOn(HostIssue):
    """Turbo raises the frequency as heat allows."""

    about = "turbo"


class DeepSleep(HostIssue):
    """Idle CPUs sleep deeply."""

    about = "idle-states"
    state: Name
    wake_ns: int


class InterruptsMove(HostIssue):
    """irqbalance moves interrupts of cards from CPU to CPU."""

    about = "irqbalance"
    cards: tuple[Name, ...]


class CardConcern(HostIssue, kind=True):
    """Something of a card."""

    card: Name

    @property
    def subject(self) -> str:
        """Return the card."""
        return self.card


Manager = Literal["networkmanager-manages", "networkd-manages"]


class ManagedCard(CardConcern):
    """NetworkManager or systemd-networkd manages a card."""

    code: Manager


class PauseFrames(CardConcern):
    """A card has pause frames on."""

    directions: tuple[Name, ...]
    """rx, tx."""


class FarFromCard(CardConcern):
    """CPUs of the trial are at another NUMA node than the card."""

    node: int
    near_cpus: Name
    far_cpus: tuple[int, ...]
