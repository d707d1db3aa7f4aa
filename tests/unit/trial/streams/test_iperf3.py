"""iperf3's command lines, reports and intervals, against real reports of iperf3 3.12."""

import json
from pathlib import Path

import pytest

from iolab.experiment.model.measures import Stream
from iolab.lab.topology import Endpoint
from iolab.results.metric import Dimensions, Metrics
from iolab.results.series import Series
from iolab.trial.streams.figures import flow_metrics, jain_index
from iolab.trial.streams.iperf3 import Pair, client_argv, server_argv
from iolab.trial.streams.iperf3_report import Report, flow_reports, interval_series, parse_report

DATA = Path(__file__).parent / "data"
NEAR = Endpoint("near", "eth0", "iolab-near", "eth0", "198.18.9.1", 24)
FAR = Endpoint("far", "eth0", "iolab-far", "eth0", "198.18.9.2", 24)


def pair(*, bidir: bool = False) -> Pair:
    """Return a pair from near to far."""
    return Pair(client=NEAR, server=FAR, tcp_port=5201, bidir=bidir)


def report(name: str) -> str:
    """Return a recorded report."""
    return (DATA / f"{name}.json").read_text()


def test_every_stream_setting_becomes_an_iperf3_option() -> None:
    """Check each key with its unit."""
    measure = Stream.model_validate(
        {
            "kind": "stream",
            "protocol": "udp",
            "window": "128K",
            "rate": "1000Mbit",
            "length": 1400,
            "duration": "10s",
            "warm_up": "2s",
            "parallel": 4,
        }
    )
    expected = (
        "iperf3 --client 198.18.9.2 --port 5201 --bind 198.18.9.1 --json --time 10 --omit 2 --interval 0.1 "
        "--bitrate 1000000000 --window 131072 --length 1400 --parallel 4 --udp --bidir"
    )
    assert " ".join(client_argv(pair(bidir=True), measure)) == expected


def test_iperf3_server_serves_one_client_at_its_address() -> None:
    """Let it exit by itself, and listen nowhere else."""
    assert (
        " ".join(server_argv(pair(), Stream(kind="stream")))
        == "iperf3 --server --one-off --json --interval 0.1 --port 5201 --bind 198.18.9.2"
    )


def test_both_ways_report_gives_two_flows_with_receiver_figures() -> None:
    """Add parallel streams; take the reverse rate from the other end."""
    there, back = flow_reports(
        pair(bidir=True),
        parse_report(report("tcp-both-ways-client")),
        parse_report(report("tcp-both-ways-server")),
    )
    assert (there.src.machine, there.dst.machine) == ("near", "far")
    assert (back.src.machine, back.dst.machine) == ("far", "near")
    assert there.received_bps == pytest.approx((395836688 + 372244480) * 8 / 1.998417, rel=1e-3)
    assert there.retransmits == 493 + 1062
    assert back.retransmits == 5839 + 6892
    assert there.rtt_mean_ns == (1719 + 1586 + 1509 + 1113) / 4 * 1000, "the warm-up's is left out"
    assert back.delivered_bytes > back.received_bps / 8 * 2, (
        "the warm-up second is part of what the interface saw"
    )


def test_error_in_an_iperf3_report_is_quoted() -> None:
    """Raise ValueError with iperf3's text."""
    with pytest.raises(ValueError, match="unable to connect"):
        parse_report('{"start":{},"intervals":[],"end":{},"error":"unable to connect to server"}')


@pytest.mark.parametrize("text", ["", "iperf3: parameter error", "[]", "{}"])
def test_malformed_iperf3_report_is_refused(text: str) -> None:
    """Refuse empty and other output."""
    with pytest.raises(ValueError, match="report"):
        parse_report(text)


def test_help_text_after_a_wrong_option_is_not_quoted() -> None:
    """Use the message on standard error."""
    with pytest.raises(ValueError, match="iperf3 rejected its options"):
        parse_report("Usage: iperf3 [-s|-c host] [options]\n       iperf3 [-h|--help]")


def test_rates_of_several_flows_are_summed_and_listed_separately() -> None:
    """Include the fairness."""
    flows = flow_reports(
        pair(bidir=True),
        parse_report(report("tcp-both-ways-client")),
        parse_report(report("tcp-both-ways-server")),
    )
    metrics = Metrics(flow_metrics("tcp", flows))
    there, back = (
        metric.value for metric in metrics.named("received_bps") if metric.dimensions.flow is not None
    )
    assert metrics["received_bps"].value == pytest.approx(there + back)
    assert metrics["fairness"].value == pytest.approx((there + back) ** 2 / (2 * (there**2 + back**2)))


@pytest.mark.parametrize(
    ("rates", "index"), [([5.0, 5.0], 1.0), ([9.0, 0.0, 0.0], 1 / 3), ([4.0, 2.0], 0.9), ([0.0, 0.0], 1.0)]
)
def test_jain_index_of_known_shares_is_exact(rates: list[float], index: float) -> None:
    """Check 1 for equal shares, 1/n for one taker (Jain, Chiu, Hawe 1984)."""
    assert jain_index(rates) == pytest.approx(index)


def test_loss_after_a_warm_up_is_relative_to_the_receivers_datagrams() -> None:
    """Allow for late losses of the sender's warm-up, which can exceed the sent datagrams."""

    def total(packets: int, lost: int) -> dict[str, object]:
        return {"bits_per_second": 1e6, "packets": packets, "lost_packets": lost, "jitter_ms": 0.1}

    def made(*rows: dict[str, object]) -> Report:
        end = {
            "streams": [],
            "sum_sent": total(34443, 0),
            "sum_received": total(34443, 60781),
            "cpu_utilization_percent": {"host_total": 1.0},
        }
        intervals = [{"streams": [row]} for row in rows]
        return parse_report(json.dumps({"intervals": intervals, "end": end}))

    row: dict[str, object] = {"bytes": 1448, "sender": False, "start": 0.0, "end": 1.0}
    warm: dict[str, object] = {**row, "packets": 100, "lost_packets": 90, "omitted": True}
    measured: dict[str, object] = {**row, "packets": 70000, "lost_packets": 60781, "omitted": False}
    (found,) = flow_reports(pair(), made({**row, "sender": True}), made(warm, measured))
    assert (found.datagrams, found.lost_datagrams) == (70000, 60781)
    with pytest.raises(ValueError, match="60781 datagrams lost of 34443 sent"):
        flow_reports(pair(), made({**row, "sender": True}), made({**measured, "packets": 5}))


@pytest.mark.parametrize(
    ("arrived", "lost"),
    [((0, 0, 0), 3000), ((1000, 1000, 0), 1000), ((1000, 900, 900), 0)],
)
def test_datagrams_sent_after_the_last_arrival_are_lost(arrived: tuple[int, ...], lost: int) -> None:
    """Distinguish them from queued ones by the last received number."""

    def total(packets: int) -> dict[str, object]:
        return {"bits_per_second": 1e6, "packets": packets, "lost_packets": 0, "jitter_ms": 0.1}

    def made(*, sender: bool) -> Report:
        end = {
            "streams": [],
            "sum_sent": total(3000),
            "sum_received": total(sum(arrived)),
            "cpu_utilization_percent": {"host_total": 1.0},
        }
        rows = [
            {"bytes": count * 1448, "sender": sender, "start": float(at), "end": at + 1.0, "omitted": False,
             "packets": count, "lost_packets": 0}
            for at, count in enumerate(arrived)
        ]  # fmt: skip
        return parse_report(json.dumps({"intervals": [{"streams": [row]} for row in rows], "end": end}))

    (found,) = flow_reports(pair(), made(sender=True), made(sender=False))
    assert (found.datagrams, found.lost_datagrams) == (3000, lost)


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
    """Return the only series of a name."""
    (only,) = [each for each in found if each.name == name]
    return only


def series_of(sender: Report) -> tuple[Series, ...]:
    """Return the series of a flow whose receiver reported nothing."""
    return tuple(interval_series("near->far", sender, told([]), 500))


def test_recorded_stream_becomes_series_of_both_ends() -> None:
    """Use metric names, with the flow in the dimensions."""
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


def test_series_time_continues_after_the_warm_up() -> None:
    """Continue after iperf3 restarts at 0."""
    found = series_of(told([row(0, 0.1, omitted=True)], [row(0, 0.1)], [row(0.1, 0.2)]))
    assert of(found, "sent_bps").at_ns.tolist() == [100_000_500, 200_000_500, 300_000_500]
    assert of(found, "sent_bps").values == pytest.approx([8e7, 8e7, 8e7])


def test_final_fraction_of_an_interval_gives_no_rate() -> None:
    """Avoid 80 Gbit/s for 1 MB in 0.1 ms."""
    found = series_of(told([row(0, 0.1)], [row(0.1, 0.1001)]))
    assert of(found, "sent_bps").values == pytest.approx([8e7])


def test_parallel_connections_of_a_flow_are_combined() -> None:
    """Add rates, retransmits and congestion windows; average round-trip times."""
    ends = {"retransmits": 2, "snd_cwnd": 10_000}
    found = series_of(told([row(0, 1, rtt=100, **ends), row(0, 1, rtt=300, **ends)]))
    values = {each.name: each.values.tolist() for each in found}
    assert values == {
        "sent_bps": [16e6], "rtt_ns": [200_000.0], "cwnd_bytes": [20_000.0], "retransmits": [4.0],
    }  # fmt: skip


def test_values_missing_from_a_report_have_no_series() -> None:
    """Omit window and round-trip time of datagrams."""
    assert {each.name for each in series_of(told([row(0, 1)]))} == {"sent_bps"}
