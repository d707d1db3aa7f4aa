"""What Vega-Lite specifications are made of, as plain JSON, in the page's font and colours. No data in them.

Nothing here compares them with Vega-Lite's schema: that is for tests.
"""

import json
from collections.abc import Sequence

Spec = dict[str, object]
"""A part of a specification."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
"""Of the version in which they are written."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}
LOOKS: Spec = {
    "font": FONT,
    "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
    "axis": {
        "labelColor": "var(--ink)", "titleColor": "var(--muted)", "domainColor": "var(--line)",
        "tickColor": "var(--line)", "gridColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal", "labelPadding": 6,
    },
    "axisY": {"domain": False, "ticks": False, "grid": False},
    "axisX": {"tickCount": 5, "gridOpacity": 0.6},
    "text": {"fontSize": 12},
}  # fmt: skip


def column(name: str, **how: object) -> Spec:
    """Return how a column of the data is shown; `x:Q` is the column x, a quantity."""
    field, _, kind = name.partition(":")
    return {"field": field, **({"type": TYPES[kind]} if kind else {}), **how}


def tips(*titles: tuple[str, str]) -> list[Spec]:
    """Return what is shown of the thing below the pointer: columns and their titles."""
    return [column(name, title=title) for name, title in titles]


def layer(data: str, mark: str, encoding: Spec, *, only: str | None = None, **looks: object) -> Spec:
    """Return the marks of one kind for the rows of a data set, or `only` for those where an expression is true."""
    chosen: Spec = {"transform": [{"filter": only}]} if only else {}
    return {"data": {"name": data}, **chosen, "mark": {"type": mark, **looks}, "encoding": encoding}


def write(layers: Sequence[Spec]) -> str:
    """Return the specification of layers above each other, as JSON."""
    return json.dumps(
        {
            "$schema": SCHEMA,
            "config": LOOKS,
            "width": "container",
            "background": "transparent",
            "padding": {"left": 2, "top": 4, "bottom": 2, "right": 2},
            "autosize": {"type": "fit-x", "contains": "padding"},
            "layer": layers,
        }
    )
