"""Statements of pages about figures are true."""

import json
from pathlib import Path

from iolab.experiment.model.measures import Stream
from iolab.registry.registry import measure_kinds
from iolab.trial.streams.iperf3_report import parse_report

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "method"
RECORDED = ROOT / "tests" / "unit" / "trial" / "streams" / "data" / "tcp-both-ways-server.json"


def test_statistics_page_states_the_leading_metric_of_every_kind() -> None:
    """Compare the page with the row of each kind."""
    page = (DOCS / "statistics.md").read_text()
    sentence = page[page.index("**leading metric**") :].partition(".\n")[0].replace("\n", " ")
    for name, kind in measure_kinds().items():
        if kind.parts is not None:
            continue  # its parts have their own
        assert kind.leading or f"`metrics` of a `{name}`" in sentence, name
        assert all(f"`{metric}`" in sentence for metric in kind.leading), name


def test_received_rate_page_states_the_duration_that_iperf3_counted() -> None:
    """Check a real report, in which it differs from the requested duration."""
    text = RECORDED.read_text()
    total = json.loads(text)["end"]["sum_received"]
    rate = parse_report(text).end.sum_received.bits_per_second
    asked = Stream.model_validate({"kind": "stream", "from": "a", "to": "b", "duration": "2s"}).duration / 1e9
    assert abs(rate * total["seconds"] / 8 - total["bytes"]) < 1
    assert abs(rate * asked / 8 - total["bytes"]) > 1000
    page = " ".join((DOCS / "received-rate.md").read_text().split())
    meaning = page.partition("**Source.**")[0]
    assert "that the receiving iperf3 counted" in meaning
    assert "per second of `duration`" not in meaning
