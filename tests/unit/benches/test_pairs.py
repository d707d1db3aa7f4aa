"""Comparison of two programs: they agree, differ, or cannot be distinguished."""

import pytest
from benches.harness.pairs import Block, agreement

NOISES = (0.99, 1.02, 0.98, 1.01, 1.0)


def blocks(ratio: float, scatter: float = 1.0) -> list[Block]:
    """Return five blocks with a given ratio of iolab to the original, each with separate noise."""
    return [
        Block(100.0, 100.0 * ratio * noise**scatter, 100.0 * ratio, 100.0 / noise**scatter)
        for noise in NOISES
    ]


def test_ratio_of_a_block_is_unaffected_by_drift() -> None:
    """Favour neither program on a store that slows down from run to run."""
    assert Block(100.0, 90.0, 81.0, 72.9).ratio == pytest.approx(1.0)


def test_programs_with_equal_rates_agree() -> None:
    """Give an interval around 1."""
    found = agreement(blocks(1.0))
    assert found.judged == "agree"
    assert found.low <= 1.0 <= found.high


@pytest.mark.parametrize("ratio", [0.9, 1.1, 2.0])
def test_programs_that_differ_by_more_than_the_noise_are_judged_different(ratio: float) -> None:
    """Detect a tenth, and twice the count of bytes."""
    assert agreement(blocks(ratio)).judged == "differ"


def test_noisy_storage_shows_neither_agreement_nor_difference() -> None:
    """State neither that they agree nor that they differ."""
    assert agreement(blocks(1.0, scatter=20.0)).judged == "not shown"
