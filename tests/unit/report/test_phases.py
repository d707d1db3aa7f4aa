"""Tables of the phases of a disk program: a row per phase, a column per cell, each against the baseline."""

from dataclasses import replace

from tests.unit.report.builder import disk_run

from iolab.analysis.analyse import analyse
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.phases import phase_grids, short_grids
from iolab.report.selection import leading
from iolab.report.tables import Grid
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.store.records import StoredRun


def grids(run: StoredRun) -> list[Grid]:
    """Return the tables of the one measure."""
    analysis = analyse(run.trials, run.plan)
    (shown,) = leading(analysis, run.plan.measures, 20)
    return phase_grids(shown, run, analysis, names_of(run.plan, EN), 20)


def test_what_was_watched_on_a_wire_is_no_phase() -> None:
    """It has parts, too, and a place of its own in the report."""
    run = disk_run()
    watched = [
        Metric("window_rate_mean_bps", "bit/s", 1e9, Dimensions(direction="a->b", window_ns=at, part="line"))
        for at in (12_000, 100_000)
    ]
    trials = tuple(
        replace(trial, result=replace(trial.result, metrics=Metrics((*trial.result.metrics, *watched))))
        for trial in run.trials
    )
    assert grids(replace(run, trials=trials)) == grids(run)


def test_a_program_of_2006_says_why_its_figures_of_then_and_of_today_differ() -> None:
    """Once, below the first table; fio is younger."""
    first, second = grids(disk_run(depth=None))
    assert first.notes == (EN.text("table.definitions.write"),)
    assert second.notes == ()
    assert grids(disk_run())[0].notes == ()


def test_every_phase_has_a_row_and_every_cell_a_column_with_its_change() -> None:
    """What stands for the measure comes first, further metrics are details."""
    first, second = grids(disk_run())
    assert [row[0] for row in first.rows] == ["read 4 KiB depth 8", "write 4 KiB depth 8"]
    baseline, other = first.rows[0][1:]
    assert baseline.startswith("20")
    assert other.startswith("10")
    assert "−50" in other
    assert (first.folded, second.folded) == (False, True)
    assert short_grids([first, second]) == [first]


def test_a_cell_that_is_not_steady_has_no_change_and_says_so() -> None:
    """In words, not by a hole."""
    assert "no steady state" in grids(disk_run(unsteady=True))[0].rows[0][2]
