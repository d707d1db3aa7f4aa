"""The result of one trial. Errors never become data: a failed trial has a reason and no metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from iolab.messages.commands import CommandNote
from iolab.messages.failures import Failure
from iolab.messages.statement import Name, Quoted
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metrics
from iolab.results.verdict import Verdict


class Status(StrEnum):
    """The status of a trial."""

    OK = "ok"
    FAILED = "failed"
    """The trial could not be run."""
    INVALID = "invalid"
    """The trial ran, but settings read back from the lab differed from the applied ones; the metrics are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestUse:
    """The properties that a virtual machine actually had in a trial."""

    engine: Name
    """Hypervisor: qemu or xen."""
    on: Name
    """Machine on whose kernel the guest ran; empty: the local host."""
    accel: Name
    """kvm, tcg (emulated) or xen."""
    untold: Quoted = ""
    """Reason why the guest was emulated although no test boot showed that KVM fails; empty: KVM was tested."""
    hypervisor: Name
    """Version of the hypervisor."""
    image: Name
    """Digest of the image; for an image on the parent's own disks, its flavour."""
    packages: Name
    """Digest of the image's package list; empty: the same as the parent's."""
    emulated: bool
    """Whether the guest or a machine below it was emulated, in which case figures are not valid as performance
    results."""
    boot_ns: int
    """Time from the start of the hypervisor to the answer of the guest's agent [ns]."""
    polling: tuple[Name, ...] = ()
    """NICs of the guest that are connected to a user-space switch, which has a busy-polling thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of one trial."""

    status: Status
    """Status of the trial."""
    reason: Failure | None = None
    """Reason why the trial failed or is invalid."""
    begin_ns: int
    """Start of the trial, including set-up and read-back [ns, monotonic]."""
    end_ns: int
    """End of the trial [ns, monotonic]."""
    measured_ns: int
    """Run time of the measuring program [ns]; the rest is overhead."""
    metrics: Metrics = field(default_factory=Metrics)
    """Measured values; see docs/method."""
    warnings: tuple[TrialWarning, ...] = ()
    """Warnings about the trial."""
    verdict: Verdict | None = None
    """Limit of the trial; None: the trial was not successful, or each of its load trials has a verdict."""
    guests: Mapping[Name, GuestUse] = field(default_factory=dict)
    """Virtual machines of the lab, by name."""
    in_effect: Mapping[Name, Mapping[Name, Name]] = field(default_factory=dict)
    """Settings of each place (machine, machine.port, or a flow near->far) as read back at the end; the settings of a
    place map the names in `Effect` to values; empty: nothing was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """A command that was executed on a host; one line of commands.jsonl."""

    machine: Name
    """Machine for which the command was run."""
    kernel: Name = ""
    """Machine on whose kernel the command ran; empty: the local host."""
    netns: Name | None
    """Network namespace of the command; None: the kernel's initial namespace."""
    argv: tuple[Name, ...]
    """The command."""
    undo: tuple[Name, ...] | None
    """The undo command, which reverts this command."""
    undo_netns: Name | None = None
    """Network namespace of the undo, which may differ; None: the kernel's initial namespace."""
    exit_status: int | None
    """Exit status; 0 is success."""
    duration_ns: int
    """Run time of the command [ns]."""
    notes: tuple[CommandNote, ...] = ()
    """Explanations of the numbers in the command: open file descriptors and thread IDs."""


class Effect(StrEnum):
    """A setting in effect at a place."""

    CONGESTION = "congestion"
    """TCP congestion control: for a flow, the algorithm of its socket; for a machine, that of new connections."""
    SEND_BUFFER = "send_buffer_bytes"
    """Send buffer of a flow with a configured size: the largest limit among the flow's sockets [bytes]."""
    RECEIVE_BUFFER = "receive_buffer_bytes"
    """Receive buffer of a flow with a configured size: the largest limit among the flow's sockets [bytes]."""
    TCP_RMEM = "tcp_rmem"
    """TCP receive buffer limits: minimum, default, maximum [bytes]."""
    TCP_WMEM = "tcp_wmem"
    """TCP send buffer limits: minimum, default, maximum [bytes]."""
    TCP_ECN = "tcp_ecn"
    """Explicit congestion notification."""
    TCP_SACK = "tcp_sack"
    """Selective acknowledgements."""
    RMEM_DEFAULT = "rmem_default"
    """Default receive buffer of sockets other than TCP [bytes]."""
    WMEM_DEFAULT = "wmem_default"
    """Default send buffer of sockets other than TCP [bytes]."""
    RMEM_MAX = "rmem_max"
    """Maximum receive buffer that a program may request [bytes]."""
    WMEM_MAX = "wmem_max"
    """Maximum send buffer that a program may request [bytes]."""
    MTU = "mtu"
    """MTU of a port [bytes]."""
    OFFLOADS = "offloads"
    """Enabled offloads of a port, by their names in `ethtool -K`."""
    QDISC = "qdisc"
    """Root queueing discipline of a port; if its queues have different disciplines, each kind once."""
    RINGS = "rings"
    """Receive and transmit ring sizes of a port."""
    GOVERNOR = "governor"
    """CPU frequency governor of a host."""
    PROGRAM_USER = "program_user"
    """User ID of a confined program; 0 is root in the program's user namespace, without capabilities."""
    LANDLOCK = "landlock_abi"
    """Landlock ABI version that restricts the files of a confined program; "none" if Landlock is not used."""
    SECCOMP = "seccomp"
    """Whether a seccomp filter restricts the system calls of a confined program."""


STACK = {
    "net.ipv4.tcp_congestion_control": Effect.CONGESTION,
    "net.ipv4.tcp_rmem": Effect.TCP_RMEM,
    "net.ipv4.tcp_wmem": Effect.TCP_WMEM,
    "net.ipv4.tcp_ecn": Effect.TCP_ECN,
    "net.ipv4.tcp_sack": Effect.TCP_SACK,
    "net.core.rmem_default": Effect.RMEM_DEFAULT,
    "net.core.wmem_default": Effect.WMEM_DEFAULT,
    "net.core.rmem_max": Effect.RMEM_MAX,
    "net.core.wmem_max": Effect.WMEM_MAX,
}
"""Settings of a namespace's network stack, by their sysctl names."""
