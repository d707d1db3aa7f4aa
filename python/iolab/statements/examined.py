"""What the doctor sees of a computer: a statement for each thing looked at. Types only."""

from iolab.statements.statement import Name, Quoted, Statement


class Examined(Statement, kind=True):
    """Something that was looked at."""


class CardPart(Examined, kind=True):
    """Something of a card."""


class GovernorOfCpus(Examined):
    """A governor, and the CPUs that it sets."""

    governor: Name
    cpus: Name
    """As a list of the kernel's: 0-3,8."""


class IdleState(Examined):
    """A state that idle CPUs sleep in, and how long waking takes."""

    state: Name
    wake_ns: int


class NodeCpus(Examined):
    """The CPUs of a NUMA node."""

    node: Name
    cpus: Name


class CardDriver(CardPart):
    """Its driver."""

    driver: Name
    """With its version, where it has one."""


class CardFirmware(CardPart):
    """Its firmware."""

    firmware: Name


class CardNode(CardPart):
    """Its NUMA node."""

    node: int


class CardCoalescing(CardPart):
    """How it holds interrupts back."""

    settings: Name
    """As ethtool -C takes them."""


class CardPause(CardPart):
    """Whether it sends and obeys pause frames."""

    settings: Name
    """As ethtool -A takes them."""


class AsUser(Examined):
    """The agent is an ordinary user's."""


class AsRoot(Examined):
    """The agent is root's."""


class NoPrivilege(Examined):
    """What keeps an ordinary user from having namespaces."""

    limits: tuple[Quoted, ...]


class NoUserNamespaces(Examined):
    """The kernel refuses them."""


class HeldByLab(Examined):
    """Another lab is at work."""

    pid: int


class ChangesLeft(Examined):
    """A killed agent left changes."""

    changes: int


class HostFree(Examined):
    """Nothing is at work, nothing is left."""


class VethByNapi(Examined):
    """How packet trials set a veth pair."""


class AfPacketOnly(Examined):
    """Frames are received by the slower way."""


class AfXdpFirst(Examined):
    """Frames are received by the fastest way that works."""


class CpusEnough(Examined):
    """Each part of a packet trial has a CPU."""

    cpus: int


class CpusFew(Examined):
    """Parts of a packet trial share CPUs."""

    cpus: int
    wanted: int
    """Per direction."""


class ProgramVersion(Examined):
    """A program is installed."""

    version: Name


class ProgramMissing(Examined):
    """A program is not installed."""

    package: Name
    """Of Debian."""


class FeatureWorks(Examined):
    """A feature of the kernel was tried, and works."""

    feature: Name


class FeatureAbsent(Examined):
    """A feature of the kernel was tried, and does not work."""

    feature: Name


class FeatureUntried(Examined):
    """A feature of the kernel could not be tried."""

    feature: Name


class DropReasonsAbsent(Examined):
    """The kernel does not say why it drops packets."""

    feature: Name


class LoadLow(Examined):
    """Little else is at work."""

    load: float
    """Average of a minute [threads]."""
    cpus: int


class LoadHigh(Examined):
    """Other work disturbs."""

    load: float
    """Average of a minute [threads]."""
    cpus: int


class ClocksourceFast(Examined):
    """Reading the time is fast."""

    clocksource: Name


class ClocksourceSlow(Examined):
    """Reading the time is slow, or coarse."""

    clocksource: Name


class Governors(Examined):
    """What sets the frequency of CPUs."""

    governors: tuple[GovernorOfCpus, ...]


class GovernorsOfDriver(Examined):
    """What sets the frequency of CPUs, and its driver."""

    driver: Name
    governors: tuple[GovernorOfCpus, ...]


class FrequencyUnset(Examined):
    """The kernel sets no frequency."""


class TurboIsOn(Examined):
    """Turbo may be used."""


class TurboIsOff(Examined):
    """Turbo is not used."""


class IdleStates(Examined):
    """The states that idle CPUs sleep in."""

    driver: Name
    states: tuple[IdleState, ...]


class SmtOn(Examined):
    """Cores have several threads."""


class SmtOff(Examined):
    """Cores have one thread."""


class NumaNodes(Examined):
    """CPUs are of several NUMA nodes."""

    nodes: tuple[NodeCpus, ...]


class IrqbalanceRuns(Examined):
    """irqbalance is at work."""


class IrqbalanceAbsent(Examined):
    """irqbalance is not at work."""


class CardSeen(Examined):
    """What a card is, and how it is set."""

    code = "card"
    parts: tuple[CardPart, ...]
