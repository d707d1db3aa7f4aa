"""What watches saw, and how a shaper was judged, in sentences."""

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
"""Frames of a burst, and time between begins of bursts [ns]; 0: no burst ended."""
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


def test_a_sentence_says_how_frames_followed_each_other_in_each_cell() -> None:
    """Bursts by their time, single frames by their gap, pauses in frame times of the line; answers are not told."""
    records, plan = watched()
    assert list(watch_lines(analyse(records, plan), ["tcp"], names_of(plan, EN))) == [SAID]


def test_more_than_four_cells_have_a_sentence_each() -> None:
    """One sentence of twelve cells is a wall of text."""
    records, plan = watched(6)
    said = list(watch_lines(analyse(records, plan), ["tcp"], names_of(plan, EN)))
    assert len(said) == 6
    assert said[1] == "TCP, pc0.eth0 → line.p0: pacer 100: one frame every 121 µs."


def test_many_cells_of_one_pattern_are_told_together() -> None:
    """A sentence stays short; the table has every cell."""
    records, plan = watched(20)
    (said,) = watch_lines(analyse(records, plan), ["tcp"], names_of(plan, EN))
    assert "5 cells: bursts of 18 frames every 2.3 ms; 5 cells: one frame every 121 µs" in said


def test_every_format_has_the_sentence_and_the_table(made: Made) -> None:
    """Terminal, Markdown, wiki and page."""
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


def test_every_check_and_every_advice_is_a_line() -> None:
    """With what was seen, what is allowed, and whether it holds."""
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


def test_classes_have_lines_of_their_own_and_what_is_not_judged_has_its_reason() -> None:
    """A class that sent nothing is said to be so."""
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
    assert said[4:] == ["  class two: not checked, because it sent too little"]


def test_classes_that_the_watch_does_not_tell_apart_are_said_to_be_so() -> None:
    """With the key that would."""
    said = list(lines("wire", "tcp block 1", Judged((), (), None), EN))
    assert said[1:] == [
        "  The classes were not checked, because the watch does not distinguish flows. Add `flows: 8` to the watch",
    ]
