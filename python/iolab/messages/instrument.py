"""What is stated of the instrument: what shares a CPU, and by which path frames are sent. Types only."""

from typing import Literal

from iolab.messages.statement import Failure, Name, Quoted, Statement


class Part(Statement, kind=True):
    """A part of a trial that needs a CPU."""


class PortPart(Part):
    """A thread of a port."""

    code: Literal[
        "generator-at",  # The thread that sends at a port
        "receiver-at",  # The thread that receives at a port
        "napi-at",  # The kernel's thread that takes frames in at a port
    ]
    port: Name


class FurtherGeneratorAt(Part):
    """A further thread that sends at a port; the first is number 1."""

    port: Name
    number: int


class Sharing(Statement, kind=True):
    """Parts of a trial that have no CPU of their own."""


class PartsShareCpu(Sharing):
    """Parts share a CPU."""

    parts: tuple[Part, ...]
    cpu: int


class PortsUnplaced(Sharing):
    """Ports have no receiving thread, or threads that an ordinary user may not place."""

    code: Literal["no-thread-of-its-own", "threads-unplaced"]
    ports: tuple[Name, ...]


class PathReason(Statement, kind=True):
    """Why frames are sent by a path."""


class PlainPathReason(PathReason):
    """BPF live frames vanish on the way, and those of AF_XDP arrive; the figures that follow are of this host's
    calibration, and nothing was sent for them; or how evenly frames leave was not seen."""

    code: Literal["live-frames-vanish", "path-by-calibration", "path-evenness-unknown"]


class PathFallback(PathReason):
    """Why a better path could not be used."""

    said: Quoted
    """The agent's own words, with what the kernel answered."""


class PathOfDriver(PathReason):
    """Frames leave by these ways, and there is nothing to compare."""

    ways: tuple[Name, ...]


class PathsUncompared(PathReason):
    """The paths could not be compared."""

    error: Failure


class LiveFramesFail(PathReason):
    """BPF live frames do not work here."""

    af_xdp_fps: float
    error: Failure


class PathRates(PathReason):
    """How many frames leave by each path."""

    af_xdp_fps: float
    live_fps: float


class PathEvenness(PathReason):
    """How late 90 % of the frames are by each path, and how late they may be."""

    load_fps: float
    af_xdp_late_ns: int
    live_late_ns: int
    allowed_ns: int
    max_burst: int
