"""Gates from pairs of trials: decisions per cell, void runs, and the result of all."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.analysis.conftest import make_record

from iolab.analysis.expectations import Result
from iolab.analysis.gate import GateCell, is_decided, judge_pairs, overall
from iolab.analysis.sequential import Outcome, Rule
from iolab.frozen import frozen
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

SUBJECTS = ("candidate", "base")
RULE = Rule()


@frozen
class Made:
    """A pair of runs as `run` creates it."""

    records: dict[str, tuple[TrialRecord, ...]]
    slow: tuple[str, ...] = ()


def record(subject: str, block: int, value: float, better: str = "larger", ok: bool = True) -> TrialRecord:
    """Return a trial of one subject."""
    values = {"received_bps": (value, "bit/s", "", better)} if ok else {}
    made = make_record(f"{subject}/{block}", "tcp", block, values, Status.OK if ok else Status.FAILED)
    return replace(made, kind="stream", cell={"subject": subject, "mtu": "1500"})


def pairs(
    ratio: float, count: int = 24, better: str = "larger", failed: int = 0, slow: int = 0
) -> list[Made]:
    """Return pairs with 0.5 % noise; `failed` candidates fail, and `slow` pairs took too long."""
    random = np.random.default_rng(3)
    noise = random.normal(0, 0.005, (count, 2))
    return [
        Made(
            {
                "candidate": (
                    record("candidate", at, ratio * 1e9 * (1 + noise[at, 0]), better, at >= failed),
                ),
                "base": (record("base", at, 1e9 * (1 + noise[at, 1]), better),),
            },
            ("base",) if at < slow else (),
        )
        for at in range(count)
    ]


def judged(made: list[Made], **options: bool) -> GateCell:
    """Judge pairs of one cell."""
    (cell,) = judge_pairs(made, SUBJECTS, "subject", RULE, **options)
    return cell


@pytest.mark.parametrize(
    ("ratio", "better", "outcome", "result"),
    [
        (1.0, "larger", Outcome.EQUIVALENT, Result.MET),
        (0.95, "larger", Outcome.CHANGED, Result.NOT_MET),
        (1.05, "larger", Outcome.CHANGED, Result.MET),
        (1.05, "smaller", Outcome.CHANGED, Result.NOT_MET),
        (1.05, "", Outcome.CHANGED, Result.MET),
        (0.95, "", Outcome.CHANGED, Result.NOT_MET),
    ],
)
def test_gate_fails_on_a_change_for_the_worse(
    ratio: float, better: str, outcome: Outcome, result: Result
) -> None:
    """Check no change, and changes of 5 % of metrics with each preferred direction."""
    cell = judged(pairs(ratio, better=better))
    assert (cell.decision.outcome, cell.result) == (outcome, result)
    assert cell.cell == {"mtu": "1500"}
    assert cell.decision.low <= ratio <= cell.decision.high


def test_void_runs_exclude_their_pair_and_are_counted_per_subject() -> None:
    """Fail one candidate; both runs of its pair leave the result."""
    cell = judged(pairs(1.0, failed=1))
    assert cell.voids == {"candidate": 1, "base": 0}
    assert cell.decision.pairs == 23
    assert cell.decision.outcome is Outcome.EQUIVALENT


def test_slow_run_makes_its_pair_void() -> None:
    """Mark two runs of the base as slow."""
    cell = judged(pairs(1.0, slow=2))
    assert (cell.voids, cell.decision.pairs) == ({"candidate": 0, "base": 2}, 22)


def test_gate_is_undecided_if_one_subject_has_many_more_void_runs() -> None:
    """Fail 8 of 24 candidates and no base: whatever the others say, the gate is not decided."""
    cell = judged(pairs(1.0, failed=8))
    assert cell.unequal
    assert cell.result is Result.NOT_DECIDED


def test_gate_ends_early_for_a_cell_that_never_succeeds() -> None:
    """Fail every candidate: five pairs, not forty."""
    failing = pairs(1.0, count=5, failed=5)
    assert not is_decided(judge_pairs(failing[:4], SUBJECTS, "subject", RULE))
    assert is_decided(judge_pairs(failing, SUBJECTS, "subject", RULE))
    assert overall([judged(failing)]) is Result.NOT_DECIDED


def test_gate_without_cells_is_undecided() -> None:
    """Check that nothing measured is not a pass, and that one bad cell fails the gate."""
    assert overall([]) is Result.NOT_DECIDED
    bad, open_cell = judged(pairs(0.9)), judged(pairs(1.0, count=2), last=True)
    assert overall([bad, open_cell]) is Result.NOT_MET
    assert overall([judged(pairs(1.0)), open_cell]) is Result.NOT_DECIDED
