"""What the doctor sees of a computer: a statement for each thing looked at. Types only."""

from iolab.statements.statement import Name, Quoted, Statement


class Examined(Statement):
    """Something that was looked at."""


class CardPart(Examined):
    """Something of a card."""


class GovernorOfCpus(Examined):
    """A governor, and the CPUs that it sets."""

    code = "governor-of-cpus"
    governor: Name
    cpus: Name
    """As a list of the kernel's: 0-3,8."""


class IdleState(Examined):
    """A state that idle CPUs sleep in, and how long waking takes."""

    code = "idle-state"
    state: Name
    wake_ns: int


class NodeCpus(Examined):
    """The CPUs of a NUMA node."""

    code = "node-cpus"
    node: Name
    cpus: Name


class CardDriver(CardPart):
    """Its driver."""

    code = "card-driver"
    driver: Name
    """With its version, where it has one."""


class CardFirmware(CardPart):
    """Its firmware."""

    code = "card-firmware"
    firmware: Name


class CardNode(CardPart):
    """Its NUMA node."""

    code = "card-node"
    node: int


class CardCoalescing(CardPart):
    """How it holds interrupts back."""

    code = "card-coalescing"
    settings: Name
    """As ethtool -C takes them."""


class CardPause(CardPart):
    """Whether it sends and obeys pause frames."""

    code = "card-pause"
    settings: Name
    """As ethtool -A takes them."""


class AsUser(Examined):
    """The agent is an ordinary user's."""

    code = "as-user"


class AsRoot(Examined):
    """The agent is root's."""

    code = "as-root"


class NoPrivilege(Examined):
    """What keeps an ordinary user from having namespaces."""

    code = "no-privilege"
    limits: tuple[Quoted, ...]


class NoUserNamespaces(Examined):
    """The kernel refuses them."""

    code = "no-user-namespaces"


class HeldByLab(Examined):
    """Another lab is at work."""

    code = "held-by-lab"
    pid: int


class ChangesLeft(Examined):
    """A killed agent left changes."""

    code = "changes-left"
    changes: int


class HostFree(Examined):
    """Nothing is at work, nothing is left."""

    code = "host-free"


class VethByNapi(Examined):
    """How packet trials set a veth pair."""

    code = "veth-by-napi"


class AfPacketOnly(Examined):
    """Frames are received by the slower way."""

    code = "af-packet-only"


class AfXdpFirst(Examined):
    """Frames are received by the fastest way that works."""

    code = "af-xdp-first"


class CpusEnough(Examined):
    """Each part of a packet trial has a CPU."""

    code = "cpus-enough"
    cpus: int


class CpusFew(Examined):
    """Parts of a packet trial share CPUs."""

    code = "cpus-few"
    cpus: int
    wanted: int
    """Per direction."""


class ProgramVersion(Examined):
    """A program is installed."""

    code = "program-version"
    version: Name


class ProgramMissing(Examined):
    """A program is not installed."""

    code = "program-missing"
    package: Name
    """Of Debian."""


class FeatureWorks(Examined):
    """A feature of the kernel was tried, and works."""

    code = "feature-works"
    feature: Name


class FeatureAbsent(Examined):
    """A feature of the kernel was tried, and does not work."""

    code = "feature-absent"
    feature: Name


class FeatureUntried(Examined):
    """A feature of the kernel could not be tried."""

    code = "feature-untried"
    feature: Name


class DropReasonsAbsent(Examined):
    """The kernel does not say why it drops packets."""

    code = "drop-reasons-absent"
    feature: Name


class LoadLow(Examined):
    """Little else is at work."""

    code = "load-low"
    load: float
    """Average of a minute [threads]."""
    cpus: int


class LoadHigh(Examined):
    """Other work disturbs."""

    code = "load-high"
    load: float
    """Average of a minute [threads]."""
    cpus: int


class ClocksourceFast(Examined):
    """Reading the time is fast."""

    code = "clocksource-fast"
    clocksource: Name


class ClocksourceSlow(Examined):
    """Reading the time is slow, or coarse."""

    code = "clocksource-slow"
    clocksource: Name


class Governors(Examined):
    """What sets the frequency of CPUs."""

    code = "governors"
    governors: tuple[GovernorOfCpus, ...]


class GovernorsOfDriver(Examined):
    """What sets the frequency of CPUs, and its driver."""

    code = "governors-of-driver"
    driver: Name
    governors: tuple[GovernorOfCpus, ...]


class FrequencyUnset(Examined):
    """The kernel sets no frequency."""

    code = "frequency-unset"


class TurboIsOn(Examined):
    """Turbo may be used."""

    code = "turbo-is-on"


class TurboIsOff(Examined):
    """Turbo is not used."""

    code = "turbo-is-off"


class IdleStates(Examined):
    """The states that idle CPUs sleep in."""

    code = "idle-states"
    driver: Name
    states: tuple[IdleState, ...]


class SmtOn(Examined):
    """Cores have several threads."""

    code = "smt-on"


class SmtOff(Examined):
    """Cores have one thread."""

    code = "smt-off"


class NumaNodes(Examined):
    """CPUs are of several NUMA nodes."""

    code = "numa-nodes"
    nodes: tuple[NodeCpus, ...]


class IrqbalanceRuns(Examined):
    """irqbalance is at work."""

    code = "irqbalance-runs"


class IrqbalanceAbsent(Examined):
    """irqbalance is not at work."""

    code = "irqbalance-absent"


class CardSeen(Examined):
    """What a card is, and how it is set."""

    code = "card"
    parts: tuple[CardPart, ...]
