"""What passed is divided by the time in which it passed; two levels are told from noise."""

from random import Random

import pytest

from iolab.trial.counters.passing import Passing, level_change, passing, sustained_bps

MS, S = 1_000_000, 1_000_000_000


def counts(*rates_bps: float, period_ns: int = 100 * MS) -> list[tuple[int, int]]:
    """A counter of bytes that is read at a period, by the rate between two readings."""
    found = [(0, 0)]
    for rate in rates_bps:
        found.append((found[-1][0] + period_ns, found[-1][1] + round(rate * period_ns / 8 / S)))
    return found


@pytest.mark.parametrize("before", [0, 3, 40])
@pytest.mark.parametrize("after", [0, 3, 60])
def test_a_rate_is_that_of_the_time_in_which_it_passed(before: int, after: int) -> None:
    """A queue that drains for 6 s after the end of the program, and a pause before it, change nothing."""
    seen = passing(counts(*[0] * before, *[512e3] * 160, *[0] * after))
    assert seen is not None
    assert seen.bps == pytest.approx(512e3, rel=0.01)


def test_two_readings_are_all_that_is_needed_and_nothing_is_no_rate() -> None:
    """Without readings over time, those before and after give the rate over all of it."""
    seen = passing([(0, 0), (2 * S, 250_000)])
    assert seen is not None
    assert seen.bps == pytest.approx(1e6)
    assert passing([(0, 5), (S, 5)]) is None
    assert passing([(0, 5)]) is None


def test_no_rate_is_above_that_of_any_part_of_the_time() -> None:
    """Whatever the course, the mean of a part is no more than the most of its readings: a verdict cannot contradict."""
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
    ids=["a bucket", "half from then on", "more from then on", "steady", "slow start", "a saw", "a pause", "stopped",
         "too short"],
)  # fmt: skip
def test_a_change_of_level_is_told_where_the_mean_misleads(
    rates: tuple[float, ...], levels: tuple[float, float] | None
) -> None:
    """Both levels and the time; what varies all the time, or moves the mean by little, is none."""
    found = level_change(counts(*rates))
    if levels is None:
        assert found is None
        return
    assert found is not None
    assert (found.before_bps, found.after_bps) == pytest.approx(levels, rel=0.01)
    assert found.at_ns in {100 * MS * at for at in range(len(rates)) if rates[at] == pytest.approx(levels[1])}


def test_noise_has_no_levels() -> None:
    """Of 1000 courses of CPU-bound rates that vary by a fifth, a sawtooth among them, none is marked."""
    chance, marked = Random(1), 0
    for number in range(1000):
        saw = 0.5 + (number % 7) / 14
        rates = [1e9 * chance.gauss(1, 0.2) * (saw + (1 - saw) * (at % 12) / 12) for at in range(40)]
        marked += level_change(counts(*(max(1e6, rate) for rate in rates))) is not None
    assert marked == 0


def test_a_long_trial_takes_no_longer_to_look_at() -> None:
    """Of 20 000 readings a hundred are looked at, and the change is found where it was."""
    found = level_change(counts(*[1e9] * 5000, *[1e7] * 15_000))
    assert found is not None
    assert found.at_ns == pytest.approx(500 * S, rel=0.03)


def test_what_a_full_bucket_lets_through_at_once_is_no_rate() -> None:
    """1.28 MB at once and 10 Mbit/s for 10 s are 11 Mbit/s on average, of a shaper that keeps its 10 Mbit/s."""
    burst = Passing(1_280_000 + 12_500_000, 10 * S)
    assert sustained_bps(burst, (10_000_000,), 1_310_720) == pytest.approx(10e6)
    assert sustained_bps(burst, (10_000_000,), 100_000) == pytest.approx(10.944e6)
    assert sustained_bps(Passing(11_000_000, 10 * S), (10_000_000,), 1_310_720) == pytest.approx(8.8e6)
