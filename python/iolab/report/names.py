"""Display names of factors, levels, cells, measures and metrics."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from iolab.plan.types import Plan
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.results.metric import Dimensions, Quantity
from iolab.units import format_bits_per_second, format_bytes

_ABSTRACT = re.compile(r"none|on|off|yes|no|auto|default|[\d.,]+ *[A-Za-z/%]*")
"""Levels that are unclear without the factor's name: `9000` becomes 'MTU 9000', but 'iSCSI in VM' is unchanged."""
_NAMELESS = frozenset({"device", "guest", "kernel"})
"""Thread roles that are not shown, because the port or the thread name identifies the role."""


@dataclass(frozen=True, slots=True)
class Names:
    """Display names for one run; they are as short as possible without ambiguity."""

    words: Words
    """Language of the names."""
    factors: Mapping[str, str]
    """Display name of each factor."""
    fixed: frozenset[str] = frozenset()
    """Factors with only one level in the whole run; this level is shown once, and omitted from cell names."""

    def factor(self, name: str) -> str:
        """Return the display name of a factor."""
        return self.factors.get(name, name)

    def level(self, factor: str, label: str) -> str:
        """Return a display name that identifies a level without naming its factor: 'MTU 9000', 'one-way', 'offload
        off'."""
        speaks = "." not in factor or factor.rpartition(".")[2] in self.words.terms("speaking")
        if speaks and not _ABSTRACT.fullmatch(label):
            return label
        return self._level(factor, label)

    def subject(self, factor: str, label: str) -> str:
        """Return a level as the subject of a sentence, with its factor if needed: 'pairs second', but 'virtio-net'."""
        speaks = "." in factor and self.level(factor, label) == label
        return label if speaks else self._level(factor, label)

    def _level(self, factor: str, label: str) -> str:
        """Return a level with its factor, unless the level begins with the factor's name: loaded, not load loaded."""
        name = self.factor(factor)
        if label.casefold().startswith(name.casefold()):
            return label
        return self.words.text("level", factor=name, level=label)

    def cell(self, cell: Mapping[str, str], without: Collection[str] = ()) -> str:
        """Return the display name of a cell: the levels that distinguish it from other cells."""
        left_out = {*without, *self.fixed}
        return self.words.listed(
            self.level(factor, label) for factor, label in cell.items() if factor not in left_out
        )

    def bare(self, cell: Mapping[str, str], factors: Iterable[str]) -> str:
        """Return the labels of some factors in a cell, for tables whose title names the factors."""
        return " · ".join(cell[factor] for factor in factors if factor in cell)

    def measure(self, name: str) -> str:
        """Return the display name of a measure."""
        return self.words.name("measures", name)

    def measured(self, measure: str, of: Quantity) -> str:
        """Return the name of a measure and its metric.

        If the metric's name contains the measure's name, return only the metric.
        """
        metric = self.metric(of)
        return metric if self.measure(measure) in metric.split(" ") else f"{self.measure(measure)} {metric}"

    def metric(self, of: Quantity) -> str:
        """Return the display name of a metric with its dimensions: latency p99 at 50 %, received near → far."""
        name = self.words.find(f"metrics.{of.name}.name") or of.name
        load_ratio = of.dimensions.load_ratio
        component = self.component(replace(of.dimensions, load_ratio=None))
        if load_ratio is None:
            return f"{name} {component}".rstrip()
        key = "packets.at_load_of" if component else "packets.at_load"
        return self.words.text(key, metric=name, load=load(load_ratio), component=component)

    def component(self, about: Dimensions) -> str:
        """Return the dimensions of a metric: near → far, cpu1, generator tester.p0, dut vCPU 0; empty: none apply."""
        parts = (
            about.machine,
            _arrow(about.flow),
            _arrow(about.direction),
            None if about.role in _NAMELESS else about.role,
            about.port,
            None if about.queue is None else f"rx {about.queue}",
            about.thread,
            None if about.cpu is None else f"cpu{about.cpu}",
            None if about.window_ns is None else numbers.duration(about.window_ns),
            about.section if about.part is None else None if about.section is None else f"{about.section}:",
            about.part,
            None if about.block_bytes is None else format_bytes(about.block_bytes),
            None if about.depth is None else f"depth {about.depth}",
            None if about.rate_bps is None else format_bits_per_second(about.rate_bps),
            None if about.buffer_bytes is None else format_bytes(about.buffer_bytes),
        )
        return " ".join(part for part in parts if part)

    def definition(self, name: str) -> str | None:
        """Return the one-line definition of a metric; None if the metric has no definition."""
        return self.words.find(f"metrics.{name}.definition")


def load(ratio: float) -> str:
    """Return an offered load as a percentage: 50 %."""
    return f"{ratio * 100:.6g} %"


def _arrow(ends: str | None) -> str:
    return (ends or "").replace("->", " → ").strip()


def names(factors: Iterable[str], words: Words, fixed: Iterable[str] = ()) -> Names:
    """Return the names of factors: the last part of each path, with further parts if two names would be equal."""
    wanted = tuple(dict.fromkeys(factors))
    same = frozenset(fixed)
    for parts in range(1, 6):
        found = {factor: _tail(factor, parts, words) for factor in wanted}
        if len(set(found.values())) == len(wanted):
            return Names(words, found, same)
    return Names(words, {factor: factor for factor in wanted}, same)


def names_of(plan: Plan, words: Words) -> Names:
    """Return the display names for a run."""
    return names([factor.name for factor in plan.factors], words, plan.fixed())


def _tail(factor: str, parts: int, words: Words) -> str:
    path = factor.split(".")
    if len(path) == 1:
        return factor
    last = words.name("factors", path[-1], path[-1].replace("_", " "))
    return " ".join([*path[-parts:-1], last])
