"""The history of a measure: the figures of its cells in all runs of a library, for a terminal, a browser and
programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape

from rich import box
from rich.table import Table

from iolab.analysis.history import History
from iolab.locale import ENGLISH, Phrase, say
from iolab.report import numbers

SCHEMA = 1
"""Version of the JSON form: changed or removed keys increment it, new keys do not."""
BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 40
"""Maximum number of runs in a line on the terminal; older runs are omitted."""
WIDTH, HEIGHT = 560, 90
"""Size of a chart on the page."""
HEADS = (
    Phrase("history.cell"),
    Phrase("history.metric"),
    Phrase("history.hosts"),
    Phrase("history.runs"),
    Phrase("history.newest-runs"),
    Phrase("history.newest"),
    Phrase("history.suspect"),
)
STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;max-width:72em}table{border-collapse:collapse}"
    "td,th{padding:.3em .8em;text-align:left;border-bottom:1px solid #8884;vertical-align:top}"
    "polyline{fill:none;stroke:#1f77b4;stroke-width:1.5}line{stroke:#1f77b466}circle{fill:#1f77b4}"
    ".suspect circle{fill:#d62728}:root{color-scheme:light dark}"
)


def as_json(measure: str, found: Sequence[History]) -> str:
    """Return every point and every suspected change as JSON."""
    return json.dumps({"schema": SCHEMA, "measure": measure, "series": [asdict(each) for each in found]})


def as_table(found: Sequence[History], language: str = ENGLISH) -> Table:
    """Return a row per series: its newest runs, the newest figure, and the newest suspected change."""
    table = Table(box=box.SIMPLE)
    for head in HEADS:
        table.add_column(say(head, language))
    for each in found:
        table.add_row(
            _cell(each.cell),
            _metric(each),
            each.host_class,
            str(len(each.points)),
            _bars([point.median for point in each.points]),
            _newest(each),
            say(_suspected(each), language),
        )
    return table


def as_page(measure: str, found: Sequence[History], language: str = ENGLISH) -> str:
    """Return a page without scripts that needs no other file: a chart per series."""
    title = say(Phrase("history.title", measure=measure), language)
    heads = "".join(f"<th>{escape(say(head, language))}</th>" for head in HEADS)
    rows = "".join(
        f"<tr><td>{escape(_cell(each.cell))}</td><td>{escape(_metric(each))}</td><td>{escape(each.host_class)}</td>"
        f"<td>{len(each.points)}</td>"
        f"<td>{_chart(each)}</td><td>{escape(_newest(each))}</td>"
        f"<td>{escape(say(_suspected(each), language))}</td></tr>"
        for each in found
    )
    return (
        f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(say(Phrase('history.suspects-only'), language))}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></body></html>\n"
    )


def _chart(each: History) -> str:
    """Return the medians and ranges of the runs as SVG; suspected changes are red."""
    low = min(point.low for point in each.points)
    high = max(point.high for point in each.points)
    suspected = {suspect.begin for suspect in each.suspects}
    step = WIDTH / max(1, len(each.points))

    def y(value: float) -> float:
        return HEIGHT - 8 - (HEIGHT - 16) * ((value - low) / (high - low) if high > low else 0.5)

    marks, line = [], []
    for at, point in enumerate(each.points):
        x = step * (at + 0.5)
        line.append(f"{x:.1f},{y(point.median):.1f}")
        title = f"{_day(point.time_us)} {point.run}: {_figure(each, point.median)}"
        kind = ' class="suspect"' if at in suspected else ""
        marks.append(
            f'<g{kind}><title>{escape(title)}</title><line x1="{x:.1f}" x2="{x:.1f}" y1="{y(point.low):.1f}" '
            f'y2="{y(point.high):.1f}"/><circle cx="{x:.1f}" cy="{y(point.median):.1f}" r="3"/></g>'
        )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><polyline points="{" ".join(line)}"/>'
        f"{''.join(marks)}</svg>"
    )


def _suspected(each: History) -> Phrase | str:
    if not each.suspects:
        return ""
    newest = each.suspects[-1]
    point = each.points[newest.begin]
    change = (
        numbers.percent(newest.after / newest.before - 1) if newest.before else _figure(each, newest.after)
    )
    return Phrase("history.suspected", change=change, day=_day(point.time_us), run=point.run)


def _bars(values: Sequence[float]) -> str:
    newest = values[-MOST_BARS:]
    low, high = min(newest), max(newest)
    top = len(BARS) - 1
    return "".join(
        BARS[round(top * (value - low) / (high - low)) if high > low else top // 2] for value in newest
    )


def _newest(each: History) -> str:
    return _figure(each, each.points[-1].median)


def _figure(each: History, value: float) -> str:
    by = numbers.scale(each.metric, each.unit, [value])
    decimals = numbers.decimals_for(0.0, value * by.factor)
    return f"{numbers.fixed(value * by.factor, decimals)} {by.unit}".rstrip()


def _metric(each: History) -> str:
    about = ", ".join(f"{name} {value}" for name, value in each.dimensions.items())
    return f"{each.metric} ({about})" if about else each.metric


def _cell(cell: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in cell.items())


def _day(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / 1e6, UTC):%Y-%m-%d %H:%M}"
