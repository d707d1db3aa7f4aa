"""Frames of the user's own, from a capture: which of them are sent again, and how."""

from hashlib import sha256
from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.attached import FileBytes
from iolab.experiment.captures import CaptureError, Frame, read_capture
from iolab.experiment.quantities import FROZEN, Count, Quantity
from iolab.frozen import frozen
from iolab.units import UnitError

MOST_FRAMES = 1_000_000
"""Of one recording."""
LONGEST_BACK_NS = 1_000_000_000
"""Captures of several queues go back by microseconds; by more than this a time is wrong."""
ALLOWED = (
    f"a pcap or pcapng file of Ethernet, in the experiment's folder or below it, of at most 64 MiB and {MOST_FRAMES} "
    "whole frames"
)
PREFIXES_ALLOWED = "networks of one family and length (10.0.0.0/8)"


@frozen
class Recording:
    """A capture, known by its content."""

    sha256: str
    """Of the file."""
    frames: Annotated[tuple[Frame, ...], Field(exclude=True)]
    """In their order; none is before the one before it."""
    back_frames: Annotated[int, Field(exclude=True)] = 0
    """Frames whose times went back, and count as those before them."""

    def __str__(self) -> str:
        """Return what it is, for messages."""
        return f"{len(self.frames)} frames, sha256 {self.sha256[:12]}"

    def __hash__(self) -> int:
        """Hash by content."""
        return hash(self.sha256)

    @property
    def span_ns(self) -> int:
        """Return the time from the first to the last frame [ns]."""
        return self.frames[-1].time_ns - self.frames[0].time_ns


_read: dict[str, Recording] = {}


def recording(value: object) -> Recording:
    """Return the recording that a file holds."""
    if isinstance(value, Recording):
        return value
    if not isinstance(value, FileBytes):
        raise UnitError(value, ALLOWED)
    digest = sha256(value.content).hexdigest()
    if digest not in _read:
        _read.clear()  # one at a time: they are large
        _read[digest] = _of(value, digest)
    return _read[digest]


def _of(file: FileBytes, digest: str) -> Recording:
    frames: list[Frame] = []
    latest = back = 0
    try:
        for number, frame in enumerate(read_capture(file.content), start=1):
            if number > MOST_FRAMES:
                raise UnitError(str(file), ALLOWED, f"it has more than {MOST_FRAMES} frames")
            if frames and frame.time_ns < latest:
                back += 1
                if latest - frame.time_ns > LONGEST_BACK_NS:
                    raise CaptureError(f"the time of frame {number} goes back by more than a second")
            latest = max(latest, frame.time_ns) if frames else frame.time_ns
            frames.append(Frame(latest, frame.bytes))
    except CaptureError as error:
        raise UnitError(str(file), ALLOWED, str(error)) from error
    if not frames:
        raise UnitError(str(file), ALLOWED, "it has no frame")
    return Recording(digest, tuple(frames), back)


def _network(value: object) -> str:
    try:
        return str(ip_network(value.strip())) if isinstance(value, str) else _refuse(value)
    except ValueError as error:
        raise UnitError(value, PREFIXES_ALLOWED) from error


def _refuse(value: object) -> str:
    raise UnitError(value, PREFIXES_ALLOWED)


RecordingFile = Annotated[Recording, Quantity(recording, "a recording", ALLOWED, str, ("trace.pcap",))]
Network = Annotated[str, Quantity(_network, "a network", PREFIXES_ALLOWED, str, ("10.0.0.0/8",))]


class Moved(BaseModel):
    """A network whose addresses become those of another: the bits behind the prefix stay."""

    model_config = FROZEN
    src: Network = Field(alias="from")
    """As recorded."""
    dst: Network = Field(alias="to")
    """As sent."""


class Replay(BaseModel):
    """A capture that is sent again, with the MAC addresses of the lab and a stamp where there is room."""

    model_config = FROZEN
    recording: RecordingFile
    """Its frames."""
    timing: Literal["rate", "recorded"] = "rate"
    """recorded: their distances as recorded, stretched to the load; rate: equal distances."""
    loops: Annotated[Count, Field(ge=0, le=1_000_000)] = 0
    """How often, at most; 0: until the trial's end."""
    move: tuple[Moved, ...] = ()
    """IP addresses that are rewritten, source and destination; others stay as recorded, and need routes in the lab."""
    tags: Literal["lab", "recorded"] = "lab"
    """Of VLANs. lab: recorded tags are taken off, and the link's is put on where it has one."""
    others: Literal["skip", "send"] = "skip"
    """Frames that are no IP, and neighbour discovery: answers to ARP would change the lab's own tables."""
