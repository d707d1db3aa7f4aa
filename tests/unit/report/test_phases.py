"""Tables of the phases of a disk program: a row per phase, a column per cell, each relative to the baseline."""

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


def test_watch_metrics_are_not_listed_as_disk_phases() -> None:
    """Show them in a separate place of the report, although they have parts."""
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


def test_bonnie_table_explains_differences_from_figures_of_2006() -> None:
    """Explain it once, below the first table; fio is younger."""
    first, second = grids(disk_run(depth=None))
    assert first.notes == (EN.text("table.definitions.write"),)
    assert second.notes == ()
    assert grids(disk_run())[0].notes == ()


def test_every_phase_has_a_row_and_every_cell_a_column_with_its_change() -> None:
    """Put the leading metric first, and fold further metrics."""
    first, second = grids(disk_run())
    assert [row[0] for row in first.rows] == ["read 4 KiB depth 8", "write 4 KiB depth 8"]
    baseline, other = first.rows[0][1:]
    assert baseline.startswith("20")
    assert other.startswith("10")
    assert "−50" in other
    assert (first.folded, second.folded) == (False, True)
    assert short_grids([first, second]) == [first]


def test_missing_steady_state_of_a_cell_is_stated_instead_of_a_change() -> None:
    """Show words instead of an empty cell."""
    assert "no steady state" in grids(disk_run(unsteady=True))[0].rows[0][2]
