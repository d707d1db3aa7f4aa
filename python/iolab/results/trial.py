"""What happened in one trial. Errors never become data: a failed trial has a reason and no metrics."""

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
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"
    """It could not be carried out."""
    INVALID = "invalid"
    """It ran, but the lab was not as applied (read-back mismatch); its metrics are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestUse:
    """What a virtual machine of a trial really was."""

    engine: Name
    """What ran it: qemu or xen."""
    on: Name
    """The machine whose kernel it ran on; empty: this computer."""
    accel: Name
    """kvm, tcg (emulated) or xen."""
    untold: Quoted = ""
    """Why it was emulated though nothing showed that KVM does not work there; empty: something did."""
    hypervisor: Name
    """Version of what ran it."""
    image: Name
    """Digest of its image; of one from its parent's own disks the flavour."""
    packages: Name
    """Digest of the list of packages in the image; empty: its parent's own."""
    emulated: bool
    """Whether it, or a machine it ran on, was emulated: its figures are functional, not performance."""
    boot_ns: int
    """From the start of the hypervisor to the answer of the guest's agent [ns]."""
    polling: tuple[Name, ...] = ()
    """Its cards that a switch in user space carries, a thread of which looks for frames all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One trial, as it happened."""

    status: Status
    """How it ended."""
    reason: Failure | None = None
    """Why it failed or is invalid."""
    begin_ns: int
    """Start of the trial, set-up and read-back included [ns, monotonic]."""
    end_ns: int
    """End of the trial [ns, monotonic]."""
    measured_ns: int
    """Time the measuring program ran [ns]; the rest is overhead."""
    metrics: Metrics = field(default_factory=Metrics)
    """What was measured; see docs/method."""
    warnings: tuple[TrialWarning, ...] = ()
    """What to know about it."""
    verdict: Verdict | None = None
    """What limited it; None: it did not end well, or each of its load trials has a verdict of its own."""
    guests: Mapping[Name, GuestUse] = field(default_factory=dict)
    """The virtual machines of the lab, by name."""
    in_effect: Mapping[Name, Mapping[Name, Name]] = field(default_factory=dict)
    """Settings as they were read back when it ended: a place (machine, machine.port, or a flow near->far) to what is
    set there, by the names of `record.in_effect`, and its value; empty: nothing was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """A command that was really run on a host; one line of commands.jsonl."""

    machine: Name
    """Machine it was run for."""
    kernel: Name = ""
    """The machine on whose kernel it ran; empty: this computer."""
    netns: Name | None
    """Network namespace it ran in; None: the kernel's own."""
    argv: tuple[Name, ...]
    """The command."""
    undo: tuple[Name, ...] | None
    """What takes it back."""
    undo_netns: Name | None = None
    """Network namespace that the undo runs in, which may be another one; None: the kernel's own."""
    exit_status: int | None
    """0 is success."""
    duration_ns: int
    """How long it took [ns]."""
    notes: tuple[CommandNote, ...] = ()
    """What its words leave open: files that were open for it, and whose thread a number is."""


class Effect(StrEnum):
    """What is set at a place."""

    CONGESTION = "congestion"
    """What controls TCP's congestion: of a flow by its socket, of a machine what new connections get."""
    SEND_BUFFER = "send_buffer_bytes"
    """Of a flow for whose sockets a size was asked for: the largest bound that they have [bytes]."""
    RECEIVE_BUFFER = "receive_buffer_bytes"
    """The same of the receive buffers [bytes]."""
    TCP_RMEM = "tcp_rmem"
    """Bounds of TCP's receive buffers: minimum, default, maximum [bytes]."""
    TCP_WMEM = "tcp_wmem"
    """Bounds of TCP's send buffers: minimum, default, maximum [bytes]."""
    TCP_ECN = "tcp_ecn"
    """Explicit congestion notification."""
    TCP_SACK = "tcp_sack"
    """Selective acknowledgements."""
    RMEM_DEFAULT = "rmem_default"
    """Receive buffer of other sockets [bytes]."""
    WMEM_DEFAULT = "wmem_default"
    """Send buffer of other sockets [bytes]."""
    RMEM_MAX = "rmem_max"
    """Largest receive buffer that a program may ask for [bytes]."""
    WMEM_MAX = "wmem_max"
    """Largest send buffer that a program may ask for [bytes]."""
    MTU = "mtu"
    """Of a port [bytes]."""
    OFFLOADS = "offloads"
    """Of a port: those that are on, as `ethtool -K` names them."""
    QDISC = "qdisc"
    """Of a port: its root queueing discipline; of several queues each kind once."""
    RINGS = "rings"
    """Of a port: frames of its receive and its transmit ring."""
    GOVERNOR = "governor"
    """Of a computer: what chooses the frequency of its processors."""
    PROGRAM_USER = "program_user"
    """Of a confined program: the user that it runs as; 0 is the root of its user namespace, without capabilities."""
    LANDLOCK = "landlock_abi"
    """Of a confined program: the version of Landlock's interface that limits which files it opens; or none."""
    SECCOMP = "seccomp"
    """Of a confined program: whether a filter limits its system calls."""


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
"""Settings of a namespace's stack by their sysctl names."""
