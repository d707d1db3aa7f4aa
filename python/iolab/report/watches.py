"""Sentences about watches: bursts of frames, intervals between bursts, and whether a shaper conforms to its limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.shaper_check import Advice, Judged, Kind
from iolab.analysis.shaper_classes import Check, Kept
from iolab.analysis.types import Analysis, CellKey, Estimate, cell_key
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.results.metric import Dimensions
from iolab.units import NS_PER_S, format_bytes

BUSIEST_SHARE = 0.1
"""Minimum bytes of a direction, as a ratio of the bytes of the measure's busiest direction; directions below this ratio
(acknowledgements) get no sentence."""
IDLE_TIMES = 3.0
"""Maximum pause, as a multiple of the burst's length, that is written as a number of frame times; after a longer pause,
the interval between bursts is written."""
LINE_EXTRA_BYTES = 24
"""Bytes per frame on the line that counters do not include: checksum, preamble and gap."""
MOST_TOGETHER = 4
"""Maximum number of cells in one sentence; more cells get a sentence each."""
MOST_CELLS = 12
"""Maximum number of cells that are described individually."""
AT_LEAST = frozenset({Kept.REACHED, Kept.ALONE, Kept.SHARE})
FLOWS = 8
"""Recommended number of separately counted flows: each iperf3 stream has two connections."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Traffic in one direction of one cell: means over blocks. A value of None was not measured."""

    cell: Mapping[str, str]
    """Factor to label."""
    direction: str
    """Sending and receiving port, as "a->b"."""
    bytes: float
    """Total bytes."""
    frames: Estimate | None
    """Median number of frames per burst."""
    frames_p99: Estimate | None
    """p99 of the number of frames per burst."""
    interval: Estimate | None
    """Median time from the start of a burst to the start of the next [ns]."""
    gap: Estimate | None
    """Median gap between two frames [ns]."""
    busiest: Estimate | None
    """Maximum rate in the shortest windows [bit/s]."""
    idle: Estimate | None
    """Share of the shortest windows that contain no frame."""
    frame_ns: float | None
    """Transmission time of a burst's frame on the declared line; None: no line is declared [ns]."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The arrival pattern of frames in some cells."""

    kind: str
    """Key of the sentence template."""
    frames: int
    """Frames per burst."""
    spans_ns: tuple[float, ...]
    """The time that the sentence states for each cell [ns]; empty if the template contains no time."""
    idle: tuple[int, ...] = ()
    """Pause after a burst in each cell, in frame times."""

    @property
    def alike(self) -> tuple[object, ...]:
        """Return a key that is equal for patterns in one clause: template, frames per burst, times in powers of two."""
        sizes = tuple(int(span).bit_length() for span in (*self.spans_ns, *self.idle))
        return (self.kind, self.frames, sizes)

    def say(self, words: Words) -> str:
        """Return the pattern as text, with the minimum and maximum of its cells."""
        spans = [_duration(one) for one in sorted(self.spans_ns)]
        idle = [str(one) for one in sorted(self.idle)]
        return words.text(self.kind, frames=self.frames, span=_range(spans, words), idle=_range(idle, words))


def watch_lines(analysis: Analysis, measures: Sequence[str], names: Names) -> Iterator[str]:
    """Yield a sentence per direction with the traffic in each cell.

    If there are many cells, equal patterns share a clause.
    """
    words = names.words
    for measure in measures:
        passed = tuple(passed_by(measure, analysis))
        most = max((one.bytes for one in passed), default=0.0)
        for direction in dict.fromkeys(one.direction for one in passed if one.bytes >= BUSIEST_SHARE * most):
            own = [one for one in passed if one.direction == direction]
            clauses = _clauses(own, names)
            places = {"measure": names.measure(measure), "direction": direction.replace("->", " → ")}
            together = (
                [words.text("wire.clauses").join(clauses)] if 0 < len(clauses) <= MOST_TOGETHER else clauses
            )
            for cells in together:
                yield words.text("wire.saw", **places, cells=cells)


def _clauses(own: Sequence[Passed], names: Names) -> list[str]:
    words = names.words
    groups: dict[object, list[tuple[Passed, _Pattern]]] = {}
    for number, one in enumerate(own):
        if (pattern := _pattern(one)) is not None:
            key = number if len(own) <= MOST_CELLS else pattern.alike
            groups.setdefault(key, []).append((one, pattern))
    clauses = []
    for found in groups.values():
        first = found[0][1]
        spans = tuple(span for _, each in found for span in each.spans_ns)
        idle = tuple(time for _, each in found for time in each.idle)
        said = _Pattern(first.kind, first.frames, spans, idle).say(words)
        cell = names.cell(found[0][0].cell) if len(found) == 1 else words.text("wire.cells", count=len(found))
        clauses.append(words.text("wire.in_cell", cell=cell, pattern=said) if cell else said)
    return clauses


def _range(texts: Sequence[str], words: Words) -> str:
    if not texts or texts[0] == texts[-1]:
        return texts[0] if texts else ""
    return words.text("wire.between", low=texts[0], high=texts[-1])


def passed_by(measure: str, analysis: Analysis) -> Iterator[Passed]:
    """Yield the traffic that the watches of a measure recorded, by cell and direction."""
    every = analysis.estimates.of_measure(measure)
    by: dict[tuple[str, Dimensions], dict[CellKey, Estimate]] = {}
    for quantity, estimates in every.items():
        if quantity.dimensions.direction is not None:
            own = {cell_key(one.cell): one for one in estimates}
            by[quantity.name, quantity.dimensions] = own
    for about in [of for name, of in by if name == "watched_bytes" and of.flow is None]:
        windows = [
            of
            for name, of in by
            if name == "idle_ratio" and of.direction == about.direction and of.part is None
        ]
        shortest = min(windows, key=lambda of: of.window_ns or 0, default=about)
        lines = [of for name, of in by if name == "line_buffer_bytes" and of.direction == about.direction]
        for key, seen in by["watched_bytes", about].items():
            frames, octets = _at(by, "train_frames_p50", about, key), _at(by, "train_bytes_p50", about, key)
            line_bps = next((of.rate_bps for of in lines if key in by["line_buffer_bytes", of]), None)
            yield Passed(
                cell=seen.cell,
                direction=about.direction or "",
                bytes=seen.mean,
                frames=frames,
                frames_p99=_at(by, "train_frames_p99", about, key),
                interval=_at(by, "train_interval_p50_ns", about, key),
                gap=_at(by, "gap_p50_ns", about, key),
                busiest=_at(by, "window_rate_max_bps", shortest, key),
                idle=_at(by, "idle_ratio", shortest, key),
                frame_ns=_frame_ns(frames, octets, line_bps),
            )


def _at(
    by: Mapping[tuple[str, Dimensions], Mapping[CellKey, Estimate]],
    name: str,
    about: Dimensions,
    key: CellKey,
) -> Estimate | None:
    return by.get((name, about), {}).get(key)


def _frame_ns(frames: Estimate | None, octets: Estimate | None, line_bps: int | None) -> float | None:
    if frames is None or octets is None or not line_bps or frames.mean <= 0:
        return None
    return (octets.mean / frames.mean + LINE_EXTRA_BYTES) * 8 * NS_PER_S / line_bps


def _pattern(one: Passed) -> _Pattern | None:
    """Return the arrival pattern of frames; None: there were too few frames."""
    if one.frames is None:
        return None
    frames = round(one.frames.mean)
    if one.interval is None:
        return _Pattern("wire.no_pause", frames, ()) if frames > 1 else None
    if frames <= 1:
        return _Pattern("wire.one_by_one", 1, ((one.gap or one.interval).mean,))
    idle = 0.0 if not one.frame_ns else one.interval.mean / one.frame_ns - frames
    if 0 < idle <= IDLE_TIMES * frames:
        return _Pattern("wire.idle_for", frames, (), (max(1, round(idle)),))
    return _Pattern("wire.bursts", frames, (one.interval.mean,))


def _duration(ns: float) -> str:
    by = numbers.scale("", "ns", (ns,))
    scaled = ns * by.factor
    return f"{scaled:.{max(0, 2 - len(str(int(scaled))))}f} {by.unit}"


def lines(link: str, trial: str, found: Judged, words: Words) -> Iterator[str]:
    """Yield the lines about one shaper in one trial."""
    verdicts = {
        Kind.PASSED: words.text("wire.shaper.passed"),
        Kind.FAILED: words.text("wire.shaper.failed"),
        Kind.NOT_JUDGED: words.text("wire.shaper.not_judged"),
    }
    yield words.text("wire.shaper.title", link=link, trial=trial, verdict=verdicts[found.verdict])
    for check in found.checks:
        yield _checked(check, words)
    if found.classes is None:
        yield words.text("wire.shaper.flows_unseen", flows=FLOWS)
    for one in found.classes or ():
        yield words.text("wire.shaper.of_class" if one.checks else "wire.shaper.silent_class", name=one.name)
        for check in one.checks:
            yield _checked(check, words)
    for advice in found.advice:
        yield words.text("wire.shaper.advice", key=advice.key, value=_value(advice))


def _checked(check: Check, words: Words) -> str:
    what = {
        Kept.RATE: words.text("wire.shaper.rate"),
        Kept.REACHED: words.text("wire.shaper.reached"),
        Kept.WINDOW: words.text("wire.shaper.window"),
        Kept.CEIL: words.text("wire.shaper.ceil"),
        Kept.ALONE: words.text("wire.shaper.alone"),
        Kept.SHARE: words.text("wire.shaper.share"),
    }[check.what]
    bound = (
        words.text("wire.shaper.at_least") if check.what in AT_LEAST else words.text("wire.shaper.at_most")
    )
    held = words.text("wire.shaper.held") if check.held else words.text("wire.shaper.missed")
    if check.excuse is not None:
        held = words.text("wire.shaper.excused", why=words.said.say(check.excuse))
    return bound.format(
        what=f"{what:18}",
        window=f"{numbers.duration(check.window_ns):>6}",
        seen=f"{check.seen_bps / 1e6:10.2f}",
        allowed=f"{check.allowed_bps / 1e6:.2f}",
        held=held,
    )


def _value(advice: Advice) -> str:
    return f"{advice.value}" if advice.key == "gso_max_segs" else format_bytes(advice.value)
