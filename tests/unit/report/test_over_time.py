"""Series in the report: over the time of a trial, and of a watch."""

import base64
import io
import json
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.unit.report.conftest import Made
from tests.unit.report.pages import parsed

from iolab.analysis.thinning import pyramid
from iolab.report import formats as report
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.page.over_time import drawn_trials
from iolab.report.wire import binned, course, sparkline
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.series import Over, Series, series
from iolab.store.records import StoredRun

PERIOD_NS = 100_000_000


def seen(points: int = 100) -> tuple[Series, ...]:
    """Return the series of two ports: one at 1 Gbit/s with a dip, one at a tenth."""
    whole = [(at * PERIOD_NS, 2e8 if at == points // 2 else 1e9) for at in range(1, points + 1)]
    tenth = [(at, value / 10) for at, value in whole]
    return (
        series("rx_bps", "bit/s", whole, Dimensions(port="far.eth0")),
        series("rx_bps", "bit/s", tenth, Dimensions(port="near.eth0")),
    )


def test_page_has_a_folded_section_for_each_trial_with_series(made: Made) -> None:
    """Draw every successful trial, with an alternative text."""
    run, analysis, experiment = made
    page = report.html(run, analysis, experiment, "1.2.3", lambda _: seen())
    elements = parsed(page)
    well = sum(trial.result.status == "ok" for trial in run.trials)
    folded = [each for each in elements.named("details") if each.get("class") == "course"]
    pictures = [each for each in elements.named("svg") if "over the trial" in (each.get("aria-label") or "")]
    assert (len(folded), len(pictures)) == (well, 2 * well)
    assert "0 to 1.00\u00a0Gbit/s" in page
    assert 'href="#over-time"' in page
    assert "Every chart covers the time from 0 to 10.0\u00a0s." in page


def test_series_figures_have_their_own_unit_and_share_the_scale_of_the_largest(made: Made) -> None:
    """Write the acknowledgements of a fast stream as 1.50 Mbit/s, not as 0.00150 Gbit/s."""
    run = made[0]
    both = tuple(
        series("rx_bps", "bit/s", [(PERIOD_NS, rate)], Dimensions(port=port))
        for port, rate in (("far.eth0", 1e9), ("near.eth0", 1.5e6))
    )
    row = drawn_trials(run.trials[:1], lambda _: both, names_of(run.plan, EN)).trials[0].rows[0]
    assert row.scale == "0 to 1.00\u00a0Gbit/s"
    assert row.drawings[1].figures == "1.50 · 1.50 · 1.50\u00a0Mbit/s"


def test_run_without_series_has_no_section_over_time(made: Made) -> None:
    """Omit the heading, too."""
    run, analysis, experiment = made
    assert 'id="over-time"' not in report.html(run, analysis, experiment, "1.2.3", lambda _: ())


def test_series_with_the_same_name_share_a_scale(made: Made) -> None:
    """Draw a port with a tenth of the rate at a tenth of the height."""
    run = made[0]
    drawn = drawn_trials(run.trials[:1], lambda _: seen(), names_of(run.plan, EN))
    near = drawn.trials[0].rows[0].drawings[1]
    assert re.findall(r",(\d+)", near.line)[0] == "90"
    assert near.band == ""


def test_chart_of_a_long_trial_has_minimum_to_maximum_bands(made: Made) -> None:
    """Include a dip of one point in ten in its band."""
    run = made[0]
    drawn = drawn_trials(run.trials[:1], lambda _: seen(1000), names_of(run.plan, EN))
    far = drawn.trials[0].rows[0].drawings[0]
    assert ",80" in far.band
    assert len(re.findall(r"\d+,\d+", far.line)) == 100


def test_charts_of_many_trials_are_limited_and_the_omission_is_stated(made: Made) -> None:
    """Draw the first trial of each cell first, and state the number of omitted ones."""
    run = made[0]
    named = names_of(run.plan, EN)
    whole = drawn_trials(run.trials, lambda _: seen(), named)
    part = drawn_trials(run.trials, lambda _: seen(), named, most_bytes=whole.trials[0].bytes * 5 + 99)
    assert len(part.trials) == 5
    assert len({each.title.rpartition(", block")[0] for each in part.trials}) == 5
    assert any("Trials with charts: 5 of" in note for note in part.notes)


def test_gap_in_a_series_breaks_the_line(made: Made) -> None:
    """Draw no line at 0 for unknown values."""
    run = made[0]
    at_ns = np.arange(1, 5, dtype=np.int64) * PERIOD_NS
    gap = Series("rx_bps", "bit/s", at_ns, np.array([1.0, math.nan, 1.0, 1.0]))
    drawn = drawn_trials(run.trials[:1], lambda _: (gap,), names_of(run.plan, EN))
    assert drawn.trials[0].rows[0].drawings[0].line.count("M") == 2


def test_sparkline_distinguishes_small_zero_and_unknown_values() -> None:
    """Use the lowest block for 0 only, and a space for unknown values."""
    assert sparkline(np.array([0.0, 1e-6, 0.5, 1.0, math.nan]), 1.0) == "▁▂▅█ "
    assert sparkline(np.array([0.0, 0.0]), 0.0) == "▁▁"


def test_terminal_shows_the_series_of_a_trial(made: Made) -> None:
    """Print a line per series with its course, minimum, mean and maximum."""
    run = made[0]
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as shown:
        console.print(report.trial_over_time(run.trials[0], seen(), run.plan))
    text = shown.get()
    assert run.trials[0].key in text
    line = next(each for each in text.splitlines() if "far.eth0" in each)
    assert "█" in line
    assert "1.00\u00a0Gbit/s" in line


def test_output_for_a_trial_without_series_names_the_key_that_stores_series(made: Made) -> None:
    """Name the key of the experiment."""
    run = made[0]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(report.trial_over_time(run.trials[0], (), run.plan))
    assert "sample: none" in shown.get()


THERE = Dimensions(direction="near.eth0->far.eth0")
WINDOW_NS = 12_000


def windows(count: int) -> Series:
    """Return windows, every tenth of which has a frame."""
    at_ns = np.arange(0, count, 10, dtype=np.int64) * WINDOW_NS
    of = replace(THERE, window_ns=WINDOW_NS)
    return Series("window_bytes", "byte", at_ns, np.full(len(at_ns), 1514.0), of, Over.WINDOWS, "watch")


def values(name: str, pairs: Sequence[tuple[int, float]]) -> Series:
    """Return a series over values."""
    at, counts = np.array([at for at, _ in pairs], dtype=np.int64), np.array([count for _, count in pairs])
    return Series(name, "count", at, counts, THERE, Over.VALUES, "watch")


def watched(run: StoredRun) -> StoredRun:
    """Return the run with the figures of a watch in its first trial."""
    first = run.trials[0]
    of = replace(THERE, window_ns=WINDOW_NS)
    more = (
        Metric("watched_bytes", "byte", 1e6, THERE),
        Metric("window_rate_mean_bps", "bit/s", 1e8, of),
        Metric("window_rate_max_bps", "bit/s", 1e9, of),
        Metric("idle_ratio", "ratio", 0.9, of),
        Metric("burst_bytes", "byte", 1514, replace(THERE, rate_bps=10**9)),
    )
    result = replace(first.result, metrics=Metrics((*first.result.metrics, *more)))
    return replace(run, trials=(replace(first, result=result), *run.trials[1:]))


def page_of(made: Made, series: Sequence[Series]) -> str:
    """Return the page of a run whose first trial was watched."""
    run, analysis, experiment = made
    run = watched(run)
    return report.html(
        run, analysis, experiment, "1.2.3", lambda key: series if key == run.trials[0].key else ()
    )


def test_every_pyramid_level_keeps_minimum_mean_and_maximum() -> None:
    """Keep the largest value, and the mean of all windows, on every level."""
    found = pyramid(windows(100_000))
    assert found is not None
    fine, above, top = found.levels[0], found.levels[1], found.levels[-1]
    assert len(fine.mean) == 99_991
    assert above.span_ns == 8 * WINDOW_NS
    assert (float(above.high.max()), float(above.low.min())) == (1514.0, 0.0)
    assert float(top.mean.mean()) == pytest.approx(151.4, rel=0.01)
    assert len(top.mean) <= 512


def test_page_contains_every_window_in_compressed_blocks(made: Made) -> None:
    """Decompress the finest level to the windows, as shares of the largest."""
    page = page_of(made, (windows(200_000),))
    (shape,) = (json.loads(text) for text in re.findall(r'class="w-shape">(.*?)</script>', page))
    assert (shape["from"], shape["levels"][0]["points"]) == (0, 199_991)
    blocks = re.findall(r'<script type="text/plain" id="wire-1-1-1-0-\d+">(.*?)</script>', page)
    fine = np.concatenate([np.frombuffer(zlib.decompress(base64.b64decode(each)), "<u2") for each in blocks])
    assert len(fine) == 199_991
    assert (fine[::10] == 65_535).all()
    assert not fine[1::10].any()
    assert shape["top"] == pytest.approx(1514 * 8e9 / WINDOW_NS)


def test_watched_port_is_shown_with_figures_and_alternative_texts(made: Made) -> None:
    """Describe the pictures for readers who cannot see them."""
    gaps = values("gaps_by_ns", [(0, 100.0), (120_000, 1e6)])
    curve = values("burst_bytes_by_bps", [(10**7, 1e6), (10**9, 1514.0)])
    page = page_of(made, (windows(5_000), gaps, curve))
    elements = parsed(page)
    assert "mean 100 Mbit/s · busiest window 1 Gbit/s · idle 90" in page
    assert "This traffic needs a buffer of 1.48 KiB at 1 Gbit/s." in page
    labels = [
        each.get("aria-label") or "" for each in elements.named("svg") if each.get("class") == "wire-small"
    ]
    assert labels == ["Gaps between frames", "Smallest buffer at each rate"]
    assert "near.eth0 → far.eth0: rate per window" in (next(elements.named("canvas")).get("aria-label") or "")


def test_window_series_are_not_drawn_over_time(made: Made) -> None:
    """Draw them in separate charts."""
    assert 'id="over-time"' not in page_of(made, (windows(5_000),))


def test_run_without_watches_has_no_wire_section(made: Made) -> None:
    """Omit the heading and its script."""
    run, analysis, experiment = made
    page = report.html(run, analysis, experiment, "1.2.3", lambda _: ())
    assert 'id="wire"' not in page
    assert "DecompressionStream" not in page


def test_frames_with_zero_gap_have_a_separate_bar() -> None:
    """Draw a separate bar, because 0 has no place on a logarithmic axis."""
    bars = binned(values("gaps_by_ns", [(0, 7.0), (1_000, 5.0), (120_000, 3.0)]))
    assert bars.together
    assert (bars.counts[0], bars.counts.sum()) == (7.0, 15.0)


def test_terminal_shows_a_sparkline_and_three_figures_of_a_watch(made: Made) -> None:
    """Print the course of the shortest windows, and its totals."""
    run = watched(made[0])
    shown = Console(width=140, record=True, file=io.StringIO())
    shown.print(report.trial_over_time(run.trials[0], (windows(5_000),), run.plan))
    text = shown.export_text()
    assert "near.eth0 → far.eth0  ████" in text
    assert "mean 100 Mbit/s · busiest window 1 Gbit/s · idle 90" in text


def test_window_sparkline_values_equal_the_window_contents() -> None:
    """Leave times without windows empty."""
    assert course(windows(1_000), 10).tolist() == [15_140.0] * 10
