"""What is concluded, as JSON for programs: findings, effects, loads from which frames are lost; two runs compared."""

import json
from collections.abc import Mapping

from iolab.analysis.comparison import CellComparison, Comparison, LoneCell, OverallComparison
from iolab.analysis.forwarding_types import Onset
from iolab.analysis.types import Analysis, Effect, Finding, Interval
from iolab.report.interchange_packets import finite, quantity
from iolab.report.locale import EN, Words
from iolab.report.stated import warned

Document = Mapping[str, object]
COMPARISON_SCHEMA = 1
"""Version of `compare --json`: additions keep it, changes and removals raise it."""


def conclusions(analysis: Analysis) -> Document:
    """Return the conclusions of a run by their keys in `show --json`."""
    return {
        "findings": [_finding(each) for each in analysis.findings],
        "effects": [_effect(each) for each in analysis.effects],
        "onsets": [_onset(each) for each in analysis.onsets],
    }


def comparison_json(compared: Comparison, words: Words = EN) -> str:
    """Render two runs side by side as JSON; ratios are run b over run a."""
    document: Document = {
        "schema": COMPARISON_SCHEMA,
        "run_a": compared.run_a,
        "run_b": compared.run_b,
        "leading": {measure: quantity(metric) for measure, metric in compared.leading.items()},
        "cells": [_cell(each) for each in compared.cells],
        "overall": [_overall(each) for each in compared.overall],
        "only_a": [_lone(each) for each in compared.only_a],
        "only_b": [_lone(each) for each in compared.only_b],
        "warnings": [warned(each, words) for each in compared.warnings],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def ends(interval: Interval | None) -> list[float | None] | None:
    """Return an interval's ends; None: there is none."""
    return None if interval is None else [finite(interval.low), finite(interval.high)]


def _finding(each: Finding) -> Document:
    return {
        "measure": each.measure,
        **quantity(each.metric),
        "factor": each.factor,
        "level": each.level,
        "reference": each.reference,
        "conditions": dict(each.conditions),
        "ratio": finite(each.ratio),
        "ci": ends(each.ci),
        "shown": bool(each.shown),
        "each_direction": bool(each.each_direction),
        "better": each.better,
    }


def _effect(each: Effect) -> Document:
    return {
        "measure": each.measure,
        **quantity(each.metric),
        "levels": dict(each.levels),
        "reference": dict(each.reference),
        "ratio": finite(each.ratio),
        "ci": ends(each.ci),
        "p_value": finite(each.p_value),
        "better": each.better,
    }


def _onset(each: Onset) -> Document:
    return {
        "measure": each.measure,
        "factor": each.factor,
        "conditions": dict(each.conditions),
        "level": each.level,
        "largest": each.largest,
        "loss": [finite(end) for end in each.loss],
        "loss_at_largest": [finite(end) for end in each.loss_at_largest],
    }


def _cell(each: CellComparison) -> Document:
    return {
        "cell": dict(each.cell),
        "measure": each.measure,
        **quantity(each.metric),
        "unit": each.unit,
        "n": [each.n_a, each.n_b],
        "mean": [finite(each.mean_a), finite(each.mean_b)],
        "limited_by": [list(each.limited_a), list(each.limited_b)],
        "method": [each.method_a, each.method_b],
        "ratio_bound": each.ratio_bound,
        **_ratio(each),
    }


def _overall(each: OverallComparison) -> Document:
    return {"measure": each.measure, **quantity(each.metric), "cells": each.cells, **_ratio(each)}


def _ratio(each: CellComparison | OverallComparison) -> Document:
    return {
        "ratio": finite(each.ratio),
        "ci": ends(each.ci),
        "p_value": finite(each.p_value),
        "better": each.better,
    }


def _lone(each: LoneCell) -> Document:
    return {"measure": each.measure, "cell": dict(each.cell)}
