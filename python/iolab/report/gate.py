"""Format a gate for people, CI systems and programs: lines, Markdown, JSON, JUnit XML, GitHub annotations, SARIF."""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from xml.sax.saxutils import escape, quoteattr

from iolab.analysis.expectations import Result
from iolab.analysis.gate import GateCell, overall
from iolab.analysis.sequential import Outcome, Rule
from iolab.frozen import frozen
from iolab.report.names import Names

GATE_SCHEMA = 1
"""Version of `gate --json`: changed or removed keys increment it, new keys do not."""
LEVELS: Mapping[Result, str] = MappingProxyType(
    {Result.MET: "notice", Result.NOT_DECIDED: "warning", Result.NOT_MET: "error"}
)
"""Level of a GitHub annotation; in SARIF, the level is "note" instead of "notice"."""


@frozen(kw_only=True)
class Gate:
    """A gate and the places that its report names."""

    source: str
    """Experiment file."""
    lines: Mapping[str, int]
    """Line number of each measure in the experiment file."""
    run: str
    """Run folder; empty if nothing was measured."""
    against: str
    """Base of the comparison, as given on the command line."""
    rule: Rule
    """Margins and limits."""
    cells: tuple[GateCell, ...]
    """Results."""
    checks: tuple[int, int] = (0, 0)
    """Numbers of earlier A/A gates of this file on this host: the gates that found a change, and all gates."""
    names: Names
    """Display names in the language of the report."""
    is_same: bool = False
    """Whether the base is the candidate itself (A/A)."""

    @property
    def result(self) -> Result:
        """Return the result of the gate."""
        return overall(self.cells)


def lines(gate: Gate) -> list[str]:
    """Return lines with the result of the gate, the result of each cell, and the rate of false alarms on this host."""
    words = gate.names.words
    tally = {result: sum(cell.result is result for cell in gate.cells) for result in Result}
    head = words.text(
        "gate.result",
        result=words.name("gate.results", gate.result.value),
        source=gate.source,
        against=gate.against,
        bad=tally[Result.NOT_MET],
        undecided=tally[Result.NOT_DECIDED],
        count=len(gate.cells),
    )
    return [head, *(sentence(cell, gate) for cell in gate.cells), _checks(gate)]


def _checks(gate: Gate) -> str:
    changed, total = gate.checks
    words = gate.names.words
    return (
        words.text("gate.checks", changed=changed, count=total) if total else words.text("gate.checks_none")
    )


def sentence(cell: GateCell, gate: Gate) -> str:
    """Return a sentence with the result of a cell, its interval, and the number of pairs and void runs."""
    words, names = gate.names.words, gate.names
    decision = cell.decision
    outcome = decision.outcome.value
    if decision.outcome is Outcome.CHANGED and cell.better:
        outcome = "better" if cell.is_improved else "worse"
    text = words.text(
        "gate.cell",
        outcome=words.name("gate.outcomes", outcome),
        figure=names.measured(cell.measure, cell.metric) if cell.metric else names.measure(cell.measure),
        where=words.text("expect.where", cell=place) if (place := names.cell(cell.cell)) else "",
        interval=_interval(cell, gate),
        count=decision.pairs,
    )
    if any(cell.voids.values()):
        voids = words.listed(f"{subject} {count}" for subject, count in cell.voids.items())
        text = words.text("gate.voids_unequal" if cell.unequal else "gate.voids", text=text, voids=voids)
    return words.text("gate.reason", text=text, reason=cell.reason) if cell.reason else text


def _interval(cell: GateCell, gate: Gate) -> str:
    """Return the confidence sequence of the change in per cent."""
    words, decision = gate.names.words, cell.decision
    if decision.low == 0.0 or math.isinf(decision.high):
        return words.text("gate.no_interval")
    low, high = (f"{100 * (end - 1):+.1f}" for end in (decision.low, decision.high))
    level = 1 - (gate.rule.alpha if decision.outcome is Outcome.CHANGED else gate.rule.equivalent_alpha)
    return words.text("gate.interval", low=low, high=high, level=f"{100 * level:g}")


def document(gate: Gate) -> dict[str, object]:
    """Return the gate as plain JSON data."""
    return {
        "schema": GATE_SCHEMA,
        "result": gate.result.value,
        "file": gate.source,
        "run": gate.run,
        "against": gate.against,
        "same_subject": gate.is_same,
        "margin": gate.rule.margin,
        "alpha": gate.rule.alpha,
        "max_pairs": gate.rule.max_pairs,
        "earlier_checks": {"changed": gate.checks[0], "gates": gate.checks[1]},
        "cells": [_cell(cell, gate) for cell in gate.cells],
    }


def _cell(cell: GateCell, gate: Gate) -> dict[str, object]:
    decision = cell.decision
    return {
        "measure": cell.measure,
        "cell": dict(cell.cell),
        "metric": cell.metric.name if cell.metric else None,
        "line": gate.lines.get(cell.measure, 1),
        "outcome": decision.outcome.value,
        "result": cell.result.value,
        "futile": decision.futile,
        "better": cell.better,
        "improved": cell.is_improved if decision.outcome is Outcome.CHANGED else None,
        "ratio": [decision.low, decision.high if math.isfinite(decision.high) else None],
        "pairs": decision.pairs,
        "void": dict(cell.voids),
        "text": sentence(cell, gate),
    }


def as_json(gate: Gate) -> str:
    """Return the gate as JSON."""
    return json.dumps(document(gate), ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(gate: Gate) -> str:
    """Return the gate as a Markdown comment."""
    head, *rest = lines(gate)
    items = [f"- {_marked(line)}" for line in rest[:-1]]
    return "\n".join([f"**{_marked(head)}**", "", *items, "", _marked(rest[-1]), ""])


def _marked(text: str) -> str:
    """Escape the characters of a text that Markdown would interpret."""
    return "".join(f"\\{character}" if character in r"\`*_[]<>|#" else character for character in text)


def as_junit(gate: Gate) -> str:
    """Return the gate as JUnit XML: a test case per cell; the test case of an undecided cell is skipped."""
    bad = sum(cell.result is Result.NOT_MET for cell in gate.cells)
    undecided = sum(cell.result is Result.NOT_DECIDED for cell in gate.cells)
    suite = (
        f'<testsuite name={quoteattr(_clean(gate.source))} tests="{len(gate.cells)}" failures="{bad}" '
        f'skipped="{undecided}" errors="0">'
    )
    cases = [_case(cell, gate) for cell in gate.cells]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', suite, *cases, "</testsuite>", ""])


def _case(cell: GateCell, gate: Gate) -> str:
    name = _clean(" ".join([cell.measure, *(f"{key}={label}" for key, label in cell.cell.items())]))
    text = _clean(sentence(cell, gate))
    tag = {Result.NOT_MET: "failure", Result.NOT_DECIDED: "skipped"}.get(cell.result)
    inner = f"<{tag} message={quoteattr(text)}/>" if tag else f"<system-out>{escape(text)}</system-out>"
    return f"  <testcase classname={quoteattr(_clean(gate.source))} name={quoteattr(name)}>{inner}</testcase>"


def _clean(text: str) -> str:
    """Return text without characters that XML 1.0 does not allow."""
    return "".join(
        character if character in "\t\n\r" or (" " <= character < "\ufffe" and not "\ud800" <= character < "\ue000")
        else "?"
        for character in text
    )  # fmt: skip


def as_github(gate: Gate) -> str:
    """Return a workflow command per cell, at the line of its measure."""
    return "".join(
        f"::{LEVELS[cell.result]} file={_escaped(gate.source, ',:')},line={gate.lines.get(cell.measure, 1)}::"
        f"{_escaped(sentence(cell, gate))}\n"
        for cell in gate.cells
    )


def _escaped(text: str, more: str = "") -> str:
    """Return the text with those characters escaped that would end a workflow command or one of its properties."""
    return "".join(
        f"%{ord(character):02X}" if character in "%\r\n" or character in more else character
        for character in text
    )


def as_sarif(gate: Gate) -> str:
    """Return the gate as SARIF 2.1.0, with the line of the measure as location."""
    results = [
        {
            "ruleId": f"gate/{cell.decision.outcome.value}",
            "level": LEVELS[cell.result].replace("notice", "note"),
            "message": {"text": sentence(cell, gate)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": gate.source},
                        "region": {"startLine": gate.lines.get(cell.measure, 1)},
                    }
                }
            ],
        }
        for cell in gate.cells
    ]
    run = {"tool": {"driver": {"name": "iolab", "rules": []}}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Gate], str]] = MappingProxyType(
    {"json": as_json, "junit": as_junit, "markdown": as_markdown, "sarif": as_sarif, "github": as_github}
)
"""Format functions by name."""
