"""What verdicts are made of: clauses that say what was seen of a trial. Types only.

Some say what programs of others did to a trial that shares a computer with them.
"""

from typing import Literal

from iolab.messages.drop_reasons import DropReason
from iolab.messages.places import Computer, Place
from iolab.messages.statement import Name, Statement, TrialWarning


class Evidence(Statement, kind=True):
    """One thing that was seen of a trial."""


class Disturbance(Evidence, kind=True):
    """What disturbed the host during a trial."""


class HeldUp(Disturbance):
    """A thread of the instrument was not run for 1 ms or more."""

    code: Literal[
        "sender-held-up",  # The thread of a sender was not run for 1 ms or more
        "receiver-held-up",  # The thread of a receiver was not run for 1 ms or more
    ]
    port: Name
    times: int
    longest_ns: int


class CpuStolen(Disturbance):
    """A hypervisor withheld the host's CPUs."""

    stolen_ns: int


class WithinGoal(Evidence):
    """No more was lost than the goal accepts."""

    lost_frames: int
    offered_frames: int


class LostAt(Evidence):
    """Lost frames were dropped at one place."""

    frames: int
    lost_frames: int
    place: Place
    reason: DropReason


class LostBeside(Evidence):
    """Beside the place of the verdict frames were dropped at another."""

    frames: int
    place: Place
    reason: DropReason


class CameLate(Evidence):
    """Frames that a queue held came out only when the sender had ended."""

    late_frames: int
    offered_frames: int


class LostSomewhere(Evidence):
    """Frames were lost, and no counter tells where."""

    lost_frames: int


class LostUnexplained(Evidence):
    """Frames were lost; of some of them no counter tells."""

    lost_frames: int
    unexplained_frames: int


class LostByReceiver(Evidence):
    """The receiving port lost frames itself."""

    frames: int
    lost_frames: int
    reason: DropReason


class OfPlace(Evidence):
    """The place is where frames are received, or on the path of the acknowledgements."""

    code: Literal["received-there", "on-way-back"]
    place: Name


class FlowsLost(Evidence):
    """Single flows lost all of their frames."""

    flows: tuple[int, ...]
    """Their numbers, from 0."""
    dead: int
    """How many there are."""
    of: int
    frames: int
    others_lost_frames: int


class FramesDamaged(Evidence):
    """Lost frames arrived with other contents than they were sent with."""

    frames: int
    lost_frames: int


class GeneratorShort(Evidence):
    """The sender could not send more."""

    unsent_frames: int
    intended_frames: int
    offered_fps: float
    intended_fps: float


class GeneratorCeiling(Evidence):
    """What the generator can send, as calibrated."""

    ceiling_fps: float


class ReceiverCeiling(Evidence):
    """As much arrived as the receiver takes, as calibrated."""

    forwarded_fps: float
    ceiling_fps: float


class ShaperPassed(Evidence):
    """What a shaper of the lab let through, beside its rate, and how often it held frames back."""

    shaper: Name
    """tbf, htb and the like."""
    place: Name
    passed_bps: float
    rate_bps: float
    held_back: int


class UnknownShaperPassed(Evidence):
    """What a shaper whose rate is not known let through, and how often it held frames back."""

    shaper: Name
    place: Name
    passed_bps: float
    held_back: int


class ThreadRan(Evidence):
    """For how much of the time a thread of the system under test ran."""

    thread: Name
    busy_ratio: float


class ThreadWaited(Evidence):
    """For how much of the time a thread ran, and for how much it waited for its CPU."""

    thread: Name
    place: Name
    busy_ratio: float
    wait_ratio: float


class GuestThreadRan(Evidence):
    """For how much of the time a thread of a guest ran on one CPU, while the host's CPUs were idle in part."""

    thread: Name
    machine: Name
    busy_ratio: float
    cpu: int
    idle_ratio: float


class GuestThreadMoved(Evidence):
    """For how much of the time a thread of a guest ran, on several CPUs, while the host's CPUs were idle in part."""

    thread: Name
    machine: Name
    busy_ratio: float
    idle_ratio: float


class GuestThreadPolls(Evidence):
    """A thread of a guest looks for frames all the time, and left these unread."""

    thread: Name


class GuestIdle(Evidence):
    """No thread of a guest ran."""

    machine: Name


class GuestWaited(Evidence):
    """For how much of the time the busiest thread of a guest ran, and waited for a CPU."""

    thread: Name
    machine: Name
    busy_ratio: float
    wait_ratio: float


class Cpu(Statement, kind=True):
    """A CPU."""


class OwnCpu(Cpu):
    """A CPU of the kernel that frames are sent on."""

    code = "cpu"
    cpu: int


class MachineCpu(Cpu):
    """A CPU of another machine's kernel."""

    code = "cpu-of-machine"
    cpu: int
    machine: Name


class CpuBusy(Evidence):
    """For how much of the time a CPU was busy."""

    cpu: Cpu
    busy_ratio: float


class CpuOccupied(Evidence):
    """A CPU had other work; how much in the trial itself is not known."""

    cpu: Cpu


class CpuInSteal(Evidence):
    """For how much of the time a hypervisor withheld that CPU."""

    steal_ratio: float


class CpuInSoftirq(Evidence):
    """For how much of the time that CPU worked on soft interrupts."""

    softirq_ratio: float


class CpusBusy(Evidence):
    """All CPUs were busy for this part of the time, or more."""

    busy_ratio: float


class ThreadShare(Statement):
    """What a thread had of a CPU."""

    thread: Name
    busy_ratio: float


class CpuSharers(Evidence):
    """Who had a CPU beside the thread that needed it."""

    sharers: tuple[ThreadShare, ...]


class CpuStrangers(Evidence):
    """How much of a CPU went to work that is not of the trial."""

    strangers_ratio: float


class ProgramsWaited(Evidence):
    """The program of the trial that waited most was ready for so much of its time, and had no CPU."""

    wait_ratio: float


class CpusIdle(Evidence):
    """So little of the time of all CPUs was left over that what the kernel does for the trial waited too."""

    idle_ratio: float


class CpusTaken(TrialWarning):
    """Programs that are not of the trial had CPUs that the trial needed."""

    comparable = False
    host: Computer
    cpus: float
    """As many CPUs they had on average, at least."""
    seen: tuple[Evidence, ...]
    """How it is known that the trial needed them."""
