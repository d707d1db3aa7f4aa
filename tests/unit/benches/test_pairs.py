"""When two programs are said to agree, to differ, or not to be told apart."""

import pytest
from benches.harness.pairs import Block, agreement

NOISES = (0.99, 1.02, 0.98, 1.01, 1.0)


def blocks(ratio: float, scatter: float = 1.0) -> list[Block]:
    """Return five blocks in which ours does so much of what the original does, each with its own noise."""
    return [
        Block(100.0, 100.0 * ratio * noise**scatter, 100.0 * ratio, 100.0 / noise**scatter)
        for noise in NOISES
    ]


def test_a_ratio_is_taken_in_the_midst_of_a_drift() -> None:
    """A store that slows down from run to run favours neither program."""
    assert Block(100.0, 90.0, 81.0, 72.9).ratio == pytest.approx(1.0)


def test_equal_programs_agree() -> None:
    """With an interval around 1."""
    found = agreement(blocks(1.0))
    assert found.judged == "agree"
    assert found.low <= 1.0 <= found.high


@pytest.mark.parametrize("ratio", [0.9, 1.1, 2.0])
def test_a_program_that_does_more_or_less_than_the_noise_differs(ratio: float) -> None:
    """A tenth is found, and a count of the same bytes twice."""
    assert agreement(blocks(ratio)).judged == "differ"


def test_a_store_that_scatters_shows_nothing() -> None:
    """Neither that they agree nor that they differ."""
    assert agreement(blocks(1.0, scatter=20.0)).judged == "not shown"
