"""Sentences about watches and shaper checks."""

import io
import re
from dataclasses import replace

from rich.console import Console
from tests.unit.analysis.conftest import make_run
from tests.unit.report.conftest import Made

from iolab.analysis import analyse
from iolab.analysis.shaper_check import Advice, Judged
from iolab.analysis.shaper_classes import Check, ClassJudged, Kept
from iolab.messages.instrument_warnings import WatchStolen
from iolab.plan.types import Plan
from iolab.report import formats
from iolab.report.console import terminal
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.watches import lines, watch_lines
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.store.records import TrialRecord

ABOUT = Dimensions(direction="pc0.eth0->line.p0")
LINE = Dimensions(direction="pc0.eth0->line.p0", rate_bps=10**9, part="line")
SHAPES = {"htb 100": (18, 2.3e6), "pacer 100": (1, 121e3), "unshaped": (9, 20 * 12_304.0), "full": (900, 0.0)}
"""Frames of a burst, and time between beginnings of bursts [ns]; 0: no burst ended."""
SAID = (
    "TCP, pc0.eth0 → line.p0: htb 100: bursts of 18 frames every 2.3 ms; pacer 100: one frame every 121 µs; "
    "unshaped: 9 frames, then idle for 11 frame times; full: a single burst of 900 frames."
)


def seen(frames: float, interval_ns: float) -> Metrics:
    """Return the metrics of a watch on a line of 1 Gbit/s, on which a long frame takes 12.3 us."""
    back = Dimensions(direction="line.p0->pc0.eth0")
    return Metrics(
        (
            Metric("received_bps", "bit/s", 1e8),
            Metric("watched_bytes", "byte", 1e6, ABOUT),
            Metric("watched_bytes", "byte", 1e4, back),
            Metric("train_frames_p50", "count", 1.0, back),
            Metric("train_interval_p50_ns", "ns", 1e6, back),
            Metric("train_frames_p50", "count", frames, ABOUT),
            Metric("train_bytes_p50", "byte", frames * 1514, ABOUT),
            *((Metric("train_interval_p50_ns", "ns", interval_ns, ABOUT),) if interval_ns else ()),
            Metric("gap_p50_ns", "ns", interval_ns if frames == 1 else 0.0, ABOUT),
            Metric("line_buffer_bytes", "byte", 3e3, LINE),
            Metric("idle_ratio", "ratio", 0.9, Dimensions(direction="pc0.eth0->line.p0", window_ns=12_000)),
        )
    )


def watched(shapes: int = 4) -> tuple[list[TrialRecord], Plan]:
    """Return a run with a cell per shape, or more."""
    names = list(SHAPES)
    labels = [names[at] if at < 4 else f"{names[at % 4]} {at}" for at in range(shapes)]
    records, plan = make_run({"shape": labels}, 1, lambda *_: {"received_bps": (1e8, "bit/s")})
    figures = list(SHAPES.values())
    made = [
        replace(one, result=replace(one.result, metrics=seen(*figures[at % 4])))
        for at, one in enumerate(records)
    ]
    return made, plan


def test_watch_sentence_describes_bursts_gaps_and_pauses_per_cell() -> None:
    """Describe bursts by interval, frames by gap, pauses in frame times; ignore acknowledgements."""
    records, plan = watched()
    assert list(watch_lines(analyse(records, plan), ["tcp"], names_of(plan, EN))) == [SAID]


def test_more_than_four_cells_get_a_sentence_each() -> None:
    """Avoid one sentence of twelve cells."""
    records, plan = watched(6)
    said = list(watch_lines(analyse(records, plan), ["tcp"], names_of(plan, EN)))
    assert len(said) == 6
    assert said[1] == "TCP, pc0.eth0 → line.p0: pacer 100: one frame every 121 µs."


def test_cells_with_the_same_pattern_share_one_sentence() -> None:
    """Keep the sentence short; the table has every cell."""
    records, plan = watched(20)
    (said,) = watch_lines(analyse(records, plan), ["tcp"], names_of(plan, EN))
    assert "5 cells: bursts of 18 frames every 2.3 ms; 5 cells: one frame every 121 µs" in said


def test_every_format_has_the_watch_sentence_and_the_table(made: Made) -> None:
    """Check terminal, Markdown, wiki and page."""
    run, _, experiment = made
    records, plan = watched()
    cells = [{"shape": name} for name in SHAPES]
    own = replace(
        run, plan=plan, trials=tuple(replace(one, cell=cells[at]) for at, one in enumerate(records))
    )
    analysis = analyse(own.trials, plan)
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(terminal(own, analysis))
    texts = [
        console.export_text(),
        *(
            write(own, analysis, experiment, "0")
            for write in (formats.markdown, formats.pukiwiki, formats.html)
        ),
    ]
    for text in texts:
        plain = re.sub(r"&#?\w+;|[\\\n]|<[^>]+>", "", text)
        assert "htb 100: bursts of 18 frames every 2.3 ms" in plain
        assert "watched traffic, means over trials" in plain
        assert "burst interval p50" in plain


def test_every_shaper_check_and_suggestion_is_a_line() -> None:
    """Include the value, the limit, and the result."""
    checks = (
        Check(Kept.REACHED, 10_000_000, 96e6, 97e6, held=False),
        Check(Kept.WINDOW, 12_000, 99e6, 1.1e9, held=True),
    )
    advice = (Advice("burst", 16_384), Advice("gso_max_segs", 1))
    said = list(lines("wire", "tcp block 1", Judged(checks, advice), EN))
    assert said == [
        "wire, tcp block 1: FAIL",
        "  rate reached        10 ms       96.00 Mbit/s, at least 97.00  FAIL",
        "  busiest window      12 µs       99.00 Mbit/s, at most 1100.00  ok",
        "  suggestion: set burst to 16 KiB",
        "  suggestion: set gso_max_segs to 1",
    ]


def test_shaper_classes_have_separate_lines_with_reasons_for_missing_judgements() -> None:
    """Report a class that sent nothing."""
    stolen = WatchStolen(at="far.eth0", stolen_ratio=0.1)
    checks = (
        Check(Kept.SHARE, 12_000_000, 39e6, 38.8e6, held=True),
        Check(Kept.WINDOW, 12_000, 99e6, 60e6, held=False, excuse=stolen),
    )
    found = Judged((), (), (ClassJudged("one", checks), ClassJudged("two", ())))
    said = list(lines("wire", "tcp block 1", found, EN))
    assert said[:3] == [
        "wire, tcp block 1: inconclusive",
        "  class one:",
        "  rate when shared    12 ms       39.00 Mbit/s, at least 38.80  ok",
    ]
    assert said[3].startswith("  busiest window      12 µs       99.00 Mbit/s, at most 60.00  inconclusive: ")
    assert EN.said.say(stolen) in said[3]
    assert said[4:] == ["  class two: not checked, because the class sent too little traffic"]


def test_classes_that_the_watch_does_not_distinguish_are_reported_with_a_remedy() -> None:
    """Name the missing key."""
    said = list(lines("wire", "tcp block 1", Judged((), (), None), EN))
    assert said[1:] == [
        "  The classes were not checked, because the watch does not distinguish flows. Add `flows: 8` to the watch",
    ]
