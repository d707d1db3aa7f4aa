"""Flame graphs of kernels and threads on the page, as SVG without scripts.

A box is a nested SVG with its position in percent and its height in pixels, so the text size does not depend on the
page width. Text that does not fit is clipped at the edge of the box.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from markupsafe import Markup

from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.page.over_time import by_cells
from iolab.store.records import TrialRecord

ROW = 18
"""Height of a box [px]."""
MOST_DEPTH = 48
"""Maximum depth of a graph; deeper boxes are omitted."""
LEAST_RATIO = 0.004
"""Minimum width of a box, as a ratio of all samples."""
MOST_BYTES = 1_500_000
"""Maximum size of all flame graphs on a page."""
IDLE = "swapper"
SHADES = 6

ReadStacks = Callable[[str], Mapping[str, str]]
"""Function that returns the folded stacks of the trial with a key as text, by machine; empty if there is no profile."""


@dataclass(slots=True)
class _Node:
    count: int = 0
    below: "dict[str, _Node]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flame:
    """One flame graph."""

    title: str
    """Trial and machine."""
    svg: Markup
    """The picture."""


@dataclass(frozen=True, slots=True)
class Flames:
    """The part of the page with all profiles."""

    flames: tuple[Flame, ...]
    """Flame graphs, in run order."""
    notes: tuple[str, ...]
    """Explanations, and notes on omitted graphs."""


def flames(trials: Sequence[TrialRecord], read: ReadStacks, named: Names) -> Flames:
    """Return as many flame graphs of a run as fit on the page, starting with the first trial of each cell."""
    words, found, room, total = named.words, [], MOST_BYTES, 0
    for trial in by_cells(trials):
        for machine, text in read(trial.key).items():
            total += 1
            drawn = _draw(text, named) if room > 0 else Markup("")
            if drawn and len(drawn) <= room:
                cell = named.cell(trial.cell) or named.measure(trial.measure)
                place = machine or named.words.said.names.get("this computer", "this computer")
                found.append(
                    Flame(words.text("profile.trial", cell=cell, block=trial.block, machine=place), drawn)
                )
                room -= len(drawn)
    notes = [words.text("profile.note")] if found else []
    notes += [words.text("profile.left_out", shown=len(found), total=total)] if len(found) < total else []
    return Flames(tuple(found), tuple(notes))


def _draw(text: str, named: Names) -> Markup:
    root = _tree(text)
    if not root.count:
        return Markup("")
    depth = min(_depth(root), MOST_DEPTH)
    widest = sorted(root.below.items(), key=lambda each: -each[1].count)[:3]
    alt = named.words.text("profile.alt", functions=named.words.listed(name for name, _ in widest))
    boxes = "".join(_boxes(root, root.count, 0, named))
    head = f'<svg class="flame" role="img" aria-label="{escape(alt)}" width="100%" height="{depth * ROW}">'
    return Markup(f"{head}{boxes}</svg>")


def _tree(text: str) -> _Node:
    root = _Node()
    for line in text.splitlines():
        count, _, stack = line.partition("\t")
        if not count.isdecimal() or not stack or stack.startswith(IDLE):
            continue
        node = root
        for name in ("", *stack.split(";")[:MOST_DEPTH]):
            node = node.below.setdefault(name, _Node()) if name else node
            node.count += int(count)
    return root


def _depth(node: _Node) -> int:
    deepest, level = 0, [node]
    while level:
        level = [below for one in level for below in one.below.values()]
        deepest += bool(level)
    return deepest


def _boxes(node: _Node, whole: int, depth: int, named: Names) -> list[str]:
    """Return the boxes of a node's callees side by side, each with its own callees inside."""
    if depth >= MOST_DEPTH:
        return []
    left, boxes = 0, []
    for name, below in sorted(node.below.items(), key=lambda each: -each[1].count):
        if below.count / whole < LEAST_RATIO:
            break
        at, wide = (f"{100 * part / node.count:.2f}%" for part in (left, below.count))
        label = named.words.text("profile.frame", function=name, ratio=numbers.percent(below.count / whole))
        shade = sum(name.encode()) % SHADES
        inside = "".join(_boxes(below, whole, depth + 1, named))
        boxes.append(
            f'<svg x="{at}" width="{wide}" y="{ROW if depth else 0}"><g><title>{escape(label)}</title>'
            f'<rect class="h{shade}" width="100%" height="{ROW - 1}"/>'
            f'<text x="3" y="13">{escape(name)}</text></g>{inside}</svg>'
        )
        left += below.count
    return boxes
