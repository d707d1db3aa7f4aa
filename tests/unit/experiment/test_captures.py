"""Captures of other programs: both byte orders, every resolution, and damaged files."""

import struct
from collections.abc import Callable

import pytest

from iolab.experiment.model.recordings import CaptureError, read_capture

FRAMES = ((1_000_000_007_000, b"\x01" * 60), (1_000_000_009_000, b"\x02" * 61))
Make = Callable[..., bytes]


def pcap(order: str = "<", unit_ns: int = 1000, link: int = 1, kept: int = 0) -> bytes:
    """Return the frames as pcap; with `kept`, truncated to that many bytes."""
    magic = 0xA1B2C3D4 if unit_ns == 1000 else 0xA1B23C4D
    out = struct.pack(f"{order}IHHIIII", magic, 2, 4, 0, 0, kept or 65_535, link)
    for time_ns, data in FRAMES:
        seconds, rest = divmod(time_ns, 10**9)
        part = data[:kept] if kept else data
        out += struct.pack(f"{order}IIII", seconds, rest // unit_ns, len(part), len(data)) + part
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return a block of pcapng."""
    body = body.ljust((len(body) + 3) // 4 * 4, b"\0")
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def pcapng(order: str = "<", per_s: int = 10**6, option: bytes = b"", link: int = 1) -> bytes:
    """Return the frames as pcapng, with times in fractions of a second."""
    out = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack(f"{order}HH", 9, len(option)) + option.ljust(4, b"\0") if option else b""
    out += block(order, 1, struct.pack(f"{order}HHI", link, 0, 0) + options)
    out += block(order, 0x0BAD, b"of a kind that nobody knows")
    for time_ns, data in FRAMES:
        time = time_ns * per_s // 10**9
        out += block(
            order,
            6,
            struct.pack(f"{order}IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + data,
        )
    return out


@pytest.mark.parametrize(
    "data",
    [
        pcap(), pcap(">"), pcap("<", 1), pcap(">", 1), pcapng(), pcapng(">"), pcapng("<", 10**9, b"\x09"),
        pcapng(">", 10**3 * 1000, b"\x06"), pcapng() + pcapng(">")[:0],
    ],
)  # fmt: skip
def test_frames_and_times_of_a_capture_are_read_in_every_format(data: bytes) -> None:
    """Check every byte order and resolution."""
    assert [(frame.time_ns, frame.bytes) for frame in read_capture(data)] == list(FRAMES)


def test_capture_times_in_powers_of_two_are_converted() -> None:
    """Convert 2^-20 s to within a microsecond."""
    seen = [frame.time_ns for frame in read_capture(pcapng("<", 1 << 20, b"\x94"))]
    assert all(abs(time - meant) < 1000 for time, (meant, _) in zip(seen, FRAMES, strict=True))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "neither pcap nor pcapng"),
        (b"\x7fELF", "neither pcap nor pcapng"),
        (pcap(link=113), "link type 113"),
        (pcapng(link=276), "link type 276"),
        (pcap(kept=40), "frame 1 was truncated to 40 of 60 bytes"),
        (pcap()[:-1], "within frame 2"),
        (pcap()[:105], "header of frame 2"),
        (pcapng()[:-1], "truncated or damaged"),
        (pcap()[:10], "within its header"),
    ],
)
def test_capture_that_cannot_be_replayed_is_rejected_and_its_location_reported(
    data: bytes, words: str
) -> None:
    """Refuse other link types, a snapshot length, and a truncated file."""
    with pytest.raises(CaptureError, match=words):
        list(read_capture(data))


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_damaged_capture_raises_only_capture_error(make: Make) -> None:
    """Change each byte, and truncate the file at each byte."""
    whole = make()
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            try:
                list(read_capture(data))
            except CaptureError:
                continue
