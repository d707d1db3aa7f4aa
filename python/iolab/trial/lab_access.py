"""Describe an existing lab for a measurement: its machines and links, the agents, and where programs and threads
run."""

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
    """A kernel thread that receives the frames of an interface (threaded NAPI)."""

    pid: int
    """Process ID."""
    name: str
    """Thread name."""
    interface: str
    """Interface name."""
    netns: str | None
    """Network namespace of the interface."""
    cpu: int | None
    """CPU to which the thread is pinned; None: the thread cannot be pinned."""
    further: tuple[int, ...] = ()
    """Process IDs of the threads of further receive queues, on the same CPU."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process IDs of all threads of the interface."""
        return (self.pid, *self.further)


@dataclass(frozen=True, slots=True)
class Alone:
    """Lateness of frames that are paced individually (`max_burst: 1`), on the veth pair of a calibration."""

    load_fps: float
    """Load of the measurement [frames/s]: half of AF_XDP's maximum rate."""
    af_xdp_late_ns: int | None
    """p90 of the frames' lateness with AF_XDP [ns]; None: not measured."""
    live_late_ns: int | None
    """p90 of the frames' lateness with BPF live frames [ns]; None: not measured."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Performance of the instrument on this host, as measured by `iolab calibrate`."""

    generator_fps: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Maximum rate of one sender [frames/s], by path ("af_xdp", "af_packet", "bpf_live") and frame size [bytes]."""
    receiver_fps: Mapping[str, float] = field(default_factory=dict)
    """Maximum rate of one receiver without loss, for 64-byte frames [frames/s], by path."""
    alone: Alone | None = None
    """Lateness of individually paced frames on the available paths; None: not measured."""

    def ceiling_fps(self, path: str, frame_bytes: int) -> float | None:
        """Return the calibrated ceiling of the generator for frames of at least this size; None: not measured."""
        ceilings = self.generator_fps.get("af_xdp" if path == "auto" else path, {})
        smaller = [size for size in ceilings if size <= frame_bytes]
        return ceilings[max(smaller)] if smaller else None

    def ceilings(self, send_path: str, receive_path: str, frame_bytes: int, senders: int = 1) -> "Ceilings":
        """Return the ceilings in one direction; paths have the names that ports use, e.g. "AF_XDP native copy"."""
        send, receive = path_of(send_path), path_of(receive_path)
        can_live = send == "af_xdp" and frame_bytes <= LIVE_BYTES and senders == 1
        faster = self.ceiling_fps(LIVE, frame_bytes) if can_live else None
        one = self.ceiling_fps(send, frame_bytes)
        return Ceilings(None if one is None else one * senders, self.receiver_fps.get(receive), faster)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Ceilings of the instrument in one direction; None: not measured."""

    generator_fps: float | None = None
    """Maximum sending rate: that of one sender times the number of senders [frames/s]."""
    receiver_fps: float | None = None
    """Maximum receiving rate without loss [frames/s], for 64-byte frames; larger frames do not exceed it."""
    live_fps: float | None = None
    """Maximum sending rate of `path: bpf_live`, if the trial uses a different path [frames/s]."""


PATHS = {"AF_XDP": "af_xdp", "AF_PACKET": "af_packet", "BPF": "bpf_live"}
"""Path name in measures and calibrations, by the first word of a port's path name."""
STACKED = "af_packet"
"""Path whose received frames also enter the network stack of the receiving namespace."""
LIVE = "bpf_live"
LIVE_BYTES = 3204
"""Maximum frame size of BPF live frames, including the frame check sequence [bytes]: frame and headroom must fit in a
page."""


def path_of(shown: str) -> str:
    """Return the name that measures and calibrations use for a path, given the name that ports use."""
    return PATHS.get(shown.split(maxsplit=1)[0], shown)


@dataclass(frozen=True, slots=True)
class GuestPlace:
    """Location of a virtual machine."""

    parent: str
    """Name of the kernel on which the guest runs; empty: the local host's kernel."""
    process: str
    """ID of the guest's hypervisor process in the host's agent."""
    switches: Mapping[str, str] = field(default_factory=dict)
    """Name of the NIC that each user-space switch serves, by the process ID of the switch."""
    block_statistics: Callable[[], Json] | None = None
    """Function that reads the guest's disk statistics from its hypervisor (QMP: query-blockstats); None: the hypervisor
    has no such monitor."""


@dataclass(frozen=True, slots=True)
class Site:
    """An existing lab, ready for measurements."""

    agent: Agent
    """Agent of the kernel that sends and receives frames."""
    lab: Lab
    """Lab resolved for the cell."""
    topology: Topology
    """Topology of the lab."""
    placement: Placement | None = None
    """Locations of a packet trial's parts; None for other measures."""
    threads: Mapping[str, ArrivalThread] = field(default_factory=dict)
    """Thread that receives frames, by port (machine.port)."""
    calibration: Calibration | None = None
    """Calibration of this host, if there is one."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """Agents by kernel, if the lab has agents in addition to `agent`."""
    guests: Mapping[str, GuestPlace] = field(default_factory=dict)
    """Virtual machines of the lab."""
    choices: MutableMapping[tuple[object, ...], Choice] | None = None
    """Path choices of `path: auto` in this session, by ports, frame size and burst; None: paths are not compared."""

    part: str = ""
    """Name of the measure if other measures run in parallel in the same lab; empty: no other measure runs."""

    @property
    def alone(self) -> bool:
        """Whether the lab carries the traffic of only one measure."""
        return not self.part

    def named(self, name: str) -> str:
        """Return a unique name for a process or series of this measure in the agents."""
        return f"{self.part} {name}" if self.part else name

    @property
    def senders(self) -> int:
        """Return the number of sending threads per direction."""
        placed = self.placement
        return 1 if placed is None else max((len(placed.sending(port)) for port in placed.senders), default=1)

    def agent_of(self, kernel: str) -> Agent:
        """Return the agent of a kernel."""
        return self.agents.get(kernel, self.agent)
