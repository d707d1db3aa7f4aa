"""Results of the doctor's checks on a host, including those for guests: one statement per check. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Quoted, Statement


class Examined(Statement, kind=True):
    """The result of a check."""


class CardPart(Examined, kind=True):
    """A property of a NIC."""


class GovernorOfCpus(Examined):
    """A frequency governor and the CPUs that use it."""

    governor: Name
    cpus: Name
    """CPU list in kernel syntax: 0-3,8."""


class IdleState(Examined):
    """An idle state (C-state) and its exit latency."""

    state: Name
    wake_ns: int


class NodeCpus(Examined):
    """The CPUs of a NUMA node."""

    node: Name
    cpus: Name


class CardDriver(CardPart):
    """The driver of a NIC."""

    driver: Name
    """Name of the driver, with its version if it has one."""


class CardFirmware(CardPart):
    """The firmware of a NIC."""

    firmware: Name


class CardNode(CardPart):
    """The NUMA node of a NIC."""

    node: int


class CardSettings(CardPart):
    """Interrupt coalescing settings or pause settings of a NIC."""

    code: Literal["card-coalescing", "card-pause"]
    settings: Name
    """Settings in the syntax of ethtool."""


class HostExamined(Examined):
    """A property of the host that needs no parameters."""

    code: Literal[
        "as-user",  # The agent runs as an ordinary user
        "as-root",  # The agent runs as root
        "no-user-namespaces",  # The kernel does not permit user namespaces
        "host-free",  # No lab is running, and no changes are left
        "veth-by-napi",  # Settings of veth pairs in packet trials
        "af-packet-only",  # Frames are received through AF_PACKET
        "af-xdp-first",  # Frames are received through AF_XDP if available
        "frequency-unset",  # The kernel does not control the CPU frequency
        "turbo-is-on",  # Turbo is on
        "turbo-is-off",  # Turbo is off
        "smt-on",  # Cores have several threads
        "smt-off",  # Cores have one thread
        "irqbalance-runs",  # irqbalance is running
        "irqbalance-absent",  # irqbalance is not running
    ]


class NoPrivilege(Examined):
    """Limits that prevent an ordinary user from creating namespaces."""

    limits: tuple[Quoted, ...]


class HeldByLab(Examined):
    """A different lab uses the host."""

    pid: int


class ChangesLeft(Examined):
    """A killed agent left changes on the host."""

    changes: int


class CpusEnough(Examined):
    """Each part of a packet trial has a separate CPU."""

    cpus: int


class CpusFew(Examined):
    """Parts of a packet trial share CPUs."""

    cpus: int
    wanted: int
    """CPUs needed per direction."""


class ProgramVersion(Examined):
    """The version of an installed program."""

    version: Name


class ProgramMissing(Examined):
    """A program or the user-space switch is not installed."""

    code: Literal["program-missing", "switch-missing"]
    package: Name
    """Name of the Debian package."""


class FeatureExamined(Examined):
    """Whether the kernel supports a feature."""

    code: Literal[
        "feature-works",  # The test of a kernel feature succeeded
        "feature-absent",  # The test of a kernel feature failed
        "feature-untried",  # A kernel feature could not be tested
        "drop-reasons-absent",  # The kernel does not report drop reasons
    ]
    feature: Name


class LoadExamined(Examined):
    """The load of the host by other work."""

    code: Literal[
        "load-low",  # The load is low
        "load-high",  # The load is high enough to disturb trials
    ]
    load: float
    """One-minute load average [threads]."""
    cpus: int


class ClocksourceExamined(Examined):
    """The clock source of the kernel."""

    code: Literal[
        "clocksource-fast",  # Reading the clock is fast
        "clocksource-slow",  # Reading the clock is slow, or its resolution is low
    ]
    clocksource: Name


class Governors(Examined):
    """Frequency governors of the CPUs."""

    governors: tuple[GovernorOfCpus, ...]


class GovernorsOfDriver(Examined):
    """Frequency governors of the CPUs, and the frequency driver."""

    driver: Name
    governors: tuple[GovernorOfCpus, ...]


class IdleStates(Examined):
    """Idle states (C-states) of the CPUs."""

    driver: Name
    states: tuple[IdleState, ...]


class NumaNodes(Examined):
    """The host has several NUMA nodes."""

    nodes: tuple[NodeCpus, ...]


class CardSeen(Examined):
    """Properties and settings of a NIC."""

    code = "card"
    parts: tuple[CardPart, ...]


class QemuThere(Examined):
    """QEMU is installed."""

    version: Name
    program: Name


class ProgramExamined(Examined):
    """The answer of a program that guests need."""

    code: Literal[
        "qemu-unfit",  # No usable QEMU was found
        "accelerator-untried",  # No test guest could be booted
        "accelerator-untold",  # A test guest with KVM gave no result in time
        "switch-lacks-qemu",  # The user-space switch is installed, but not a QEMU that supports it
        "no-xen",  # The host does not run Xen, or is not its Dom0
        "xen-silent",  # Xen's services do not answer
    ]
    said: Quoted


class GuestsExamined(Examined):
    """A requirement of guests that needs no parameters."""

    code: Literal[
        "qemu-not-there",  # A different host has no QEMU
        "image-not-built",  # The first guest image is not built
        "accelerator-kvm",  # A test guest booted with KVM
        "accelerator-none",  # A test guest did not boot with KVM
        "macvtap-absent",  # The kernel does not support macvtap
        "macvtap-closed",  # An ordinary user cannot open macvtap devices
        "macvtap-open",  # Macvtap devices can be opened
        "macvtap-by-sudo",  # sudo opens macvtap devices
        "switch-there",  # The user-space switch can carry guests' NICs
        "xen-not-paravirtual",  # This Xen cannot run paravirtual domains
        "xen-memory-short",  # Little memory is free for domains
        "xen-cpus-short",  # No CPU is free for domains
    ]


class ImagesBuilt(Examined):
    """Guest images are built."""

    images: tuple[Name, ...]


class DeviceExamined(Examined):
    """Whether a device file that guests need exists."""

    code: Literal[
        "device-there",  # A device file that guests need exists
        "tun-absent",  # /dev/net/tun is missing, so taps cannot be created
        "vhost-net-absent",  # /dev/vhost-net is missing
        "kvm-absent",  # /dev/kvm is missing
    ]
    path: Name


class XenRoom(Examined):
    """Memory and CPUs that are free for Xen domains."""

    version: Name
    free_mib: int
    total_mib: int
    free_cpus: int
    cpus: int


class DiskNotRead(Examined):
    """The block devices of a host could not be listed."""

    said: Quoted


class DiskWithout(Examined):
    """A block device without an identity."""

    size_bytes: int


class DiskOffered(Examined):
    """A block device with an identity, and whether labs may write to it."""

    code: Literal[
        "disk-free",  # A device without content, which nothing uses
        "disk-with-content",  # A device with a file system, a partition table or another signature
        "disk-in-use",  # A device that is mounted, swap space, or below another device
        "disk-read-only",  # A device that the kernel does not write
    ]
    identity: Quoted
    size_bytes: int
    seen: Quoted
    """Content or use."""
