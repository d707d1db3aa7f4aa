"""Evidence for verdicts: observations in a trial. Types only.

Some statements describe the effect of other programs on a trial that shares a host with them.
"""

from typing import Literal

from iolab.messages.drop_reasons import DropReason
from iolab.messages.places import Computer, Place
from iolab.messages.statement import Name, Statement, TrialWarning


class Evidence(Statement, kind=True):
    """An observation in a trial."""


class Disturbance(Evidence, kind=True):
    """A disturbance of the host during a trial."""


class HeldUp(Disturbance):
    """A thread of the instrument stalled for 1 ms or more."""

    code: Literal[
        "sender-held-up",  # A sender thread stalled for 1 ms or more
        "receiver-held-up",  # A receiver thread stalled for 1 ms or more
    ]
    port: Name
    times: int
    longest_ns: int


class CpuStolen(Disturbance):
    """CPU steal: a hypervisor withheld the host's CPUs."""

    stolen_ns: int


class WithinGoal(Evidence):
    """The loss meets the loss goal."""

    lost_frames: int
    offered_frames: int


class LostAt(Evidence):
    """Lost frames were dropped at one place."""

    frames: int
    lost_frames: int
    place: Place
    reason: DropReason


class LostBeside(Evidence):
    """Frames were dropped at a place other than the place of the verdict."""

    frames: int
    place: Place
    reason: DropReason


class CameLate(Evidence):
    """Queued frames arrived only after the sender had stopped."""

    late_frames: int
    offered_frames: int


class LostSomewhere(Evidence):
    """No drop counter accounts for the lost frames."""

    lost_frames: int


class LostUnexplained(Evidence):
    """No drop counter accounts for some of the lost frames."""

    lost_frames: int
    unexplained_frames: int


class LostByReceiver(Evidence):
    """The receiving port itself dropped frames."""

    frames: int
    lost_frames: int
    reason: DropReason


class OfPlace(Evidence):
    """The role of the place: frames are received there, or it is on the return path of acknowledgements."""

    code: Literal["received-there", "on-way-back"]
    place: Name


class FlowsLost(Evidence):
    """Single flows lost all of their frames."""

    flows: tuple[int, ...]
    """Flow numbers, from 0."""
    dead: int
    """Number of flows that lost all of their frames."""
    of: int
    frames: int
    others_lost_frames: int


class FramesDamaged(Evidence):
    """Lost frames arrived corrupted."""

    frames: int
    lost_frames: int


class GeneratorShort(Evidence):
    """The sender did not reach the intended load."""

    unsent_frames: int
    intended_frames: int
    offered_fps: float
    intended_fps: float


class GeneratorCeiling(Evidence):
    """The calibrated maximum rate of the sender."""

    ceiling_fps: float


class ReceiverCeiling(Evidence):
    """The forwarding rate reached the calibrated maximum rate of the receiver."""

    forwarded_fps: float
    ceiling_fps: float


class ShaperPassed(Evidence):
    """The rate that a shaper of the lab passed, its configured rate, and the number of times it delayed frames."""

    shaper: Name
    """The queueing discipline: tbf, htb and others."""
    place: Name
    passed_bps: float
    rate_bps: float
    held_back: int


class UnknownShaperPassed(Evidence):
    """The rate that a shaper of unknown rate passed, and the number of times it delayed frames."""

    shaper: Name
    place: Name
    passed_bps: float
    held_back: int


class ThreadRan(Evidence):
    """Ratio of the time in which a thread of the system under test ran."""

    thread: Name
    busy_ratio: float


class ThreadWaited(Evidence):
    """Ratios of the time in which a thread ran, and in which it waited for a CPU."""

    thread: Name
    place: Name
    busy_ratio: float
    wait_ratio: float


class GuestThreadRan(Evidence):
    """Ratio of the time in which a guest's thread ran on one CPU, while the host's CPUs were partly idle."""

    thread: Name
    machine: Name
    busy_ratio: float
    cpu: int
    idle_ratio: float


class GuestThreadMoved(Evidence):
    """Ratio of the time in which a guest's thread ran on several CPUs, while the host's CPUs were partly idle."""

    thread: Name
    machine: Name
    busy_ratio: float
    idle_ratio: float


class GuestThreadPolls(Evidence):
    """A busy-polling thread of a guest did not read these frames."""

    thread: Name


class GuestIdle(Evidence):
    """No thread of a guest ran."""

    machine: Name


class GuestWaited(Evidence):
    """Ratios of the time in which the busiest thread of a guest ran, and in which it waited for a CPU."""

    thread: Name
    machine: Name
    busy_ratio: float
    wait_ratio: float


class Cpu(Statement, kind=True):
    """A CPU."""


class OwnCpu(Cpu):
    """A CPU of the kernel that sends the frames."""

    code = "cpu"
    cpu: int


class MachineCpu(Cpu):
    """A CPU of a different machine's kernel."""

    code = "cpu-of-machine"
    cpu: int
    machine: Name


class CpuBusy(Evidence):
    """Ratio of the time in which a CPU was busy."""

    cpu: Cpu
    busy_ratio: float


class CpuOccupied(Evidence):
    """A CPU was busy with other work; the amount during the trial itself is unknown."""

    cpu: Cpu


class CpuInSteal(Evidence):
    """Steal time of the CPU, as a ratio."""

    steal_ratio: float


class CpuInSoftirq(Evidence):
    """Softirq time of the CPU, as a ratio."""

    softirq_ratio: float


class CpusBusy(Evidence):
    """Minimum busy ratio of all CPUs."""

    busy_ratio: float


class ThreadShare(Statement):
    """A thread's share of a CPU."""

    thread: Name
    busy_ratio: float


class CpuSharers(Evidence):
    """Threads that used the same CPU as the thread that needed it."""

    sharers: tuple[ThreadShare, ...]


class CpuStrangers(Evidence):
    """Share of a CPU that work outside the trial used."""

    strangers_ratio: float


class ProgramsWaited(Evidence):
    """Ratio of the time in which the trial's program with the longest wait was runnable without a CPU."""

    wait_ratio: float


class CpusIdle(Evidence):
    """The idle time of all CPUs was so low that kernel work of the trial had to wait too."""

    idle_ratio: float


class CpusTaken(TrialWarning):
    """Programs outside the trial used CPUs that the trial needed."""

    comparable = False
    host: Computer
    cpus: float
    """Minimum mean number of CPUs that these programs used."""
    seen: tuple[Evidence, ...]
    """Evidence that the trial needed these CPUs."""
