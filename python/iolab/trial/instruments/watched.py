"""Convert a watch's data to metrics, warnings and series. Pure, except that a function passed as an argument reads the
windows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from iolab.agent.messages import (
    WatchCounted,
    Watched,
    WatchedPoint,
    WatchFlow,
    WatchStarted,
    WatchTrains,
    WatchWindows,
)
from iolab.agent.traffic import Packed
from iolab.experiment.model.instruments import Watch
from iolab.locale import Phrase
from iolab.messages.instrument_warnings import (
    WatchBeforeQueue,
    WatchByPackets,
    WatchDisagrees,
    WatchLost,
    WatchStolen,
    WatchUnstamped,
    WindowsLeftOut,
)
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric, unit_of
from iolab.results.series import Over, Series, Values
from iolab.results.series import series as series_over_time
from iolab.trial.histograms import quantile
from iolab.trial.instruments.instrument import Seen
from iolab.units import ETHERNET_HEADER_BYTES, NS_PER_S

SOURCE = "watch"
LINE = "line"
"""Value of the dimension `part` for windows that count a frame's bytes over its time on the line."""
UNSTAMPED_RATIO = 0.001
"""Maximum share of packets without a time stamp, which arrived before the kernel enabled stamping [ratio]."""
REST = "rest"
"""Name of the flow that collects all flows without a separate slot."""
WindowsOf = Callable[[int, int, int | None], Packed]
"""Function that reads the windows of a point and slot, for one flow or for all."""
QUANTILES = ((0.5, "p50"), (0.99, "p99"), (1.0, "max"))
Column = NDArray[np.int64]
_MORE = 0x80
_LONGEST = 10
"""Maximum number of 7-bit groups of a number below 2^64."""


@dataclass(frozen=True, slots=True, eq=False)
class Unpacked:
    """Windows with traffic, in order."""

    numbers: Column
    """Window numbers: window n starts at n times the length."""
    frames: Column
    """Frames per window."""
    bytes: Column
    """Bytes per window."""


@dataclass(frozen=True, slots=True)
class Point:
    """Traffic that a point of a watch observes."""

    about: Dimensions
    """Direction of the frames: from->to; ->to into a port, from-> out of it."""
    before_queue: bool = False
    """Whether frames are observed before they pass a shaper."""


def watched(
    asked: Watch, points: Sequence[Point], found: Watched, started: WatchStarted, read: WindowsOf
) -> Seen:
    """Return the metrics, warnings and series of one kernel's points."""
    metrics: list[Metric] = []
    warnings: list[TrialWarning] = []
    series: list[Series] = []
    for place, (point, seen) in enumerate(zip(points, found.points, strict=True)):
        metrics += _metrics(point.about, seen)
        columns = _windows(seen, partial(read, place))
        series += _series(point.about, seen, columns, found.begin_ns)
        flows = _flows(seen, partial(read, place, 0))
        series += _flow_series(point.about, seen, flows, found.begin_ns)
        metrics += _fairness(point.about, seen, flows)
        metrics += _stolen_metrics(point.about, seen, found)
        warnings += _warnings(point, seen, started)
    series += _stolen_series(asked, found)
    stolen_ns = sum(each.steal_ns for each in found.stolen)
    if stolen_ns:
        span_ns = max(1, found.end_ns - found.begin_ns)
        warnings.append(WatchStolen(at=asked.at, stolen_ratio=stolen_ns / span_ns))
    return Seen(tuple(metrics), tuple(warnings), tuple(series))


def _metrics(about: Dimensions, seen: WatchedPoint) -> Iterator[Metric]:
    if seen.first_ns is None or seen.last_ns is None:
        return
    first = seen.windows[0]
    yield Metric.of("watched_bytes", first.bytes, about)
    yield Metric.of("watched_frames", first.frames, about)
    for windows in seen.windows:
        yield from _window_metrics(_of(about, windows), windows)
    yield from _train_metrics(about, seen.trains)
    for bucket in seen.curve:
        if bucket.left_bytes == 0 or bucket.depth_bytes < first.bytes:
            yield Metric.of("burst_bytes", bucket.depth_bytes, replace(about, rate_bps=bucket.rate_bps))
    if seen.line is not None:
        of_line = replace(about, rate_bps=seen.line.needs.rate_bps, part=LINE)
        yield Metric.of("line_buffer_bytes", seen.line.needs.depth_bytes, of_line)
        span_ns = max(seen.last_ns - seen.first_ns, seen.line.busy_ns, 1)
        yield Metric.of("line_busy_ratio", seen.line.busy_ns / span_ns, of_line)
        for loss in seen.line.losses:
            ratio = loss.lost_bytes / loss.offered_bytes if loss.offered_bytes else 0.0
            yield Metric.of("predicted_loss_ratio", ratio, replace(of_line, buffer_bytes=loss.depth_bytes))


def _of(about: Dimensions, windows: WatchWindows) -> Dimensions:
    return replace(about, window_ns=windows.window_ns, part=LINE if windows.view == "line" else None)


def _window_metrics(about: Dimensions, windows: WatchWindows) -> Iterator[Metric]:
    if not windows.windows:
        return
    bits = 8 * NS_PER_S / windows.window_ns
    for share, name in QUANTILES:
        value = quantile(windows.histogram, share)
        if value is not None:
            yield Metric.of(f"window_rate_{name}_bps", value * bits, about)
    yield Metric.of("window_rate_mean_bps", windows.bytes / windows.windows * bits, about)
    yield Metric.of("idle_ratio", windows.idle_windows / windows.windows, about)
    mean = windows.frames / windows.windows
    variance = windows.frames_squared / windows.windows - mean * mean
    yield Metric.of("dispersion_index", max(0.0, variance) / mean, about)


def _train_metrics(about: Dimensions, trains: WatchTrains) -> Iterator[Metric]:
    of = (
        ("train_frames_{}", trains.frames),
        ("train_bytes_{}", trains.bytes),
        ("train_length_{}_ns", trains.lengths_ns),
        ("train_interval_{}_ns", trains.intervals_ns),
        ("gap_{}_ns", trains.gaps_ns),
    )
    for name, histogram in of:
        for share, which in QUANTILES:
            value = quantile(histogram, share)
            if value is not None:
                yield Metric.of(name.format(which), value, about)


def _stolen_metrics(about: Dimensions, seen: WatchedPoint, found: Watched) -> Iterator[Metric]:
    if seen.first_ns is None or seen.last_ns is None:
        return
    first_ns, last_ns = seen.first_ns, max(seen.last_ns, seen.first_ns + 1)
    touched_ns = sum(
        max(0, min(each.end_ns, last_ns) - max(each.begin_ns, first_ns)) for each in found.stolen
    )
    window_ns = seen.windows[0].window_ns
    of = replace(about, window_ns=window_ns)
    yield Metric.of("stolen_windows_ratio", touched_ns / (last_ns - first_ns), of)


def _stolen_series(asked: Watch, found: Watched) -> Iterator[Series]:
    """Yield the steal share of a CPU between the readings that showed the steal."""
    points: list[tuple[int, float]] = []
    for each in found.stolen:
        begin_ns, end_ns = max(each.begin_ns - found.begin_ns, 0), each.end_ns - found.begin_ns
        if end_ns <= begin_ns:
            continue
        if not points or begin_ns > points[-1][0]:
            points.append((begin_ns, 0.0))
        points.append((end_ns, each.steal_ns / (end_ns - begin_ns)))
    if points:
        yield series_over_time("stolen_ratio", "ratio", points, Dimensions(part=asked.at), SOURCE)


Columns = dict[int, Unpacked]


def _windows(seen: WatchedPoint, read: Callable[[int, int | None], Packed]) -> Columns:
    return {place: unpack(read(place, None)) for place, one in enumerate(seen.windows) if one.frames}


def _flows(seen: WatchedPoint, read: Callable[[int], Packed]) -> Columns:
    return {place: unpack(read(place)) for place, flow in enumerate(seen.flows) if flow.windows.frames}


def _series(about: Dimensions, seen: WatchedPoint, columns: Columns, begin_ns: int) -> Iterator[Series]:
    for place, found in columns.items():
        windows = seen.windows[place]
        yield from _of_windows(_of(about, windows), windows, found, begin_ns)
    gaps = seen.trains.gaps_ns.buckets
    yield from _values("gaps_by_ns", gaps, about)
    yield from _values("trains_by_frames", seen.trains.frames.buckets, about)
    yield from _values("trains_by_ns", seen.trains.lengths_ns.buckets, about)
    curve = [(bucket.rate_bps, bucket.depth_bytes) for bucket in seen.curve]
    yield from _values("burst_bytes_by_bps", curve if seen.first_ns is not None else (), about)


def _of_windows(about: Dimensions, windows: WatchWindows, found: Unpacked, begin_ns: int) -> Iterator[Series]:
    at_ns = found.numbers * windows.window_ns - begin_ns
    for name, values in (("window_bytes", found.bytes), ("window_frames", found.frames)):
        yield Series(name, unit_of(name), at_ns, values.astype(np.float64), about, Over.WINDOWS, SOURCE)


def _values(name: str, points: Sequence[tuple[int, int]], about: Dimensions) -> Iterator[Series]:
    if points:
        at = np.array([value for value, _ in points], dtype=np.int64)
        counts = np.array([count for _, count in points], dtype=np.float64)
        yield Series(name, unit_of(name), at, counts, about, Over.VALUES, SOURCE)


def _flow_series(about: Dimensions, seen: WatchedPoint, flows: Columns, begin_ns: int) -> Iterator[Series]:
    for place, found in flows.items():
        flow = seen.flows[place]
        of = replace(about, flow=flow_name(flow), window_ns=flow.windows.window_ns)
        at_ns = found.numbers * flow.windows.window_ns - begin_ns
        yield Series("window_bytes", "byte", at_ns, found.bytes.astype(np.float64), of, Over.WINDOWS, SOURCE)


def flow_name(flow: WatchFlow) -> str:
    """Return a flow's name: address:port->address:port and its protocol."""
    if flow.rest:
        return REST
    if not flow.protocol:
        return "no IP"
    ends = f"{_end(flow.source, flow.source_port)}->{_end(flow.destination, flow.destination_port)}"
    names = {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp6"}
    return f"{ends} {names.get(flow.protocol, flow.protocol)}"


def _end(address: str, port: int) -> str:
    shown = f"[{address}]" if ":" in address else address
    return f"{shown}:{port}" if port else shown


def _fairness(about: Dimensions, seen: WatchedPoint, flows: Columns) -> Iterator[Metric]:
    """Yield Jain's fairness index of the flows with traffic, over windows of increasing length."""
    known = {place: found for place, found in flows.items() if not seen.flows[place].rest}
    for place in known:
        flow = seen.flows[place]
        of = replace(about, flow=flow_name(flow))
        yield Metric.of("watched_bytes", flow.windows.bytes, of)
        yield Metric.of("watched_frames", flow.windows.frames, of)
    if len(known) < 2:
        return
    window_ns = seen.flows[0].windows.window_ns
    first = max(int(found.numbers[0]) for found in known.values())
    last = min(int(found.numbers[-1]) for found in known.values())
    for times in (1, 10, 100, 1000):
        count = (last - first + 1) // times
        if count >= 1:
            index = _jain([_joined(found, first, count, times) for found in known.values()])
            if index is not None:
                yield Metric.of("window_fairness_index", index, replace(about, window_ns=window_ns * times))


def _joined(found: Unpacked, first: int, count: int, times: int) -> Values:
    inside = (found.numbers >= first) & (found.numbers < first + count * times)
    place = (found.numbers[inside] - first) // times
    return np.bincount(place, weights=found.bytes[inside], minlength=count).astype(np.float64)


def _jain(rates: Sequence[Values]) -> float | None:
    total = np.sum(rates, axis=0)
    squares = np.sum([rate * rate for rate in rates], axis=0)
    busy = total > 0
    if not busy.any():
        return None
    return float(np.mean(total[busy] ** 2 / (len(rates) * squares[busy])))


def _warnings(point: Point, seen: WatchedPoint, started: WatchStarted) -> Iterator[TrialWarning]:
    place = point.about.direction or ""
    if point.before_queue:
        yield WatchBeforeQueue(at=place)
    if seen.by == "af_packet":
        yield WatchByPackets(at=place, reasons=started.fallbacks)
    if seen.lost_frames:
        yield WatchLost(at=place, lost_frames=seen.lost_frames)
    packets = seen.windows[0].frames + seen.lost_frames - seen.added_frames
    if seen.unstamped_frames and seen.unstamped_frames > UNSTAMPED_RATIO * packets:
        yield WatchUnstamped(at=place, frames=seen.unstamped_frames, of_frames=packets)
    left_out = sum(windows.left_out for windows in seen.windows)
    left_out += sum(flow.windows.left_out for flow in seen.flows)
    if left_out:
        yield WindowsLeftOut(at=place, windows=left_out)
    yield from _disagreement(place, seen)


def _agree(octets: int, frames: int, counted: WatchCounted) -> bool:
    """Whether an interface counted the same bytes and frames as the watch, with or without Ethernet headers.

    A veth with NAPI enabled counts packets of the stack without the Ethernet header, and XDP frames with it
    (drivers/net/veth.c: xdp_bytes); any of the frames may therefore be counted without the header.
    """
    if not counted.least_frames <= frames <= counted.most_frames:
        return False
    fewest = -(-(octets - counted.most_bytes) // ETHERNET_HEADER_BYTES)
    most = (octets - counted.least_bytes) // ETHERNET_HEADER_BYTES
    return max(fewest, 0) <= min(most, frames)


def _disagreement(place: str, seen: WatchedPoint) -> Iterator[TrialWarning]:
    """Yield a warning if the interface counters differ; they count a super-frame as one frame or as its segments."""
    windows = seen.windows[0]
    bytes_on_line, frames_on_line = windows.bytes + seen.lost_bytes, windows.frames + seen.lost_frames
    either = (
        (bytes_on_line, frames_on_line),
        (bytes_on_line - seen.added_bytes, frames_on_line - seen.added_frames),
    )
    counted = seen.counted
    if not any(_agree(octets, frames, counted) for octets, frames in either):
        yield WatchDisagrees(
            at=place,
            window_bytes=bytes_on_line,
            packet_bytes=bytes_on_line - seen.added_bytes,
            counted_bytes=counted.most_bytes,
            window_frames=frames_on_line,
            counted_frames=counted.most_frames,
        )


def unpack(packed: Packed) -> Unpacked:
    """Decode packed windows.

    Raises:
        ValueError: the data is truncated, or a number exceeds 64 bits.
    """
    values = _numbers(packed.numbers)
    if len(values) % 2:
        raise ValueError(Phrase("trial.window-of-one-number"))
    steps, frames = values[::2] >> packed.frame_bits, values[::2] & ((1 << packed.frame_bits) - 1)
    begins = np.flatnonzero(steps > 0) if len(steps) else np.array([], dtype=np.int64)
    if len(steps) and (not len(begins) or begins[0] != 0):
        begins = np.concatenate(([0], begins))
    numbers = np.cumsum(steps)[begins] if len(begins) else steps
    return Unpacked(numbers, _sums(frames, begins), _sums(values[1::2], begins))


def _sums(values: Column, begins: Column) -> Column:
    return np.add.reduceat(values, begins) if len(begins) else values


def _numbers(packed: bytes) -> Column:
    octets = np.frombuffer(packed, dtype=np.uint8)
    ends = np.flatnonzero(octets < _MORE)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise ValueError(Phrase("trial.windows-cut-off"))
    begins = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - begins + 1
    if len(lengths) and lengths.max() > _LONGEST:
        raise ValueError(Phrase("trial.number-of-windows-too-long"))
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(int(lengths.max()) if len(lengths) else 0):
        has = lengths > place
        group = (octets[begins[has] + place] & 0x7F).astype(np.int64)
        values[has] |= group << (7 * place)
    return values
