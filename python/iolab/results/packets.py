"""All load trials of one trial that sends frames, and the ports, places and search behind them."""

from dataclasses import dataclass

from iolab.messages.instrument import PathFallback, PathReason, Sharing
from iolab.messages.statement import Name
from iolab.results.load import LoadRecord
from iolab.results.search import Found, Goal


@dataclass(frozen=True, slots=True)
class Tried:
    """What a path did on the ports at hand."""

    path: Name
    """af_xdp or bpf_live."""
    ceiling_fps: float
    """What left of more than it can send, in one direction [frames/s]."""
    late_p90_ns: int | None = None
    """How late 90 % of the frames were at most, at the load of the comparison [ns]; None: it was not tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The path that was taken, and why."""

    path: Name
    """As measures name it."""
    reasons: tuple[PathReason, ...]
    """With the figures."""
    tried: tuple[Tried, ...] = ()
    """What was compared."""


@dataclass(frozen=True, slots=True)
class FrameSize:
    """One size of the frames that were sent."""

    frame_bytes: int
    """With the checksum [bytes]."""
    weight: int
    """How many frames of this size there are in one round of all sizes."""


@dataclass(frozen=True, slots=True)
class PortUse:
    """How one half of a port reached its interface."""

    port: Name
    """machine.port."""
    half: Name
    """send or receive."""
    path: Name
    """AF_XDP or AF_PACKET, and how."""
    fallbacks: tuple[PathFallback, ...]
    """Why it is not the best path."""


@dataclass(frozen=True, slots=True)
class NapiThread:
    """A thread that takes frames in at a port."""

    name: Name
    """As the kernel calls it."""
    pid: int
    """Its number."""
    port: Name
    """machine.port."""
    cpu: int | None
    """The CPU it is kept on; None: any."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the parts of the instrument and of the device ran."""

    generator_cpus: tuple[int, ...]
    """CPUs of the senders."""
    receiver_cpus: tuple[int, ...]
    """CPUs of the receivers."""
    threads: tuple[NapiThread, ...]
    """Threads that take frames in."""
    shared: tuple[Sharing, ...]
    """Who shared a CPU; empty: nobody."""


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A search for a rate: what it was asked, and what it found. Its steps are the load trials."""

    strategy: Name
    """fast, mlr or bisect."""
    goal: Goal
    """What was looked for."""
    found: Found
    """What it found; places are those of the load trials whose purpose is `search`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketTrial:
    """Everything behind the metrics of one trial that sends frames."""

    directions: tuple[Name, ...]
    """From->to, both as machine.port."""
    sizes: tuple[FrameSize, ...]
    """Of the frames."""
    placed: Placed
    """Who ran where."""
    ports: tuple[PortUse, ...]
    """Halves of ports that sent or received."""
    path_choice: Choice | None
    """Which path was chosen where the file leaves it open; None: nothing was to be chosen."""
    search: SearchRecord | None
    """The search for the rate; None: there was none."""
    rate_fps: float | None
    """The rate that was found or given, sum over directions [frames/s]; None: none was found."""
    load_trials: tuple[LoadRecord, ...]
    """In the order they were run."""
