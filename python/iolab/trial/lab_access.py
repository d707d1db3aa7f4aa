"""What a measurement finds standing: the lab, the agent, and what runs where."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.experiment.experiment import Lab
from iolab.lab.packets.placement import Placement
from iolab.lab.topology import Topology
from iolab.results.packets import Choice


@dataclass(frozen=True, slots=True)
class ArrivalThread:
    """A kernel thread that takes in the frames of an interface (threaded NAPI)."""

    pid: int
    """Process id."""
    name: str
    """As the kernel calls it."""
    interface: str
    """The interface."""
    netns: str | None
    """Network namespace of the interface."""
    cpu: int | None
    """The CPU it is kept on; None: it may not be moved, and runs anywhere."""
    further: tuple[int, ...] = ()
    """Process ids of those of its further receive queues, on the same CPU."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process ids of all threads of the interface."""
        return (self.pid, *self.further)


@dataclass(frozen=True, slots=True)
class Alone:
    """How late frames leave that are planned one by one (`max_burst: 1`), on the bare pair of a calibration."""

    load_fps: float
    """Half of what AF_XDP sends there [frames/s]."""
    af_xdp_late_ns: int | None
    """90 of 100 frames leave at most so late by AF_XDP; None: it was not seen."""
    live_late_ns: int | None
    """The same by BPF live frames."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the instrument itself can do on this host, as `iolab calibrate` measured it."""

    generator_fps: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Path ("af_xdp", "af_packet", "bpf_live") and frame size [bytes] to the most that one sender sends [frames/s]."""
    receiver_fps: Mapping[str, float] = field(default_factory=dict)
    """Path to the most that one receiver takes without losing any itself, 64-byte frames [frames/s]."""
    alone: Alone | None = None
    """How evenly single frames leave by the paths there are; None: it was not measured."""

    def ceiling_fps(self, path: str, frame_bytes: int) -> float | None:
        """Return the generator's ceiling for frames of at least this size; None: it was not measured."""
        ceilings = self.generator_fps.get("af_xdp" if path == "auto" else path, {})
        smaller = [size for size in ceilings if size <= frame_bytes]
        return ceilings[max(smaller)] if smaller else None

    def ceilings(self, send_path: str, receive_path: str, frame_bytes: int, senders: int = 1) -> "Ceilings":
        """Return what holds for one direction; paths are as ports name the ones in use: "AF_XDP native copy"."""
        send, receive = path_of(send_path), path_of(receive_path)
        can_live = send == "af_xdp" and frame_bytes <= LIVE_BYTES and senders == 1
        faster = self.ceiling_fps(LIVE, frame_bytes) if can_live else None
        one = self.ceiling_fps(send, frame_bytes)
        return Ceilings(None if one is None else one * senders, self.receiver_fps.get(receive), faster)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the instrument can do in one direction; None: it was not measured."""

    generator_fps: float | None = None
    """The most that is sent: of one sender, as often as there are senders [frames/s]."""
    receiver_fps: float | None = None
    """The most that is received without losing any there [frames/s]; 64-byte frames, so no more of larger ones."""
    live_fps: float | None = None
    """The most that `path: bpf_live` would send instead, where that is another [frames/s]."""


PATHS = {"AF_XDP": "af_xdp", "AF_PACKET": "af_packet", "BPF": "bpf_live"}
"""First word of a path as a port names it, and its name in measures and calibrations."""
STACKED = "af_packet"
"""The path whose received frames go on into the stack of the receiving namespace."""
LIVE = "bpf_live"
LIVE_BYTES = 3204
"""The largest frame with its checksum that the kernel takes on this path: it must fit a page with its head [bytes]."""


def path_of(shown: str) -> str:
    """Return what measures and calibrations call a path that a port names."""
    return PATHS.get(shown.split(maxsplit=1)[0], shown)


@dataclass(frozen=True, slots=True)
class GuestPlace:
    """Where a virtual machine runs."""

    parent: str
    """The kernel that it runs on; empty: this computer."""
    process: str
    """Id of its hypervisor among the processes that the parent's agent supervises."""
    switches: Mapping[str, str] = field(default_factory=dict)
    """Id of each switch in user space that carries a card of it, and that card's name."""
    block_statistics: Callable[[], Json] | None = None
    """Asks its hypervisor what its disks did (QMP: query-blockstats); None: it has no such monitor."""


@dataclass(frozen=True, slots=True)
class Site:
    """A standing lab, ready to be measured."""

    agent: Agent
    """Of the kernel on which frames are sent and received."""
    lab: Lab
    """As resolved for the cell."""
    topology: Topology
    """Of the lab."""
    placement: Placement | None = None
    """Where the parts of a packet trial run; None for other measures."""
    threads: Mapping[str, ArrivalThread] = field(default_factory=dict)
    """The thread that takes frames in, by port (machine.port)."""
    calibration: Calibration | None = None
    """Of this host, where there is one."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """By kernel, where the lab has more than the one of `agent`."""
    guests: Mapping[str, GuestPlace] = field(default_factory=dict)
    """The lab's virtual machines."""
    choices: MutableMapping[tuple[object, ...], Choice] | None = None
    """What `path: auto` came to in this session, by ports, frame size and burst; None: nothing is compared."""

    part: str = ""
    """Name of the measure where others are taken at once with it on the same lab; empty: it is alone there."""

    @property
    def alone(self) -> bool:
        """Whether all that the lab carries is of one measure."""
        return not self.part

    def named(self, name: str) -> str:
        """Return what a process or a series of this measure is called at the agents, so that no other has its name."""
        return f"{self.part} {name}" if self.part else name

    @property
    def senders(self) -> int:
        """Return how many threads send each direction."""
        placed = self.placement
        return 1 if placed is None else max((len(placed.sending(port)) for port in placed.senders), default=1)

    def agent_of(self, kernel: str) -> Agent:
        """Return the agent of a kernel."""
        return self.agents.get(kernel, self.agent)
