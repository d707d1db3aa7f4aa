"""Impairments of the language as the stages of the agent."""

from itertools import chain

import pytest

from iolab.experiment.model.impairments import Impairments


@pytest.mark.parametrize(
    ("given", "stages"),
    [
        ({"delay": "1ms"}, [{"kind": "delay", "delay_ns": 1_000_000}]),
        (
            {"stall": {"length": "2ms", "every": "5s"}},
            [{"kind": "stall", "length_ns": 2_000_000, "every_ns": 5_000_000_000}],
        ),
        ({"loss": 0.001}, [{"kind": "loss", "frames_per_billion": 1_000_000}]),
        ({"lose_every": 10}, [{"kind": "loss_every", "frames": 10}]),
        ({"lose_pattern": "010"}, [{"kind": "loss_pattern", "lost": [False, True, False]}]),
        (
            {"loss_bursts": {"to_bad": "1%", "to_good": "25%"}},
            [
                {
                    "kind": "loss_bursts",
                    "to_bad_per_billion": 10_000_000,
                    "to_good_per_billion": 250_000_000,
                    "lost_in_bad_per_billion": 1_000_000_000,
                    "lost_in_good_per_billion": 0,
                }
            ],
        ),
        (
            {"rate": "20kpps"},
            [
                {
                    "kind": "line",
                    "rate": {
                        "kind": "frames",
                        "frames": 20_000,
                        "per_ns": 1_000_000_000,
                        "burst_frames": 256,
                    },
                    "queue": {"kind": "frames", "frames": 0},
                }
            ],
        ),
        (
            {"rate": "10Mbit", "queue": "32K", "codel": {}},
            [
                {
                    "kind": "line",
                    "rate": {"kind": "bits", "bps": 10_000_000},
                    "queue": {"kind": "bytes", "bytes": 32_768},
                    "codel": {"target_ns": 5_000_000, "interval_ns": 100_000_000},
                }
            ],
        ),
        (
            {"delay": "10ms", "jitter": "1ms", "jitter_kind": "normal", "jitter_correlation": "25%"},
            [
                {
                    "kind": "delay",
                    "delay_ns": 10_000_000,
                    "jitter": {"kind": "normal", "deviation_ns": 1_000_000},
                    "correlation_per_billion": 250_000_000,
                    "overtaking": False,
                }
            ],
        ),
        ({}, []),
    ],
)
def test_each_impairment_becomes_an_agent_stage(
    given: dict[str, object], stages: list[dict[str, object]]
) -> None:
    """Convert times to nanoseconds, and ratios to parts of a billion."""
    impairments = Impairments.model_validate(given)
    assert list(impairments.stages()) == stages
    assert list(impairments.problems()) == []


def test_impairment_stages_are_in_a_fixed_order_regardless_of_their_order_in_the_file() -> None:
    """Drop lost frames before they wait, and delay frames after they waited."""
    given = {
        "reorder": {"ratio": "1%", "by": "1ms"},
        "delay": "1ms",
        "rate": "1Gbit",
        "stall": {"length": "1ms", "every": "1s"},
        "duplicate": "1%",
        "corrupt": "1%",
        "loss": "1%",
    }
    kinds = [stage["kind"] for stage in Impairments.model_validate(given).stages()]
    assert kinds == ["loss", "corrupt", "duplicate", "stall", "line", "delay", "reorder"]


def test_every_impairment_key_has_an_agent_stage_or_is_reported_as_a_problem() -> None:
    """Check that the stages cover every key of the language."""
    values: dict[str, object] = {
        "loss": "1%", "lose_every": 2, "lose_pattern": "01", "loss_bursts": {"to_bad": "1%", "to_good": "1%"},
        "corrupt": "1%", "duplicate": "1%", "stall": {"length": "1ms", "every": "1s"}, "rate": "1Mbit", "burst": 2,
        "queue": "1K", "queue_frames": 3, "queue_time": "1ms", "codel": {}, "delay": "1ms", "jitter": "1ms",
        "jitter_kind": "normal", "jitter_correlation": "1%", "overtake": True, "reorder": {"ratio": "1%", "by": "1ms"},
        "seed": 2, "rate_trace": [["0s", "1Mbit"], ["1s", "2Mbit"]], "delivery_trace": [1, 2], "ecn_above": "1ms",
        "jitter_samples": ["1ms"],
    }  # fmt: skip
    assert values.keys() == Impairments.model_fields.keys()
    for key, value in values.items():
        if key not in ("seed", "jitter_kind"):
            alone = Impairments.model_validate({key: value})
            assert list(chain(alone.stages(), alone.problems())), key
