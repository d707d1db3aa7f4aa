"""Statements about the instrument: threads that share a CPU, and the paths through which frames are sent.

Types only.
"""

from typing import Literal

from iolab.messages.statement import Failure, Name, Quoted, Statement


class Part(Statement, kind=True):
    """A part of a trial that needs a CPU."""


class PortPart(Part):
    """A thread of a port."""

    code: Literal[
        "generator-at",  # The thread that sends on a port
        "receiver-at",  # The thread that receives on a port
        "napi-at",  # The NAPI thread of a port
    ]
    port: Name


class FurtherGeneratorAt(Part):
    """An additional sender thread of a port; the first additional thread has number 1."""

    port: Name
    number: int


class Sharing(Statement, kind=True):
    """Parts of a trial without a dedicated CPU."""


class PartsShareCpu(Sharing):
    """Parts share a CPU."""

    parts: tuple[Part, ...]
    cpu: int


class PortsUnplaced(Sharing):
    """Ports without a NAPI thread, or with threads that an ordinary user cannot pin."""

    code: Literal["no-thread-of-its-own", "threads-unplaced"]
    ports: tuple[Name, ...]


class PathReason(Statement, kind=True):
    """The reason for the choice of a path."""


class PlainPathReason(PathReason):
    """A reason without parameters: loss of BPF live frames, the choice by calibration, or unmeasured pacing."""

    code: Literal["live-frames-vanish", "path-by-calibration", "path-evenness-unknown"]


class PathFallback(PathReason):
    """The reason why a better path could not be used."""

    said: Quoted
    """Error message of the agent and the kernel."""


class PathOfDriver(PathReason):
    """The driver's only path was used, so there were no paths to compare."""

    ways: tuple[Name, ...]


class PathsUncompared(PathReason):
    """The paths could not be compared."""

    error: Failure


class LiveFramesFail(PathReason):
    """BPF live frames failed on this host."""

    af_xdp_fps: float
    error: Failure


class PathRates(PathReason):
    """Rates of the paths."""

    af_xdp_fps: float
    live_fps: float


class PathEvenness(PathReason):
    """p90 send delay of each path, and the allowed delay."""

    load_fps: float
    af_xdp_late_ns: int
    live_late_ns: int
    allowed_ns: int
    max_burst: int
