"""Build the HTML page: convert all values to text for the template, which does only layout and escaping.

Vega, Vega-Lite and Vega-Embed are bundled in one script. Bundling takes seconds, so the script is kept in the user's
cache.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from iolab.analysis.types import Analysis, Effect
from iolab.errors import UnsupportedError
from iolab.experiment.experiment import Experiment
from iolab.files import cache_folder, write_whole
from iolab.report import drawing, numbers, packets, panels, picture, sentences, tables
from iolab.report.environment import in_effect_grid
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names_of
from iolab.report.page import history
from iolab.report.page.flames import Flames, ReadStacks, flames
from iolab.report.page.over_time import OverTime, ReadSeries, drawn_trials
from iolab.report.page.results import Result, results
from iolab.report.page.wire import OnTheWire, on_the_wire
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

MOST_EFFECTS = 60
MOST_ROWS = 400
"""Maximum number of cells in a table of verdicts or frame accounting."""
MOST_PATHS = 40
"""Maximum number of ports in the table of paths."""
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""The exports of the bundle that the page's script uses."""


def page(
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,
    version: str,
    read: ReadSeries,
    read_stacks: ReadStacks,
    words: Words = EN,
) -> str:
    """Return the filled template; `read` returns the series of a trial, `read_stacks` its profiles."""
    named = names_of(run.plan, words)
    trials = sentences.counted(run.trials)
    found = results(run, analysis, experiment, trials, named)
    lab = drawing.draw(picture.picture(experiment, named), named)
    vega_script, script = (library(), _asset("charts.js")) if found else ("", "")
    wire = on_the_wire(trials, read, named)
    wire_script = _asset("wire.js") if wire.trials else ""
    fills: dict[str, object] = {
        "words": words,
        "version": version,
        "mark": tables.MARK,
        "title": run.plan.title,
        "states": sentences.states(run, trials, named),
        "banners": sentences.banners(run, trials, named),
        "style": Markup(_asset("style.css")),
        "library": Markup(vega_script),
        "script": Markup(script),
        "script_sources": " ".join(_hash(each) for each in (vega_script, script, wire_script) if each)
        or "'none'",
        "chart_json": _chart_json,
        "results": found,
        "key": _key(found),
        "lab": lab,
        "lab_svg": Markup(lab.svg),
        **_summary(run, analysis, named),
        **_limits(run, analysis, named),
        "wire": wire,
        "wire_script": Markup(wire_script),
        "over_time": drawn_trials(trials, read, named),
        "flames": flames(trials, read_stacks, named),
        **_effects(analysis, named),
        **_definitions(analysis, named),
        **history.troubles_view(run, trials, analysis, named),
        "in_effect": in_effect_grid(trials, named),
        "environment": packets.other_facts(run, words),
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


def _hash(script: str) -> str:
    """Return the source hash for the page's content security policy, which allows only the page's scripts."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _chart_json(chart: panels.Chart) -> Markup:
    """Return a chart's data for a script element, escaped so that it cannot end the element or start a comment."""
    data = [{"height": panel.height, "data": panel.data} for panel in chart.panels]
    text = f'{{"spec":{chart.spec},"panels":{json.dumps(data, allow_nan=False, separators=(",", ":"))}}}'
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _key(found: Sequence[Result]) -> Mapping[str, bool]:
    shown = [chart for result in found for chart in result.charts]
    return {
        "rows": any(not chart.with_lines for chart in shown),
        "lines": any(chart.with_lines for chart in shown) or any(result.curves for result in found),
        "ci": any(chart.with_ci for chart in shown),
        "baseline": any(chart.with_baseline for chart in shown),
        "marks": any(chart.with_marks for chart in shown),
        "limit": any(chart.with_limit for chart in shown),
    }


def _limits(run: StoredRun, analysis: Analysis, named: Names) -> dict[str, object]:
    """Return verdicts, frame accounting and the instrument's data."""
    words = named.words
    grids = [packets.stream_grid(each, run, named, MOST_ROWS) for each in analysis.streams]
    grids += [
        grid(each, run, named, MOST_ROWS)
        for each in analysis.forwarding
        if each.cells
        for grid in (packets.verdict_grid, packets.balance_grid)
    ]
    silent = [each for each in analysis.forwarding if not each.cells]
    return {
        "packets": bool(analysis.forwarding or analysis.streams),
        "limits": grids,
        "limit_lines": packets.limit_lines(analysis, named),
        "limit_notes": [
            words.text("packets.no_samples", measure=named.measure(each.measure)) for each in silent
        ],
        "paths": packets.path_grid(analysis.forwarding, named, MOST_PATHS),
        "instrument_lines": packets.instrument_lines(analysis, named),
        "calibration": packets.calibration(run, named.words),
    }


def _summary(run: StoredRun, analysis: Analysis, named: Names) -> dict[str, object]:
    measures = run.plan.measures
    notes = (sentences.legend(analysis, measures, named), *sentences.resolution(analysis, measures, named))
    return {
        "summary": sentences.summary(analysis, measures, named, run.plan.baseline),
        "summary_notes": [note for note in notes if note],
    }


def _effects(analysis: Analysis, named: Names) -> dict[str, object]:
    words = named.words
    effects = effect_table(analysis, named, MOST_EFFECTS)
    return {
        "effects": effects,
        "effect_heads": [
            *words.each(
                "table.measure", "table.effect", "table.compared_with", "table.effect_change", "table.p_value"
            ),
        ],
        "effect_rows": [
            (row.measure, row.level, row.reference, row.change, row.p_value) for row in effects.rows
        ],
    }


def _definitions(analysis: Analysis, named: Names) -> dict[str, object]:
    metrics = dict.fromkeys(metric.name for _, metric in analysis.estimates.by_metric)
    known = [
        (named.metric(Quantity(name)), definition)
        for name in metrics
        if (definition := named.definition(name))
    ]
    methods = {method for each in analysis.estimates.by_metric.values() for method in each.figures().methods}
    notes = [named.words.text("page.method", methods=named.words.listed(sorted(methods)))] if methods else []
    return {"definitions": known, "method_notes": notes}


def _contents(fills: Mapping[str, object], words: Words) -> list[tuple[str, str]]:
    effects, commands, lab = fills["effects"], fills["commands"], fills["lab"]
    over_time, wire, drawn = fills["over_time"], fills["wire"], fills["flames"]
    present = [
        ("summary", "page.summary", True),
        ("results", "page.results", bool(fills["results"])),
        ("charts", "page.charts", bool(fills["results"])),
        ("limits", "packets.limits", bool(fills["packets"])),
        ("instrument", "packets.instrument", bool(fills["instrument_lines"] or fills["paths"])),
        ("wire", "wire.heading", isinstance(wire, OnTheWire) and bool(wire.trials)),
        ("flames", "profile.heading", isinstance(drawn, Flames) and bool(drawn.flames)),
        ("over-time", "over_time.heading", isinstance(over_time, OverTime) and bool(over_time.trials)),
        ("effects", "page.effects", isinstance(effects, EffectTable) and bool(effects.rows)),
        ("lab", "page.lab", isinstance(lab, drawing.LabDrawing) and bool(lab.texts)),
        ("meanings", "page.meanings", bool(fills["definitions"])),
        ("troubles", "page.troubles", True),
        ("in-effect", "in_effect.heading", fills["in_effect"] is not None),
        ("environment", "page.environment", True),
        ("commands", "page.commands", isinstance(commands, history.CommandsView) and commands.total > 0),
        ("repeat", "page.repeat", True),
    ]
    return [(anchor, words.text(heading)) for anchor, heading, here in present if here]


@dataclass(frozen=True, slots=True)
class EffectRow:
    """An effect of a factor, as text."""

    measure: str
    level: str
    reference: str
    change: str
    p_value: str


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The effects that fit on the page."""

    rows: tuple[EffectRow, ...]
    """Effects by evidence, strongest first."""
    total: int
    """Number of all effects."""


def effect_table(analysis: Analysis, names: Names, most: int) -> EffectTable:
    """Return the effects as text, strongest evidence first."""
    order = sorted(analysis.effects, key=_support)
    return EffectTable(tuple(_effect(effect, names) for effect in order[:most]), len(order))


def _support(effect: Effect) -> tuple[float, float]:
    size = max(effect.ratio, 1 / effect.ratio) if effect.ratio > 0 else 0.0
    return (1.0 if effect.p_value is None else effect.p_value, -size)


def _effect(effect: Effect, names: Names) -> EffectRow:
    words = names.words
    levels = names.cell(effect.levels)
    better = effect.better if numbers.is_shown(effect.p_value) and len(effect.levels) == 1 else ""
    change = numbers.change(effect.ratio, effect.ci, words)
    return EffectRow(
        measure=names.measure(effect.measure),
        level=_compared(effect, levels, names),
        reference=names.cell(effect.reference),
        change=numbers.judged(change, effect.ratio, better, words),
        p_value=numbers.p_value(effect.p_value, words),
    )


def _compared(effect: Effect, levels: str, names: Names) -> str:
    """Return the compared levels of an effect, and the levels of other factors for which alone it was measured."""
    if len(effect.levels) > 1:
        return names.words.text("table.interaction", levels=levels)
    if not effect.conditions:
        return levels
    return names.words.text("table.effect_under", levels=levels, conditions=names.cell(effect.conditions))


@cache
def library() -> str:
    """Return the chart script; no text in it can end a script element."""
    made = None
    with contextlib.suppress(
        UnsupportedError, OSError
    ):  # without a trusted cache folder, the script is bundled each time
        kept = _kept()
        if kept.is_file():
            return kept.read_text(encoding="utf-8")
        made = _made()
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, made)
    return made or _made()


def _kept() -> Path:
    """Return the cache path of this version's script; a change of version, snippet or notice changes the name."""
    told = f"{version('vl-convert-python')}\n{_SNIPPET}\n{_notice()}"
    return cache_folder() / f"vega-{hashlib.sha256(told.encode()).hexdigest()[:16]}.js"


def _made() -> str:
    import vl_convert

    script = str(vl_convert.javascript_bundle(snippet=_SNIPPET)).replace("</script", "<\\/script")
    return _notice() + script


def _notice() -> str:
    """Return the licence notices of the bundled scripts; bundling removes the notices from the code."""
    return f"/*!\n{(files('iolab.report.page') / 'licences.txt').read_text(encoding='utf-8')}*/\n"
