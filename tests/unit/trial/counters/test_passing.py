"""Rates are computed over the time in which data passed; level changes are distinguished from noise."""

from random import Random

import pytest

from iolab.trial.counters.passing import Passing, level_change, passing, sustained_bps

MS, S = 1_000_000, 1_000_000_000


def counts(*rates_bps: float, period_ns: int = 100 * MS) -> list[tuple[int, int]]:
    """Return readings of a byte counter at a period, by the rate between two readings."""
    found = [(0, 0)]
    for rate in rates_bps:
        found.append((found[-1][0] + period_ns, found[-1][1] + round(rate * period_ns / 8 / S)))
    return found


@pytest.mark.parametrize("before", [0, 3, 40])
@pytest.mark.parametrize("after", [0, 3, 60])
def test_rate_is_computed_over_the_time_in_which_data_passed(before: int, after: int) -> None:
    """Ignore a pause before, and a queue that drains for 6 s after the program's end."""
    seen = passing(counts(*[0] * before, *[512e3] * 160, *[0] * after))
    assert seen is not None
    assert seen.bps == pytest.approx(512e3, rel=0.01)


def test_two_readings_give_a_rate_and_zero_progress_gives_no_rate() -> None:
    """Use the readings before and after, without readings over time."""
    seen = passing([(0, 0), (2 * S, 250_000)])
    assert seen is not None
    assert seen.bps == pytest.approx(1e6)
    assert passing([(0, 5), (S, 5)]) is None
    assert passing([(0, 5)]) is None


def test_rate_never_exceeds_the_maximum_of_its_readings() -> None:
    """Prevent a verdict that contradicts itself."""
    chance = Random(7)
    for _ in range(300):
        rates = [chance.choice([0, 1e5, 1e6, 1e9]) * chance.random() for _ in range(chance.randint(1, 60))]
        seen = passing(counts(*rates))
        assert seen is None or seen.bps <= max(rates) * 1.001


BURST = (0.31e9, 16.7e9, 4.5e9)


@pytest.mark.parametrize(
    ("rates", "levels"),
    [
        ((*BURST, *[9.6e6] * 77), (4.5e9, 9.6e6)),
        (([10e6] * 10 + [5e6] * 30), (10e6, 5e6)),
        (([2e6] * 25 + [9e6] * 15), (2e6, 9e6)),
        (([9.6e6] * 40), None),
        (([1e6, 3e6, *[10e6] * 38]), None),
        (([5e6, 10e6] * 20), None),
        (([10e6] * 15 + [0] * 4 + [10e6] * 21), None),
        (([10e6] * 20 + [0] * 20), None),
        (([1e6, 9e6]), None),
    ],
    ids=["token bucket", "rate halves", "rate increases", "constant rate", "slow start", "sawtooth", "pause",
         "early end", "too few readings"],
)  # fmt: skip
def test_level_change_of_a_rate_is_found_where_the_mean_is_misleading(
    rates: tuple[float, ...], levels: tuple[float, float] | None
) -> None:
    """Give both levels and the time; ignore constant variation and small shifts."""
    found = level_change(counts(*rates))
    if levels is None:
        assert found is None
        return
    assert found is not None
    assert (found.before_bps, found.after_bps) == pytest.approx(levels, rel=0.01)
    assert found.at_ns in {100 * MS * at for at in range(len(rates)) if rates[at] == pytest.approx(levels[1])}


def test_noise_is_not_reported_as_a_level_change() -> None:
    """Check 1000 CPU-bound courses that vary by a fifth, a sawtooth among them."""
    chance, marked = Random(1), 0
    for number in range(1000):
        saw = 0.5 + (number % 7) / 14
        rates = [1e9 * chance.gauss(1, 0.2) * (saw + (1 - saw) * (at % 12) / 12) for at in range(40)]
        marked += level_change(counts(*(max(1e6, rate) for rate in rates))) is not None
    assert marked == 0


def test_level_change_search_uses_a_bounded_number_of_readings() -> None:
    """Find the change in a hundred of 20 000 readings."""
    found = level_change(counts(*[1e9] * 5000, *[1e7] * 15_000))
    assert found is not None
    assert found.at_ns == pytest.approx(500 * S, rel=0.03)


def test_initial_burst_of_a_token_bucket_is_excluded_from_the_rate() -> None:
    """Subtract a burst of 1.28 MB from 11 Mbit/s over 10 s of a shaper at 10 Mbit/s."""
    burst = Passing(1_280_000 + 12_500_000, 10 * S)
    assert sustained_bps(burst, (10_000_000,), 1_310_720) == pytest.approx(10e6)
    assert sustained_bps(burst, (10_000_000,), 100_000) == pytest.approx(10.944e6)
    assert sustained_bps(Passing(11_000_000, 10 * S), (10_000_000,), 1_310_720) == pytest.approx(8.8e6)
