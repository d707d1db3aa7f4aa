"""Why the cells of a table have no change against the baseline. Plain text, for every format."""

from dataclasses import replace

from iolab.report.names import Names
from iolab.report.selection import Shown
from iolab.store.records import StoredRun


def without_baseline(shown: Shown, run: StoredRun, names: Names) -> list[str]:
    """Say why a percentage is missing: a column that is not there explains nothing."""
    used = {factor for each in shown.estimates for factor in each.cell}
    baseline = {factor: label for factor, label in run.plan.baseline.items() if factor in used}
    lacking = sum(each.ratio is None for each in shown.estimates)
    apart = dict.fromkeys(each.apart for each in shown.estimates if each.apart)
    if apart:
        words = names.words
        reasons = names.words.listed(words.name("table.incomparable_names", code) for code in apart)
        return [words.text("table.incomparable", count=lacking, total=len(shown.estimates), reasons=reasons)]
    if not baseline or not lacking:
        return []
    fixed = run.plan.fixed()
    elsewhere = {factor: label for factor, label in baseline.items() if fixed.get(factor, label) != label}
    if elsewhere:
        text, levels = (
            names.words.text("table.baseline_elsewhere"),
            replace(names, fixed=frozenset()).cell(elsewhere),
        )
        return [text.format(count=lacking, total=len(shown.estimates), levels=levels)]
    text = names.words.text("table.no_baseline")
    return [text.format(count=lacking, total=len(shown.estimates), baseline=names.cell(baseline))]
