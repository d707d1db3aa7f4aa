"""Series of trials: as small multiples on the page, and as sparklines in the terminal."""

import math
import re

import numpy as np
from rich.console import Console
from tests.unit.report.conftest import Made
from tests.unit.report.pages import parsed

from iolab.report import formats as report
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.page.over_time import drawn_trials
from iolab.report.sparklines import sparkline
from iolab.results.dimensions import Dimensions
from iolab.results.series import Series, series

PERIOD_NS = 100_000_000


def seen(points: int = 100) -> tuple[Series, ...]:
    """Return what two ports saw: one at 1 Gbit/s with a dip, one at a tenth."""
    whole = [(at * PERIOD_NS, 2e8 if at == points // 2 else 1e9) for at in range(1, points + 1)]
    tenth = [(at, value / 10) for at, value in whole]
    return (
        series("rx_bps", "bit/s", whole, Dimensions(port="far.eth0")),
        series("rx_bps", "bit/s", tenth, Dimensions(port="near.eth0")),
    )


def test_the_page_has_a_folded_part_for_each_trial_that_stored_series(made: Made) -> None:
    """Every trial that ended well has its pictures, with a text for those who cannot see them."""
    run, analysis, experiment = made
    page = report.html(run, analysis, experiment, "1.2.3", lambda _: seen())
    elements = parsed(page)
    well = sum(trial.result.status == "ok" for trial in run.trials)
    folded = [each for each in elements.named("details") if each.get("class") == "course"]
    pictures = [each for each in elements.named("svg") if "over the trial" in (each.get("aria-label") or "")]
    assert (len(folded), len(pictures)) == (well, 2 * well)
    assert "0 to 1.00\u00a0Gbit/s" in page
    assert 'href="#over-time"' in page
    assert "Every chart goes from 0 to 10.0\u00a0s." in page


def test_the_figures_of_a_chart_have_their_own_unit_and_the_scale_has_that_of_the_largest(made: Made) -> None:
    """Acknowledgements of a fast stream are read as 1.50 Mbit/s, not as 0.00150 Gbit/s."""
    run = made[0]
    both = tuple(
        series("rx_bps", "bit/s", [(PERIOD_NS, rate)], Dimensions(port=port))
        for port, rate in (("far.eth0", 1e9), ("near.eth0", 1.5e6))
    )
    row = drawn_trials(run.trials[:1], lambda _: both, names_of(run.plan, EN)).trials[0].rows[0]
    assert row.scale == "0 to 1.00\u00a0Gbit/s"
    assert row.drawings[1].figures == "1.50 · 1.50 · 1.50\u00a0Mbit/s"


def test_a_run_without_series_has_no_such_part(made: Made) -> None:
    """There is no empty heading."""
    run, analysis, experiment = made
    assert 'id="over-time"' not in report.html(run, analysis, experiment, "1.2.3", lambda _: ())


def test_quantities_of_one_name_share_a_scale(made: Made) -> None:
    """The port with a tenth of the rate is drawn at a tenth of the height."""
    run = made[0]
    drawn = drawn_trials(run.trials[:1], lambda _: seen(), names_of(run.plan, EN))
    near = drawn.trials[0].rows[0].drawings[1]
    assert re.findall(r",(\d+)", near.line)[0] == "90"
    assert near.band == ""


def test_a_long_trial_has_bands_from_least_to_largest(made: Made) -> None:
    """A dip of one point of ten in a column is in its band."""
    run = made[0]
    drawn = drawn_trials(run.trials[:1], lambda _: seen(1000), names_of(run.plan, EN))
    far = drawn.trials[0].rows[0].drawings[0]
    assert ",80" in far.band
    assert len(re.findall(r"\d+,\d+", far.line)) == 100


def test_the_pictures_of_many_trials_stay_within_the_pages_share(made: Made) -> None:
    """The first trial of each cell comes first, and the page says how many are left out."""
    run = made[0]
    named = names_of(run.plan, EN)
    whole = drawn_trials(run.trials, lambda _: seen(), named)
    part = drawn_trials(run.trials, lambda _: seen(), named, most_bytes=whole.trials[0].bytes * 5 + 99)
    assert len(part.trials) == 5
    assert len({each.title.rpartition(", block")[0] for each in part.trials}) == 5
    assert any("Trials with charts: 5 of" in note for note in part.notes)


def test_a_gap_breaks_the_line(made: Made) -> None:
    """Where nothing is known there is no line, not one at 0."""
    run = made[0]
    at_ns = np.arange(1, 5, dtype=np.int64) * PERIOD_NS
    gap = Series("rx_bps", "bit/s", at_ns, np.array([1.0, math.nan, 1.0, 1.0]))
    drawn = drawn_trials(run.trials[:1], lambda _: (gap,), names_of(run.plan, EN))
    assert drawn.trials[0].rows[0].drawings[0].line.count("M") == 2


def test_a_sparkline_tells_little_from_nothing_and_nothing_from_unknown() -> None:
    """The lowest block is 0 alone, and what is not known is a space."""
    assert sparkline(np.array([0.0, 1e-6, 0.5, 1.0, math.nan]), 1.0) == "▁▂▅█ "
    assert sparkline(np.array([0.0, 0.0]), 0.0) == "▁▁"


def test_the_terminal_shows_a_trial_over_time(made: Made) -> None:
    """Each series has a line with its course, least, mean and largest value."""
    run = made[0]
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as shown:
        console.print(report.trial_over_time(run.trials[0], seen(), run.plan))
    text = shown.get()
    assert run.trials[0].key in text
    line = next(each for each in text.splitlines() if "far.eth0" in each)
    assert "█" in line
    assert "1.00\u00a0Gbit/s" in line


def test_a_trial_without_series_says_why(made: Made) -> None:
    """It names the key of the experiment that stores them."""
    run = made[0]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(report.trial_over_time(run.trials[0], (), run.plan))
    assert "sample: none" in shown.get()
