"""Which of two values is the better one: declared, kept in trials, and said of every change that is shown."""

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
    """Eight blocks of two cells; in `slow` all takes so many times as long, give or take a percent."""
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
def test_a_shown_change_says_whether_it_is_for_the_better(better: str, said: str) -> None:
    """In the finding and in the table; without a direction nothing is said."""
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


def test_a_change_that_is_not_shown_is_neither_better_nor_worse() -> None:
    """An estimate always lies on one side or the other; that is no news."""
    made = run(SMALLER, 1.0)
    analysis = analyse(made.trials, made.plan)
    table = printed(report.terminal(made, analysis))
    assert "(better)" not in table
    assert "(worse)" not in table


def test_two_runs_compared_say_which_one_is_better() -> None:
    """By the direction of the newer one: the older may be from before it was declared."""
    table = printed(report.comparison(compare(run("", 2.0, "a"), run(SMALLER, 1.0, "b"))))
    assert "smaller is better" in table
    assert table.count("(better)") == 2, "of the one cell that changed, and over all"


def test_a_line_of_a_trial_keeps_the_direction() -> None:
    """And has no word of it where there is none."""
    (first, *_), (other, *_) = run(LARGER).trials, run("").trials
    line = encode_trial(first)
    assert '"better":"larger"' in line
    assert TrialReader().read(line).result.metrics["took"].better == LARGER
    assert "better" not in encode_trial(other)
