"""The HTML page: everything as text for the template, which only lays it out and escapes it."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from iolab.analysis.types import Analysis
from iolab.experiment.experiment import Experiment
from iolab.report import charts, drawing, environment, numbers, picture, sentences, tables
from iolab.report.names import Names, names
from iolab.report.page import history
from iolab.report.selection import Shown, by_metric, choose, leading
from iolab.report.words import EN, Words
from iolab.store.records import StoredRun, TrialRecord

MOST_ROWS = 400
"""Cells in all result tables together."""
MOST_CHARTED = 96
"""Cells in the charts of one metric."""
MOST_EFFECTS = 60
MOST_OTHERS = 12
"""Metrics beside the leading one that get charts."""
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""What the bundle of Vega, Vega-Lite and Vega-Embed leaves for the page's script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measure on the page."""

    measure: str
    """As it is called."""
    key: str
    """Identity of its charts in the page."""
    head: str
    """Of the column of means."""
    table: tables.ResultTable
    """Its leading metric."""
    rows: tuple[Mapping[str, object], ...]
    """The table's rows, decimal points aligned."""
    metrics: tables.MetricsTable | None
    """Means of all metrics."""
    chart: charts.Chart
    """Its leading metric, drawn."""
    charted: int
    """Cells in the chart."""
    others: tuple[charts.Chart, ...]
    """The other metrics, drawn."""


def page(run: StoredRun, analysis: Analysis, experiment: Experiment, version: str, words: Words = EN) -> str:
    """Fill the template."""
    named = names([factor.name for factor in run.plan.factors], words)
    trials = sentences.counted(run.trials)
    results = _results(run, analysis, trials, named)
    lab = drawing.draw(picture.picture(experiment, named), named)
    library, script = (_library(), _asset("charts.js")) if results else ("", "")
    fills: dict[str, object] = {
        "words": words,
        "version": version,
        "mark": tables.MARK,
        "title": run.plan.title,
        "state": sentences.state(run, trials, words),
        "banners": sentences.banners(run, trials, named),
        "style": Markup(_asset("style.css")),
        "library": Markup(library),
        "script": Markup(script),
        "script_sources": " ".join(_hash(each) for each in (library, script) if each) or "'none'",
        "chart_json": _chart_json,
        "results": results,
        "key": _key(results),
        "lab": lab,
        "lab_svg": Markup(lab.svg),
        **_summary(run, analysis, named),
        **_effects(analysis, named),
        **_definitions(analysis, named),
        **history.troubles_view(run, trials, analysis, named),
        "environment": environment.entries(run.facts, words),
        "commands": history.commands_view(run.commands, words),
        **history.repeat_view(run, experiment, version, words),
    }
    fills["contents"] = _contents(fills, words)
    return _template().render(fills)


@cache
def _template() -> Template:
    surroundings = Environment(autoescape=True, undefined=StrictUndefined)
    return surroundings.from_string(_asset("page.html.j2"))


@cache
def _asset(name: str) -> str:
    return (files("iolab.report.page") / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; nothing in it may end the script element."""
    import vl_convert

    return str(vl_convert.javascript_bundle(snippet=_SNIPPET)).replace("</script", "<\\/script")


def _hash(script: str) -> str:
    """What the page's content security policy allows to run: these scripts, and no other."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _results(run: StoredRun, analysis: Analysis, trials: Sequence[TrialRecord], named: Names) -> list[Result]:
    groups = by_metric(analysis)
    shown = leading(analysis, run.plan.measures, MOST_ROWS)
    charted = [
        choose(each.measure, each.metric, groups[each.measure, each.metric], MOST_CHARTED) for each in shown
    ]
    others = [
        [choose(measure, metric, groups[measure, metric], MOST_CHARTED // 4) for measure, metric in groups
         if measure == each.measure and metric != each.metric][:MOST_OTHERS]
        for each in shown
    ]  # fmt: skip
    found = charts.trials_by_cell(trials, [*charted, *(other for each in others for other in each)])
    return [
        _result(index, run, analysis, named, shown[index], charted[index], others[index], found)
        for index in range(len(shown))
    ]


def _result(
    index: int,
    run: StoredRun,
    analysis: Analysis,
    named: Names,
    shown: Shown,
    charted: Shown,
    others: Sequence[Shown],
    found: Mapping[tuple[str, frozenset[tuple[str, str]]], Sequence[TrialRecord]],
) -> Result:
    words = named.words
    table = tables.results(shown, run, analysis, named)
    return Result(
        measure=named.measure(shown.measure),
        key=f"chart-{index + 1}",
        head=tables.head(words.table.mean, table.unit, words),
        table=table,
        rows=_aligned(table, words),
        metrics=tables.all_metrics(table, analysis, named),
        chart=charts.chart(charted, run, found, named),
        charted=len(charted.estimates),
        others=tuple(charts.chart(other, run, found, named) for other in others),
    )


def _aligned(table: tables.ResultTable, words: Words) -> tuple[Mapping[str, object], ...]:
    columns = {
        name: numbers.align([getattr(row, name) for row in table.rows]) for name in ("mean", "min", "max")
    }
    return tuple(
        {
            "levels": row.levels,
            "reference": row.reference,
            "marked": row.marked,
            "marked_text": words.table.marked.format(count=row.marked),
            "ci": row.ci,
            "n": row.n,
            "change": row.change,
            **{name: column[index] for name, column in columns.items()},
        }
        for index, row in enumerate(table.rows)
    )


def _chart_json(chart: charts.Chart) -> Markup:
    """A chart's data inside a script element: no character can end it or begin a comment."""
    panels = [{"points": panel.points, "means": panel.means} for panel in chart.panels]
    text = f'{{"spec":{chart.spec},"panels":{json.dumps(panels, allow_nan=False, separators=(",", ":"))}}}'
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _key(results: Sequence[Result]) -> Mapping[str, bool]:
    return {
        "ci": any(result.chart.with_ci for result in results),
        "baseline": any(result.chart.with_baseline for result in results),
        "marks": any(result.chart.with_marks for result in results),
    }


def _summary(run: StoredRun, analysis: Analysis, named: Names) -> dict[str, object]:
    measures = run.plan.measures
    notes = (sentences.legend(analysis, measures, named), *sentences.resolution(analysis, measures, named))
    return {
        "summary": sentences.summary(analysis, measures, named),
        "summary_notes": [note for note in notes if note],
    }


def _effects(analysis: Analysis, named: Names) -> dict[str, object]:
    text = named.words.table
    effects = tables.effects(analysis, named, MOST_EFFECTS)
    return {
        "effects": effects,
        "effect_heads": [text.measure, text.effect, text.compared_with, text.effect_change, text.p_value],
        "effect_rows": [
            (row.measure, row.level, row.reference, row.change, row.p_value) for row in effects.rows
        ],
    }


def _definitions(analysis: Analysis, named: Names) -> dict[str, object]:
    metrics = dict.fromkeys(estimate.metric for estimate in analysis.estimates)
    known = [
        (named.metric(metric), definition) for metric in metrics if (definition := named.definition(metric))
    ]
    methods = {ci.method for each in analysis.estimates for ci in (each.ci, each.ratio_ci) if ci is not None}
    notes = (
        [named.words.page.method.format(methods=named.words.comma.join(sorted(methods)))] if methods else []
    )
    return {"definitions": known, "method_notes": notes}


def _contents(fills: Mapping[str, object], words: Words) -> list[tuple[str, str]]:
    page = words.page
    effects, commands, lab = fills["effects"], fills["commands"], fills["lab"]
    present = [
        ("summary", page.summary, True), ("results", page.results, bool(fills["results"])),
        ("charts", page.charts, bool(fills["results"])),
        ("effects", page.effects, isinstance(effects, tables.EffectTable) and bool(effects.rows)),
        ("lab", page.lab, isinstance(lab, drawing.LabDrawing) and bool(lab.texts)),
        ("meanings", page.meanings, bool(fills["definitions"])), ("troubles", page.troubles, True),
        ("environment", page.environment, True),
        ("commands", page.commands, isinstance(commands, history.CommandsView) and commands.total > 0),
        ("repeat", page.repeat, True),
    ]  # fmt: skip
    return [(anchor, heading) for anchor, heading, here in present if here]
