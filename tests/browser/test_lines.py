"""Line charts in a real browser: sweeps, load curves, and each drawing as a separate file."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.browser.chromium import Page
from tests.unit.report.builder import quickstart
from tests.unit.report.forwarding_run import forwarding

from iolab.analysis import analyse
from iolab.report import formats as report

pytestmark = pytest.mark.browser

OPEN = "document.querySelectorAll('#charts .chart svg').length"
SPILL = "[...document.querySelectorAll('.chart svg')].filter(s => s.clientWidth > s.parentElement.clientWidth).length"
WIDEST = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
TICKS = "[...document.querySelectorAll('#chart-1-1 .role-axis-label text')].map(each => each.textContent)"
SYMBOLS = """
[...document.querySelectorAll('#chart-1-1 .mark-symbol')].map((group) => group.querySelectorAll('path').length)
"""
DASHES = """(() => {
  const drawn = [...document.querySelectorAll('#chart-1-1 .mark-line path')].map(
    (path) => `${getComputedStyle(path).stroke} ${path.getAttribute('stroke-dasharray')}`);
  return [drawn.length, new Set(drawn).size];
})()"""
SAVED = """(() => {
  const kept = {};
  URL.createObjectURL = (blob) => { kept.blob = blob; return 'blob:kept'; };
  HTMLAnchorElement.prototype.click = function () { kept.name = this.download; };
  document.querySelector('.save[data-chart="chart-1-1"]').click();
  return kept.blob.text().then((text) => [kept.name, text]);
})()"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the forwarding study's page."""
    path = tmp_path_factory.mktemp("report") / "forwarding.html"
    path.write_text(report.html(*forwarding(), "1.2.3"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_of_a_forwarding_study_is_drawn_without_errors_or_requests(
    chromium: Page, study: Path, width: int, scheme: str
) -> None:
    """Check two sweeps, a chart of rows and 24 curves for errors, requests and width."""
    chromium.events.clear()
    chromium.resize(width)
    chromium.prefer(scheme)
    chromium.open(study)
    assert chromium.evaluate("document.documentElement.dataset.charts") == "drawn"
    assert chromium.evaluate(OPEN) == 2 + 1 + 6 * 4
    assert chromium.complaints() == []
    assert set(chromium.requested()) == {study.as_uri()}
    scrolled, window = chromium.evaluate(WIDEST)
    assert scrolled <= window == width
    assert chromium.evaluate(SPILL) == 0


def test_folded_curves_and_tables_fit_a_phone_screen(chromium: Page, study: Path) -> None:
    """Open every fold, and check width and drawing."""
    chromium.events.clear()
    chromium.resize(400)
    chromium.open(study)
    before = chromium.evaluate(OPEN)
    chromium.unfold("details")
    assert chromium.evaluate(OPEN) > before
    scrolled, window = chromium.evaluate(WIDEST)
    assert scrolled <= window == 400
    assert chromium.complaints() == []


def test_every_frame_size_has_a_tick_and_every_line_a_distinct_style(chromium: Page, study: Path) -> None:
    """Check all seven sizes; six lines and the line rates differ in colour or dash."""
    chromium.resize(1280)
    chromium.prefer("light")
    chromium.open(study)
    ticks = chromium.evaluate(TICKS)
    assert ticks[:7] == ["64", "128", "256", "512", "1024", "1280", "1518"]
    drawn, different = chromium.evaluate(DASHES)
    assert drawn == 6 + 6
    assert different == 6 + 1


def test_saved_drawing_is_a_self_contained_svg(chromium: Page, study: Path) -> None:
    """Check title, key and print colours, without variables or references."""
    chromium.resize(1280)
    chromium.prefer("dark")
    chromium.open(study)
    name, text = chromium.evaluate(SAVED)
    assert name == "forwarded-rate-kframe-s.svg"
    assert "var(" not in text
    assert "http" not in text.replace("http://www.w3.org/", "")
    root = ET.fromstring(text)
    words = "".join(root.itertext())
    for part in ("forwarded rate [kframe/s]", "xdp, both-ways", "frame size [bytes]", "1518"):
        assert part in words
    ground = root.find("{http://www.w3.org/2000/svg}rect")
    assert ground is not None
    assert ground.get("fill") == "#ffffff"


def test_stream_sweep_is_drawn_as_a_line_chart(chromium: Page, tmp_path: Path) -> None:
    """Check four MTUs, every trial as a symbol, and lines that differ without colour."""
    factors = {
        "*.direction": ("one-way", "both-ways"),
        "links.lan.mtu": ("1500", "3000", "4500", "9000"),
        "links.lan.offload": ("on", "off"),
    }
    run, experiment = quickstart(4, factors=factors, outlier=False, measures=("tcp",))
    path = tmp_path / "sweep.html"
    path.write_text(report.html(run, analyse(run.trials, run.plan), experiment, "1"), encoding="utf-8")
    chromium.events.clear()
    chromium.resize(1280)
    chromium.open(path)
    assert chromium.evaluate(TICKS)[:4] == ["1500", "3000", "4500", "9000"]
    assert 4 * 4 * 4 in chromium.evaluate(SYMBOLS)
    assert chromium.complaints() == []
