"""What the doctor sees of a computer, also of one that is to have guests: a statement for each thing. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Quoted, Statement


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


class CardSettings(CardPart):
    """How it coalesces interrupts, or whether it sends and obeys pause frames."""

    code: Literal["card-coalescing", "card-pause"]
    settings: Name
    """As ethtool -C takes them."""


class HostExamined(Examined):
    """Something of the computer that its code says whole."""

    code: Literal[
        "as-user",  # The agent is an ordinary user's
        "as-root",  # The agent is root's
        "no-user-namespaces",  # The kernel refuses them
        "host-free",  # Nothing is at work, nothing is left
        "veth-by-napi",  # How packet trials set a veth pair
        "af-packet-only",  # Frames are received by the slower way
        "af-xdp-first",  # Frames are received by the fastest way that works
        "frequency-unset",  # The kernel sets no frequency
        "turbo-is-on",  # Turbo may be used
        "turbo-is-off",  # Turbo is not used
        "smt-on",  # Cores have several threads
        "smt-off",  # Cores have one thread
        "irqbalance-runs",  # irqbalance is at work
        "irqbalance-absent",  # irqbalance is not at work
    ]


class NoPrivilege(Examined):
    """What keeps an ordinary user from having namespaces."""

    limits: tuple[Quoted, ...]


class HeldByLab(Examined):
    """Another lab is at work."""

    pid: int


class ChangesLeft(Examined):
    """A killed agent left changes."""

    changes: int


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
    """A program, or the switch in user space, is not installed."""

    code: Literal["program-missing", "switch-missing"]
    package: Name
    """Of Debian."""


class FeatureExamined(Examined):
    """Whether the kernel has a feature."""

    code: Literal[
        "feature-works",  # A feature of the kernel was tried, and works
        "feature-absent",  # A feature of the kernel was tried, and does not work
        "feature-untried",  # A feature of the kernel could not be tried
        "drop-reasons-absent",  # The kernel does not say why it drops packets
    ]
    feature: Name


class LoadExamined(Examined):
    """How much else is at work."""

    code: Literal[
        "load-low",  # Little else is at work
        "load-high",  # Other work disturbs
    ]
    load: float
    """Average of a minute [threads]."""
    cpus: int


class ClocksourceExamined(Examined):
    """How the kernel reads the time."""

    code: Literal[
        "clocksource-fast",  # Reading the time is fast
        "clocksource-slow",  # Reading the time is slow, or coarse
    ]
    clocksource: Name


class Governors(Examined):
    """What sets the frequency of CPUs."""

    governors: tuple[GovernorOfCpus, ...]


class GovernorsOfDriver(Examined):
    """What sets the frequency of CPUs, and its driver."""

    driver: Name
    governors: tuple[GovernorOfCpus, ...]


class IdleStates(Examined):
    """The states that idle CPUs sleep in."""

    driver: Name
    states: tuple[IdleState, ...]


class NumaNodes(Examined):
    """CPUs are of several NUMA nodes."""

    nodes: tuple[NodeCpus, ...]


class CardSeen(Examined):
    """What a card is, and how it is set."""

    code = "card"
    parts: tuple[CardPart, ...]


class QemuThere(Examined):
    """QEMU is installed."""

    version: Name
    program: Name


class ProgramExamined(Examined):
    """What a program answered that guests need."""

    code: Literal[
        "qemu-unfit",  # No QEMU can be used
        "accelerator-untried",  # No guest could be booted to try
        "accelerator-untold",  # A guest was booted with KVM, and nothing was shown in time
        "switch-lacks-qemu",  # The switch is there, a QEMU for it is not
        "no-xen",  # It runs no Xen, or is not its Dom0
        "xen-silent",  # Xen's services do not answer
    ]
    said: Quoted


class GuestsExamined(Examined):
    """Something that guests need, which its code says whole."""

    code: Literal[
        "qemu-not-there",  # Another host has no QEMU
        "image-not-built",  # The first image of guests is not built
        "accelerator-kvm",  # A guest was booted with KVM
        "accelerator-none",  # A guest could not be booted with KVM
        "macvtap-absent",  # The kernel makes no macvtaps
        "macvtap-closed",  # An ordinary user may not open macvtaps
        "macvtap-open",  # Macvtaps can be opened
        "macvtap-by-sudo",  # sudo opens macvtaps
        "switch-there",  # A switch in user space can carry cards
        "xen-not-paravirtual",  # This Xen makes no paravirtual domains
        "xen-memory-short",  # There is little memory for domains
        "xen-cpus-short",  # No CPU is free for domains
    ]


class ImagesBuilt(Examined):
    """Images of guests are built."""

    images: tuple[Name, ...]


class DeviceExamined(Examined):
    """Whether a device file that guests need is there."""

    code: Literal[
        "device-there",  # A device that guests need is there
        "tun-absent",  # No taps can be made
        "vhost-net-absent",  # No card can be carried by vhost
        "kvm-absent",  # Guests have no hardware virtualisation
    ]
    path: Name


class XenRoom(Examined):
    """What is left for domains."""

    version: Name
    free_mib: int
    total_mib: int
    free_cpus: int
    cpus: int
