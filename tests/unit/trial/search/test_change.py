"""A device that changes during a search is known by the same load, which fares otherwise in the end than at first."""

import pytest

from iolab.results.search import LoadResult
from iolab.trial.search.evidence import find_change
from iolab.units import NS_PER_S


def trial(fps: float, share: float, *, unsent_ratio: float = 0.0) -> LoadResult:
    """Return a trial of a second that forwarded a share of what was sent."""
    offered = round(fps * (1 - unsent_ratio))
    return LoadResult(
        intended_fps=fps, duration_ns=NS_PER_S, intended_frames=round(fps), offered_frames=offered,
        forwarded_frames=round(offered * share),
    )  # fmt: skip


def test_a_shaper_that_halves_meanwhile_is_known_by_loads_that_are_about_the_same() -> None:
    """Measured: 0.98 to 1.00 of 51 000 frames/s passed in the first three seconds, and half of them after."""
    first = [trial(fps, share) for fps, share in ((50_813, 0.99), (51_993, 0.979), (51_132, 1.0))]
    after = [trial(fps, share) for fps, share in ((51_114, 0.5), (51_114, 0.49), (50_813, 0.513))]
    other = [trial(5e6, 0.08), trial(1000, 1.0)]
    found = find_change([*other, *first, *other, *after, *other])
    assert found is not None
    assert found.load_fps == pytest.approx(51_163, rel=1e-3)
    assert (found.earlier_ratio, found.later_ratio) == pytest.approx((0.99, 0.5), abs=0.01)
    assert find_change([*after, *first]) is not None, "nor is one that forwards more in the end the same"


def test_a_device_that_stays_the_same_has_not_changed_however_its_trials_scatter() -> None:
    """One bad trial among good ones, a loss of a tenth, and a sender that was held up are no change."""
    good, bad, less = trial(50_000, 1.0), trial(50_000, 0.5), trial(50_000, 0.9)
    for results in (
        [good, bad, good, good, bad, bad, good],
        [good, good, good, less, less, less],
        [good, good, good, bad, bad],
        [good] * 3 + [trial(50_000, 0.5, unsent_ratio=0.3)] * 3,
        [good] * 3 + [trial(80_000, 0.6)] * 3,
        [],
    ):
        assert find_change(results) is None
