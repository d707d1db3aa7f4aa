"""The better one of two values: declared, stored in trials, and shown for every significant change."""

import io

import numpy as np
import pytest
from rich.console import Console
from tests.unit.analysis.conftest import Values, make_run
from tests.unit.analysis.stored_runs import stored

from iolab.analysis import analyse, compare
from iolab.report import formats as report
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.sentences import finding
from iolab.results.metric import LARGER, SMALLER
from iolab.store.codec import TrialReader, encode_trial
from iolab.store.records import StoredRun


def run(better: str, slow_factor: float = 2.0, name: str = "run") -> StoredRun:
    """Return eight blocks of two cells; `slow` multiplies the times, within a percent."""
    random = np.random.default_rng(5)

    def figures(_: str, levels: tuple[int, ...], __: int) -> Values:
        value = (slow_factor if levels == (1,) else 1.0) * float(random.lognormal(3, 0.01))
        return {"took": (value, "ms", "", better)}

    return stored(name, make_run({"way": ("fast", "slow")}, 8, figures, baseline={"way": "fast"}))


def printed(shown: object) -> str:
    """Print to a string."""
    out = io.StringIO()
    Console(file=out, width=120, color_system=None).print(shown)
    return out.getvalue()


@pytest.mark.parametrize(("better", "said"), [(SMALLER, "(worse)"), (LARGER, "(better)"), ("", "")])
def test_significant_change_is_marked_better_or_worse(better: str, said: str) -> None:
    """Mark it in finding and table; mark nothing without a direction."""
    made = run(better)
    analysis = analyse(made.trials, made.plan)
    (found,) = analysis.findings
    sentence = finding(found, analysis, names_of(made.plan, EN))
    table = printed(report.terminal(made, analysis))
    assert ("(worse)" in sentence or "(better)" in sentence) == bool(said)
    assert said in sentence
    assert said in table
    assert ("smaller is better" in table, "larger is better" in table) == (
        better == SMALLER,
        better == LARGER,
    )


def test_insignificant_change_is_marked_neither_better_nor_worse() -> None:
    """Mark no estimate within the noise."""
    made = run(SMALLER, 1.0)
    analysis = analyse(made.trials, made.plan)
    table = printed(report.terminal(made, analysis))
    assert "(better)" not in table
    assert "(worse)" not in table


def test_comparison_of_two_runs_marks_the_better_run() -> None:
    """Use the direction of the newer run, because the older one may lack it."""
    table = printed(report.comparison(compare(run("", 2.0, "a"), run(SMALLER, 1.0, "b"))))
    assert "smaller is better" in table
    assert table.count("(better)") == 2, "of the one cell that changed, and over all"


def test_trial_record_stores_the_better_direction() -> None:
    """Store nothing without a direction."""
    (first, *_), (other, *_) = run(LARGER).trials, run("").trials
    line = encode_trial(first)
    assert '"better":"larger"' in line
    assert TrialReader().read(line).result.metrics["took"].better == LARGER
    assert "better" not in encode_trial(other)
