"""What is stated of the instrument: what shares a CPU, and by which path frames are sent. Types only."""

from iolab.statements.statement import Failure, Name, Quoted, Statement


class Part(Statement):
    """A part of a trial that needs a CPU."""


class GeneratorAt(Part):
    """The thread that sends at a port."""

    code = "generator-at"
    port: Name


class FurtherGeneratorAt(Part):
    """A further thread that sends at a port; the first is number 1."""

    code = "further-generator-at"
    port: Name
    number: int


class ReceiverAt(Part):
    """The thread that receives at a port."""

    code = "receiver-at"
    port: Name


class NapiAt(Part):
    """The kernel's thread that takes frames in at a port."""

    code = "napi-at"
    port: Name


class Sharing(Statement):
    """Parts of a trial that have no CPU of their own."""


class PartsShareCpu(Sharing):
    """Parts share a CPU."""

    code = "parts-share-cpu"
    parts: tuple[Part, ...]
    cpu: int


class NoThreadOfItsOwn(Sharing):
    """Ports have no thread that takes frames in: the sender's CPU does that work."""

    code = "no-thread-of-its-own"
    ports: tuple[Name, ...]


class ThreadsUnplaced(Sharing):
    """Threads of ports run on any CPU: an ordinary user may not place them."""

    code = "threads-unplaced"
    ports: tuple[Name, ...]


class PathReason(Statement):
    """Why frames are sent by a path."""


class PathFallback(PathReason):
    """Why a better path could not be used."""

    code = "path-fallback"
    said: Quoted
    """The agent's own words, with what the kernel answered."""


class PathOfDriver(PathReason):
    """Frames leave by these ways, and there is nothing to compare."""

    code = "path-of-driver"
    ways: tuple[Name, ...]


class PathsUncompared(PathReason):
    """The paths could not be compared."""

    code = "paths-uncompared"
    error: Failure


class LiveFramesFail(PathReason):
    """BPF live frames do not work here."""

    code = "live-frames-fail"
    af_xdp_fps: float
    error: Failure


class LiveFramesVanish(PathReason):
    """BPF live frames vanish on the way; those of AF_XDP arrive."""

    code = "live-frames-vanish"


class ByCalibration(PathReason):
    """The figures that follow are of this host's calibration; nothing was sent for them."""

    code = "path-by-calibration"


class PathRates(PathReason):
    """How many frames leave by each path."""

    code = "path-rates"
    af_xdp_fps: float
    live_fps: float


class PathEvennessUnknown(PathReason):
    """How evenly frames leave was not seen."""

    code = "path-evenness-unknown"


class PathEvenness(PathReason):
    """How late 90 % of the frames are by each path, and how late they may be."""

    code = "path-evenness"
    load_fps: float
    af_xdp_late_ns: int
    live_late_ns: int
    allowed_ns: int
    max_burst: int
