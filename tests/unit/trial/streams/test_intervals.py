"""iperf3's own intervals as series."""

import json
from pathlib import Path

import pytest

from iolab.results.dimensions import Dimensions
from iolab.results.series import Series
from iolab.trial.streams.iperf3_report import Report, interval_series, parse_report

DATA = Path(__file__).parent / "data"
END = {
    "streams": [],
    "sum_sent": {"bits_per_second": 1.0},
    "sum_received": {"bits_per_second": 1.0},
    "cpu_utilization_percent": {"host_total": 1.0},
}


def told(*intervals: list[dict[str, object]]) -> Report:
    """Return a report of these intervals."""
    return parse_report(json.dumps({"intervals": [{"streams": rows} for rows in intervals], "end": END}))


def row(start: float, end: float, **more: object) -> dict[str, object]:
    """Return a connection's row: 1 MB in this interval."""
    return {"socket": 5, "start": start, "end": end, "bytes": 1_000_000, "sender": True, **more}


def of(found: tuple[Series, ...], name: str) -> Series:
    """Return the one series of a name."""
    (only,) = [each for each in found if each.name == name]
    return only


def series_of(sender: Report) -> tuple[Series, ...]:
    """Return the series of a flow whose receiver reported nothing."""
    return tuple(interval_series("near->far", sender, told([]), 500))


def test_a_recorded_stream_has_the_rate_of_both_ends_and_what_tcp_said() -> None:
    """The names are those of the metrics, and the flow is in the dimensions."""
    client, server = (
        parse_report((DATA / f"tcp-both-ways-{end}.json").read_text()) for end in ("client", "server")
    )
    found = tuple(interval_series("near->far", client, server, 0))
    assert {each.name for each in found} >= {
        "received_bps",
        "sent_bps",
        "rtt_ns",
        "cwnd_bytes",
        "retransmits",
    }
    assert {each.dimensions for each in found} == {Dimensions(flow="near->far")}
    assert {each.source for each in found} == {"iperf3"}
    assert of(found, "received_bps").values.mean() > 1e9


def test_time_goes_on_after_the_warm_up() -> None:
    """iperf3 begins again at 0 when the warm-up ends; the series does not."""
    found = series_of(told([row(0, 0.1, omitted=True)], [row(0, 0.1)], [row(0.1, 0.2)]))
    assert of(found, "sent_bps").at_ns.tolist() == [100_000_500, 200_000_500, 300_000_500]
    assert of(found, "sent_bps").values == pytest.approx([8e7, 8e7, 8e7])


def test_the_crumb_of_time_at_the_end_makes_no_rate() -> None:
    """1 MB in 0.1 ms would be 80 Gbit/s that never were."""
    found = series_of(told([row(0, 0.1)], [row(0.1, 0.1001)]))
    assert of(found, "sent_bps").values == pytest.approx([8e7])


def test_connections_of_a_flow_are_taken_together() -> None:
    """Rates, retransmits and congestion windows are summed, round-trip times averaged."""
    ends = {"retransmits": 2, "snd_cwnd": 10_000}
    found = series_of(told([row(0, 1, rtt=100, **ends), row(0, 1, rtt=300, **ends)]))
    values = {each.name: each.values.tolist() for each in found}
    assert values == {
        "sent_bps": [16e6], "rtt_ns": [200_000.0], "cwnd_bytes": [20_000.0], "retransmits": [4.0],
    }  # fmt: skip


def test_what_was_not_told_has_no_series() -> None:
    """Datagrams have no window and no round-trip time."""
    assert {each.name for each in series_of(told([row(0, 1)]))} == {"sent_bps"}
