"""From the trials of a run to everything that is concluded from them."""

from collections.abc import Sequence

from iolab.analysis.estimates import estimate
from iolab.analysis.outliers import describe, stand
from iolab.analysis.ratios import baseline_cells
from iolab.analysis.table import Table, tabulate
from iolab.analysis.types import Analysis, Estimate, Outlier
from iolab.plan.types import Plan
from iolab.store.records import TrialRecord

LEADING = ("received_bps", "forwarded_fps")
"""Metrics that stand for a measure, the first one it has; without any, the first in its records."""


def analyse(trials: Sequence[TrialRecord], plan: Plan) -> Analysis:
    """Conclude from the trials that count: status ok, the last record of each key, and a step of the plan."""
    tables, notes = tabulate(trials, plan)
    estimates: list[Estimate] = []
    outliers: list[Outlier] = []
    for table in tables:
        own, marked = _estimate_all(table, plan)
        estimates += own
        outliers += marked
    leading = {table.measure: leading_metric(table) for table in tables if table.columns}
    return Analysis(
        estimates=tuple(estimates),
        leading=leading,
        effects=(),
        findings=(),
        outliers=tuple(outliers),
        detectable={},
        spread={},
        notes=notes,
    )


def leading_metric(table: Table) -> str:
    """Name the metric that summaries and charts show first."""
    return next((name for name in LEADING if name in table.columns), next(iter(table.columns)))


def _estimate_all(table: Table, plan: Plan) -> tuple[list[Estimate], list[Outlier]]:
    baseline = baseline_cells(table, plan.baseline)
    standings = {name: stand(column.values, column.unit) for name, column in table.columns.items()}
    estimates: list[Estimate] = []
    outliers: list[Outlier] = []
    for name, column in table.columns.items():
        estimates += estimate(table, column, baseline, standings[name])
        outliers += describe(table, column, standings[name], standings)
    return estimates, outliers
