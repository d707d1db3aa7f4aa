"""Simulated watch results, computed from frames."""

from collections.abc import Sequence
from itertools import pairwise

from iolab.agent.messages import (
    Histogram,
    WatchBucket,
    WatchCounted,
    Watched,
    WatchedPoint,
    WatchFlow,
    WatchLine,
    WatchLoss,
    WatchStarted,
    WatchTrains,
    WatchWindows,
)
from iolab.agent.traffic import Packed

Frame = tuple[int, int]
"""Time [ns] and bytes."""
STARTED = WatchStarted(by=("tcx",), fallbacks=(), begin_ns=0)
EVEN: tuple[Frame, ...] = tuple((1_000_000 + 120_000 * number, 1514) for number in range(100))
"""A frame every 120 us: 100 Mbit/s by a pacer."""


def histogram(values: Sequence[int]) -> Histogram:
    """Return a histogram; values below 256 have separate buckets."""
    counts = {value: values.count(value) for value in sorted(set(values))}
    return Histogram(
        count=len(values), sum=sum(values), min=min(values, default=None), max=max(values, default=None), above=0,
        buckets=tuple(counts.items()),
    )  # fmt: skip


def filled(frames: Sequence[Frame], window_ns: int) -> dict[int, list[int]]:
    """Return the bytes of the frames of each window."""
    found: dict[int, list[int]] = {}
    for at, size in frames:
        found.setdefault(at // window_ns, []).append(size)
    return found


def windows(frames: Sequence[Frame], window_ns: int, view: str = "arrival") -> WatchWindows:
    """Return windows of frames."""
    found = filled(frames, window_ns)
    first, last = min(found, default=0), max(found, default=-1)
    each = [found.get(number, []) for number in range(first, last + 1)]
    return WatchWindows(
        view=view,  # type: ignore[arg-type]
        window_ns=window_ns,
        first=first,
        windows=len(each),
        idle_windows=sum(not sizes for sizes in each),
        bytes=sum(map(sum, each)),
        frames=sum(map(len, each)),
        frames_squared=sum(len(sizes) ** 2 for sizes in each),
        late_frames=0,
        left_out=0,
        histogram=histogram([sum(sizes) for sizes in each]),
    )


def packed(frames: Sequence[Frame], window_ns: int) -> Packed:
    """Pack windows like the agent."""
    numbers, last = bytearray(), 0
    for number, sizes in sorted(filled(frames, window_ns).items()):
        for value in ((number - last) << 24 | len(sizes), sum(sizes)):
            rest = value
            while rest > 0x7F:
                numbers.append(rest & 0x7F | 0x80)
                rest >>= 7
            numbers.append(rest)
        last = number
    return Packed(bytes(numbers), 24)


def point(
    frames: Sequence[Frame], lengths_ns: Sequence[int], flows: Sequence[Sequence[Frame]] = ()
) -> WatchedPoint:
    """Return a watch point with these frames, each a separate train."""
    total = sum(size for _, size in frames)
    times = [at for at, _ in frames]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    ones = histogram([1] * len(frames))
    bucket = WatchBucket(rate_bps=1_000_000_000, depth_bytes=1514, left_bytes=0)
    return WatchedPoint(
        by="tcx",
        first_ns=times[0] if times else None,
        last_ns=times[-1] if times else None,
        added_bytes=0,
        added_frames=0,
        lost_frames=0,
        lost_bytes=0,
        counted=WatchCounted(
            least_bytes=total, most_bytes=total, least_frames=len(frames), most_frames=len(frames)
        ),
        windows=tuple(windows(frames, length) for length in lengths_ns),
        trains=WatchTrains(
            frames=ones, bytes=ones, lengths_ns=histogram([0] * len(frames)), intervals_ns=histogram(gaps),
            gaps_ns=histogram(gaps),
        ),
        curve=(bucket,),
        line=WatchLine(
            busy_ns=12_304 * len(frames),
            needs=bucket,
            losses=(WatchLoss(depth_bytes=16_384, lost_bytes=0, offered_bytes=total),),
        ),
        flows=tuple(
            WatchFlow(
                source="198.18.0.1", destination="198.18.0.2", source_port=5000 + number, destination_port=5201,
                protocol=6, rest=False, windows=windows(own, lengths_ns[0]),
            )
            for number, own in enumerate(flows)
        ),
    )  # fmt: skip


def watched_points(*points: WatchedPoint) -> Watched:
    """Return the result of a watch."""
    return Watched(points=points, stolen=(), cpu_ns=1, begin_ns=0, end_ns=10**9)
