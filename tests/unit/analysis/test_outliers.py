"""Outlier marks: a published example, the reasons, and that nothing is deleted."""

from collections.abc import Callable

import numpy as np
import pytest

from iolab.analysis import analyse
from iolab.analysis.outliers import robust_z, stand
from iolab.messages.notes import RareTrials
from iolab.plan.types import Plan
from iolab.results.metric import Quantity
from iolab.store.records import TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]

URANIUM = [199.31, 199.53, 200.19, 200.82, 201.92, 201.95, 202.18, 245.57]
"""Tietjen & Moore (1972), mass spectrometer readings; NIST e-Handbook 1.3.5.17.1: one outlier, 245.57."""


def listed(values: list[float], **others: list[float]) -> Callable[..., dict[str, tuple[float, str]]]:
    """Return a function that gives the block's value of each metric."""
    units = {"retransmits": "count", "host_steal_ratio": "ratio"}
    return lambda measure, levels, block: {
        "received_bps": (values[block - 1], "bit/s"),
        **{name: (own[block - 1], units[name]) for name, own in others.items()},
    }


def test_only_the_published_outlier_of_a_data_set_is_marked() -> None:
    """Mark only the known one of the eight uranium readings."""
    marked = stand(np.array([URANIUM]), "bit/s").marked[0]
    assert marked.tolist() == [False] * 7 + [True]


def test_robust_z_agrees_with_its_formula() -> None:
    """Compute 0.6745 (x - median) / MAD by hand: median 201.37, MAD 0.995."""
    z = robust_z(np.array([URANIUM]))[0]
    assert z[-1] == pytest.approx(0.6745 * (245.57 - 201.37) / 0.995)
    assert z[0] == pytest.approx(0.6745 * (199.31 - 201.37) / 0.995)


def test_deviation_of_one_tenth_of_a_percent_is_never_an_outlier() -> None:
    """Ignore a deviation of 0.1 %, however equal the other trials are."""
    assert not stand(np.array([[1e9, 1e9 + 1, 1e9 + 2, 1e9 + 1, 1.001e9]]), "bit/s").marked.any()


def test_single_different_trial_among_equal_trials_is_an_outlier() -> None:
    """Use the mean absolute deviation if the MAD is 0: the odd one of ten is marked."""
    assert stand(np.array([[5.0] * 9 + [6.0]]), "s").marked[0].tolist() == [False] * 9 + [True]
    assert not stand(np.array([[5.0] * 10]), "s").marked.any()


def test_three_trials_have_no_outlier() -> None:
    """Mark none of three trials."""
    assert not stand(np.array([[1.0, 1.0001, 2.0]]), "bit/s").marked.any()


def test_outliers_of_counts_allow_for_poisson_variation() -> None:
    """Expect counts to vary by their square root."""
    assert not stand(np.array([[0.0, 0, 0, 0, 2]]), "count").marked.any()
    assert stand(np.array([[0.0, 0, 0, 0, 1000]]), "count").marked[0, 4]


def test_fewer_than_3_percent_of_normal_cells_have_an_outlier(random: np.random.Generator) -> None:
    """Check 2000 cells with 5 trials at 2 % spread; the plain rule marks 20 %."""
    standing = stand(random.normal(1e9, 2e7, size=(2000, 5)), "bit/s")
    assert (np.abs(standing.robust_z) > 3.5).any(axis=1).mean() > 0.15
    assert standing.marked.any(axis=1).mean() < 0.03


def test_outlier_stays_in_the_mean_and_a_second_mean_excludes_it(make_run: MakeRun) -> None:
    """Keep every trial in the mean; leave the marked one out of mean_without."""
    values = [100.0, 101.0, 102.0, 103.0, 40.0]
    records, plan = make_run({"a": "x"}, 5, listed(values))
    analysis = analyse(records, plan)
    (found,) = analysis.estimates
    assert found.values == tuple(values)
    assert (found.n, found.outliers) == (5, (4,))
    assert found.mean == pytest.approx(89.2)
    assert found.mean_without == pytest.approx(101.5)
    (mark,) = analysis.outliers
    assert (mark.key, mark.block, mark.value, mark.beside) == ("tcp/(0,)/5", 5, 40.0, ())


def test_outlier_index_counts_only_existing_trials(make_run: MakeRun) -> None:
    """Give the fourth value as the mark of block 5 if block 2 is missing."""
    records, plan = make_run({"a": "x"}, 6, listed([100.0, 0.0, 102.0, 103.0, 40.0, 101.0]))
    (found,) = analyse([record for record in records if record.block != 2], plan).estimates
    assert found.outliers == (3,)
    assert found.values[3] == 40.0


def test_pair_with_an_outlier_in_the_baseline_is_excluded_from_the_ratio_without_outliers(
    make_run: MakeRun,
) -> None:
    """Exclude a ratio to a marked trial, even if the cell itself has no mark."""
    base, other = [100.0, 101.0, 102.0, 103.0, 40.0], [200.0, 202.0, 204.0, 206.0, 201.0]
    run = make_run(
        {"a": "xy"}, 5,
        lambda m, levels, block: {"received_bps": ((base, other)[levels[0]][block - 1], "bit/s")},
        baseline={"a": "x"},
    )  # fmt: skip
    second = analyse(*run).estimates[1]
    assert (second.outliers, second.mean_without) == ((), None)
    assert second.ratio_without == pytest.approx(2.0)
    assert second.ratio is not None
    assert second.ratio > 2.1


@pytest.mark.parametrize(
    ("steal", "retransmits", "codes"),
    [
        ([0.0, 0, 0, 0, 0.2], [0.0, 0, 0, 0, 500], ["host-stolen-time"]),
        ([0.0, 0, 0, 0, 0.01], [3.0, 1, 4, 2, 500], ["many-retransmits"]),
        ([0.0, 0, 0, 0, 0.01], [3.0, 1, 4, 2, 3], []),
    ],
)
def test_outlier_reasons_are_the_other_unusual_figures_of_the_trial(
    make_run: MakeRun, steal: list[float], retransmits: list[float], codes: list[str]
) -> None:
    """List steal first, then retransmits, otherwise only the distance."""
    values = listed([100.0, 101, 102, 103, 40], host_steal_ratio=steal, retransmits=retransmits)
    marks = analyse(*make_run({"a": "x"}, 5, values)).outliers
    assert [
        [one.code for one in mark.beside] for mark in marks if mark.metric == Quantity("received_bps")
    ] == [codes]


def test_effect_of_rare_slow_trials_is_reported_once_for_all_cells(make_run: MakeRun) -> None:
    """Report 4 of 80 trials at 60 % of the rate: other cells have intervals of undisturbed trials."""
    random = np.random.default_rng(7)

    def value(_: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
        slow = levels in ((0, 0), (1, 1)) and block in (2, 5)
        return {"received_bps": (float(random.normal(1e9, 1e7)) * (0.6 if slow else 1.0), "bit/s")}

    notes = analyse(*make_run({"a": "wxyz", "b": "pq"}, 10, value)).notes
    (told,) = [note for note in notes if isinstance(note, RareTrials)]
    assert (told.marked, told.trials) == (4, 80)
    assert told.change_ratio == pytest.approx(-0.02, abs=0.002)


def test_undisturbed_trials_give_no_note_about_rare_slow_trials(make_run: MakeRun) -> None:
    """Ignore normal trials that are marked by chance, on either side."""

    def told(seed: int) -> bool:
        random = np.random.default_rng(seed)
        run = make_run(
            {"a": "wxyz", "b": "pq"}, 10, lambda *_: {"received_bps": (random.normal(100, 2), "bit/s")}
        )
        return any(isinstance(note, RareTrials) for note in analyse(*run).notes)

    assert sum(map(told, range(40))) == 0
