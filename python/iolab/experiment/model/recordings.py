"""Read the frames of pcap and pcapng captures. Pure: bytes in, frames or an error with its position out.

Both byte orders, microseconds and nanoseconds, and pcapng's resolutions and time offsets are supported. Only Ethernet
captures with complete frames are read: frames that a snapshot length truncated cannot be replayed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.model.files import FileBytes
from iolab.experiment.model.quantities import FROZEN, Count, Quantity
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.units import NS_PER_S, UnitError

ETHERNET = 1

PCAP = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
        b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}  # fmt: skip
"""Byte order and time unit [ns] of a pcap file, by the first bytes of the file."""

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
"""Block types of pcapng."""

BYTE_ORDER = 0x1A2B3C4D

END, RESOLUTION, TIME_OFFSET = 0, 9, 14
"""Options of an interface description block."""

MOST_BLOCK_BYTES = 1 << 24


class CaptureError(ValueError):
    """An error in a capture file, with its position."""


@frozen
class Frame:
    """A captured frame."""

    time_ns: int
    """Timestamp, with an arbitrary zero point [ns]."""
    bytes: bytes
    """The whole frame, without the Ethernet checksum."""


def read_capture(data: bytes) -> Iterator[Frame]:
    """Yield the frames of a capture, in file order.

    Raises:
        CaptureError: the data is not a capture, not Ethernet, truncated, or contains an incomplete frame.
    """
    if data[:4] in PCAP:
        return _pcap(data)
    if data[:4] == struct.pack("<I", SECTION):
        return _pcapng(data)
    raise CaptureError(Phrase("check.not-a-capture-file", hex=data[:4].hex(" ") or Phrase("check.nothing")))


def _pcap(data: bytes) -> Iterator[Frame]:
    order, unit_ns = PCAP[data[:4]]
    if len(data) < 24:
        raise CaptureError(Phrase("check.header-cut-off"))
    _check_link(struct.unpack_from(f"{order}I", data, 20)[0] & 0x0FFF_FFFF, Phrase("check.file"))
    head, at, number = struct.Struct(f"{order}IIII"), 24, 0
    while at < len(data):
        number += 1
        if at + 16 > len(data):
            raise CaptureError(Phrase("check.frame-header-cut-off", number=number, at=at))
        seconds, units, kept, whole = head.unpack_from(data, at)
        yield Frame(seconds * NS_PER_S + units * unit_ns, _whole(data, at + 16, (kept, whole), number))
        at += 16 + kept


@dataclass(slots=True)
class _Interface:
    units_per_s: int
    offset_s: int


def _pcapng(data: bytes) -> Iterator[Frame]:
    order, at, number, interfaces = "<", 0, 0, list[_Interface]()
    while at < len(data):
        kind, length = _block(data, at, order)
        if kind == SECTION:
            order = _byte_order(data, at)
            interfaces = []
            _, length = _block(data, at, order)
        if length < 12 or length % 4 or length > MOST_BLOCK_BYTES or at + length > len(data):
            raise CaptureError(Phrase("check.block-damaged", length=length, at=at, data_count=len(data)))
        body = at + 8
        if kind == INTERFACE:
            interfaces.append(_interface(data, body, at + length - 4, order, len(interfaces)))
        elif kind == PACKET:
            number += 1
            place, high, low, kept, whole = struct.unpack_from(f"{order}IIIII", data, body)
            if place >= len(interfaces) or body + 20 + kept > at + length - 4:
                raise CaptureError(
                    Phrase("check.frame-of-unknown-interface", number=number, at=at, place=place)
                )
            of = interfaces[place]
            time_ns = (high << 32 | low) * NS_PER_S // of.units_per_s + of.offset_s * NS_PER_S
            yield Frame(time_ns, _whole(data, body + 20, (kept, whole), number))
        elif kind in (SIMPLE_PACKET, OLD_PACKET):
            raise CaptureError(Phrase("check.frame-without-time", number=number + 1, at=at))
        at += length


def _block(data: bytes, at: int, order: str) -> tuple[int, int]:
    if at + 12 > len(data):
        raise CaptureError(Phrase("check.block-cut-off", at=at))
    kind, length = struct.unpack_from(f"{order}II", data, at)
    return kind, length


def _byte_order(data: bytes, at: int) -> str:
    for order in "<>":
        if struct.unpack_from(f"{order}I", data, at + 8)[0] == BYTE_ORDER:
            return order
    raise CaptureError(Phrase("check.section-without-byte-order", at=at))


def _interface(data: bytes, body: int, end: int, order: str, place: int) -> _Interface:
    if body + 8 > end:
        raise CaptureError(Phrase("check.interface-cut-off", place=place, body=body))
    _check_link(struct.unpack_from(f"{order}H", data, body)[0], Phrase("check.interface-place", place=place))
    found, at = _Interface(1_000_000, 0), body + 8
    while at + 4 <= end:
        code, length = struct.unpack_from(f"{order}HH", data, at)
        value = data[at + 4 : min(at + 4 + length, end)]
        if code == END:
            break
        if code == RESOLUTION and value:
            found.units_per_s = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        if code == TIME_OFFSET and len(value) == 8:
            found.offset_s = struct.unpack(f"{order}q", value)[0]
        at += 4 + (length + 3) // 4 * 4
    return found


def _check_link(link: int, what: Text) -> None:
    if link != ETHERNET:
        raise CaptureError(Phrase("check.link-type-not-ethernet", what=what, link=link))


def _whole(data: bytes, begin: int, lengths: tuple[int, int], number: int) -> bytes:
    kept, whole = lengths
    if kept < whole:
        raise CaptureError(Phrase("check.frame-was-cut", number=number, kept=kept, whole=whole))
    if begin + kept > len(data):
        raise CaptureError(Phrase("check.frame-cut-off", number=number, data_count=len(data)))
    return data[begin : begin + kept]


MOST_FRAMES = 1_000_000
"""Maximum number of frames in a recording."""

LONGEST_BACK_NS = 1_000_000_000
"""Maximum backward step of timestamps. Captures of several queues step back by microseconds; a larger step is an error.
"""

ALLOWED = Phrase("check.capture-of-ethernet-frames", most_frames=MOST_FRAMES)

PREFIXES_ALLOWED = Phrase("check.networks-of-one-length")


@frozen
class Recording:
    """A capture, identified by its content."""

    sha256: str
    """SHA-256 digest of the file."""
    frames: Annotated[tuple[Frame, ...], Field(exclude=True)]
    """The frames in order, with non-decreasing timestamps."""
    back_frames: Annotated[int, Field(exclude=True)] = 0
    """Number of frames whose timestamps stepped back; each got the timestamp of the frame before it."""

    def __str__(self) -> str:
        """Return a description for messages."""
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
    """Return the recording in a file."""
    if isinstance(value, Recording):
        return value
    if not isinstance(value, FileBytes):
        raise UnitError(value, ALLOWED)
    digest = sha256(value.content).hexdigest()
    if digest not in _read:
        _read.clear()  # cache only one recording: recordings are large
        _read[digest] = _of(value, digest)
    return _read[digest]


def _of(file: FileBytes, digest: str) -> Recording:
    frames: list[Frame] = []
    latest = back = 0
    try:
        for number, frame in enumerate(read_capture(file.content), start=1):
            if number > MOST_FRAMES:
                raise UnitError(
                    str(file), ALLOWED, Phrase("check.has-more-than-frames", most_frames=MOST_FRAMES)
                )
            if frames and frame.time_ns < latest:
                back += 1
                if latest - frame.time_ns > LONGEST_BACK_NS:
                    raise CaptureError(Phrase("check.frame-goes-back-in-time", number=number))
            latest = max(latest, frame.time_ns) if frames else frame.time_ns
            frames.append(Frame(latest, frame.bytes))
    except CaptureError as error:
        raise UnitError(str(file), ALLOWED, error.args[0]) from error
    if not frames:
        raise UnitError(str(file), ALLOWED, Phrase("check.has-no-frame"))
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
    """A network prefix that is replaced by a different one; the host bits remain."""

    model_config = FROZEN
    src: Network = Field(alias="from")
    """Recorded network."""
    dst: Network = Field(alias="to")
    """Network in the sent frames."""


class Replay(BaseModel):
    """A replayed capture, with the lab's MAC addresses, and with a stamp in frames that have room for it."""

    model_config = FROZEN
    recording: RecordingFile
    """The recording with the frames."""
    timing: Literal["rate", "recorded"] = "rate"
    """recorded: the recorded gaps, scaled to the load; rate: equal gaps."""
    loops: Annotated[Count, Field(ge=0, le=1_000_000)] = 0
    """Maximum number of repetitions; 0: until the end of the trial."""
    move: tuple[Moved, ...] = ()
    """Source and destination networks that are rewritten; other addresses remain as recorded, and the lab must have
    routes to them."""
    tags: Literal["lab", "recorded"] = "lab"
    """VLAN tags. lab: recorded tags are removed, and the tag of the link, if any, is added."""
    others: Literal["skip", "send"] = "skip"
    """Whether non-IP frames and neighbour discovery are sent too; not by default, because answers to ARP would change
    the lab's neighbour tables."""
