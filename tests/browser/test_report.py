"""The report in a real browser: drawn, without errors, self-contained, and within the width of a phone."""

from pathlib import Path

import pytest
from tests.browser.chromium import Page
from tests.unit.report.builder import quickstart

from iolab.analysis import analyse
from iolab.report import formats as report

pytestmark = pytest.mark.browser

EVIL = '</script><img src=x onerror="document.title=1">'
POINTS = "document.querySelectorAll('#charts > .panels .mark-symbol path').length"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
WIDEST = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
POINT_COLOUR = "getComputedStyle(document.querySelector('.chart .mark-symbol path')).stroke"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the quickstart's page to a file."""
    run, experiment = quickstart(4)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.html(run, analyse(run.trials, run.plan), experiment, "1.2.3"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_without_errors_and_nothing_is_fetched(
    chromium: Page, written: Path, width: int, scheme: str
) -> None:
    """Count all valid trials; require an empty console and a single request."""
    chromium.events.clear()
    chromium.resize(width)
    chromium.prefer(scheme)
    chromium.open(written)
    assert chromium.evaluate("document.documentElement.dataset.charts") == "drawn"
    assert chromium.evaluate(POINTS) == 62
    assert chromium.complaints() == []
    assert set(chromium.requested()) == {written.as_uri()}


@pytest.mark.parametrize("width", [1280, 768, 400, 320])
def test_page_is_never_wider_than_its_window(chromium: Page, written: Path, width: int) -> None:
    """Scroll tables inside their box, also with every fold open."""
    chromium.resize(width)
    chromium.open(written)
    chromium.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    scrolled, window = chromium.evaluate(WIDEST)
    assert scrolled <= window == width
    wider = "svg => svg.clientWidth > svg.parentElement.clientWidth"
    spill = f"[...document.querySelectorAll('.chart svg')].filter({wider}).length"
    assert chromium.evaluate(spill) == 0


def test_no_table_column_is_cut_off_in_a_window_1280_pixels_wide(chromium: Page, written: Path) -> None:
    """Check wider windows and folded tables, too."""
    for width in (1280, 1920):
        chromium.resize(width)
        chromium.open(written)
        chromium.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        cut = "each => each.scrollWidth > each.clientWidth"
        found = f"[...document.querySelectorAll('.scroll')].filter({cut}).map(each => each.ariaLabel)"
        assert chromium.evaluate(found) == []


def test_light_dark_and_print_modes_have_different_colours(chromium: Page, written: Path) -> None:
    """Switch without redrawing; always print in light colours."""
    chromium.resize(1280)
    seen = {}
    chromium.prefer("light")
    chromium.open(written)
    for name, scheme, media in (("light", "light", ""), ("dark", "dark", ""), ("paper", "dark", "print")):
        chromium.prefer(scheme, media)
        seen[name] = (chromium.evaluate(BACKGROUND), chromium.evaluate(POINT_COLOUR))
    chromium.prefer("light")
    assert seen["light"] == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    assert seen["dark"] == ("rgb(20, 23, 26)", "rgb(232, 234, 237)")
    assert seen["paper"] == seen["light"]


def test_folded_charts_are_drawn_when_opened(chromium: Page, written: Path) -> None:
    """Draw no chart in a fold before the fold is opened."""
    chromium.resize(1280)
    chromium.open(written)
    drawn = "document.querySelectorAll('details.others .chart svg').length"
    assert chromium.evaluate(drawn) == 0
    chromium.unfold("details.others")
    assert chromium.evaluate(drawn) > 0
    assert chromium.complaints() == []


def test_html_in_a_level_label_is_shown_as_text(chromium: Page, tmp_path: Path) -> None:
    """Check axis and table; create no element and run no script."""
    factors = {
        "*.direction": ("one-way",),
        "links.lan.mtu": ("1500", "9000"),
        "links.lan.offload": ("on", EVIL),
    }
    run, experiment = quickstart(4, factors=factors, title=EVIL)
    path = tmp_path / "evil.html"
    path.write_text(report.html(run, analyse(run.trials, run.plan), experiment, "1.2.3"), encoding="utf-8")
    chromium.events.clear()
    chromium.resize(1280)
    chromium.open(path)
    assert chromium.evaluate("document.title") == EVIL
    assert chromium.evaluate("document.images.length") == 0
    assert (
        chromium.evaluate("document.querySelector('table.results').textContent.includes('onerror')") is True
    )
    assert chromium.complaints() == []
