"""Receive queues of NICs: frame shares of a trial, by driver counters."""

import pytest
from tests.wording import in_words

from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.queues import frames_by_queue, shares


@pytest.mark.parametrize(
    "lines",
    [
        ("rx_queue_0_packets: 5", "rx_queue_0_bytes: 9", "rx_queue_1_packets: 7", "tx_queue_0_packets: 8"),
        ("rx0_packets: 5", "rx1_packets: 7", "rx_packets: 12", "rx1_xdp_packets: 3"),
        ("rx-0.packets: 5", "rx-1.packets: 7", "tx-0.packets: 7"),
        ("queue_0_rx_cnt: 5", "queue_1_rx_cnt: 7", "queue_0_tx_cnt: 3"),
        ("[0]: rx_ucast_packets: 5", "[1]: rx_ucast_packets: 7", "[0]: tx_ucast_packets: 2"),
    ],
)
def test_per_queue_frame_counter_names_of_drivers_are_recognised(lines: tuple[str, ...]) -> None:
    """Exclude bytes, sums, XDP counters and sent frames."""
    text = "NIC statistics:\n" + "".join(f"     {line}\n" for line in lines)
    assert frames_by_queue(text) == {0: 5, 1: 7}


def test_driver_without_queue_counters_has_no_queues() -> None:
    """Ignore malformed counters."""
    assert frames_by_queue("no stats available\n") == {}
    assert frames_by_queue("rx_queue_0_packets: many\nrx_queue_x_packets: 1\n") == {}


def test_queue_shares_are_metrics_and_uneven_queues_give_a_warning() -> None:
    """Check one flow in one queue of four."""
    before = {"pc1.eth1": {0: 10, 1: 10, 2: 10, 3: 10}, "pc1.eth2": dict.fromkeys(range(2), 0)}
    after = {"pc1.eth1": {0: 10, 1: 10, 2: 9_910, 3: 110}, "pc1.eth2": {0: 5_100, 1: 4_900}}
    found = shares(before, after)
    assert {
        (metric.dimensions.port, metric.dimensions.queue): metric.value for metric in found.metrics
    } == {
        ("pc1.eth1", 0): 0.0, ("pc1.eth1", 1): 0.0, ("pc1.eth1", 2): 0.99, ("pc1.eth1", 3): 0.01,
        ("pc1.eth2", 0): 0.51, ("pc1.eth2", 1): 0.49,
    }  # fmt: skip
    (warning,) = found.warnings
    assert warning.code == "queues-uneven"
    assert in_words(warning) == (
        "1 of 4 receive queues of pc1.eth1 received their share of the frames; queue 2 received 99 %"
    )


def test_uninformative_queue_counters_are_left_out() -> None:
    """Leave out few frames, a single queue, and a recreated NIC."""
    for before, after in (
        ({0: 0, 1: 0}, {0: 500, 1: 400}),
        ({0: 0}, {0: 9_000}),
        ({0: 9_000, 1: 0}, {0: 1, 1: 9_000}),
    ):
        assert shares({"a.b": before}, {"a.b": after}) == Seen()
