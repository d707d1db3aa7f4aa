"""What things are called in a report: factors, levels, cells, measures and metrics."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from iolab.plan.types import Plan
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.results.metric import Dimensions, Quantity
from iolab.units import format_bits_per_second, format_bytes

_ABSTRACT = re.compile(r"none|on|off|yes|no|auto|default|[\d.,]+ *[A-Za-z/%]*")
"""Levels that say nothing without their factor's name: MTU 9000, but not 'iSCSI in VM'."""
_NAMELESS = frozenset({"device", "guest", "kernel"})
"""Roles of threads that need not be named: the port or the thread's own name says which it is."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one run's factors, as short as they can be without becoming ambiguous."""

    words: Words
    """The language."""
    factors: Mapping[str, str]
    """Factor to what it is called."""
    fixed: frozenset[str] = frozenset()
    """Factors that have one level in the whole run: said once, and left out of cells' names."""

    def factor(self, name: str) -> str:
        """Name a factor."""
        return self.factors.get(name, name)

    def level(self, factor: str, label: str) -> str:
        """Name a level so that it can stand alone: 'MTU 9000', 'one-way', 'offload off'."""
        speaks = "." not in factor or factor.rpartition(".")[2] in self.words.terms("speaking")
        if speaks and not _ABSTRACT.fullmatch(label):
            return label
        return self._level(factor, label)

    def subject(self, factor: str, label: str) -> str:
        """Name a level where nothing around it says what it is about: 'pairs second', but 'virtio-net'."""
        speaks = "." in factor and self.level(factor, label) == label
        return label if speaks else self._level(factor, label)

    def _level(self, factor: str, label: str) -> str:
        """Name a level with its factor, unless it begins with the factor's name: loaded, not load loaded."""
        name = self.factor(factor)
        if label.casefold().startswith(name.casefold()):
            return label
        return self.words.text("level", factor=name, level=label)

    def cell(self, cell: Mapping[str, str], without: Collection[str] = ()) -> str:
        """Name a cell by those of its levels that tell it from others."""
        left_out = {*without, *self.fixed}
        return self.words.listed(
            self.level(factor, label) for factor, label in cell.items() if factor not in left_out
        )

    def bare(self, cell: Mapping[str, str], factors: Iterable[str]) -> str:
        """Name a cell by the labels of some factors alone, for places under a head that names them."""
        return " · ".join(cell[factor] for factor in factors if factor in cell)

    def measure(self, name: str) -> str:
        """Name a measure, in its customary spelling where there is one."""
        return self.words.name("measures", name)

    def measured(self, measure: str, of: Quantity) -> str:
        """Name a metric of a measure; a measure called by a word of the metric has no name of its own there."""
        metric = self.metric(of)
        return metric if self.measure(measure) in metric.split(" ") else f"{self.measure(measure)} {metric}"

    def metric(self, of: Quantity) -> str:
        """Name a metric, with what it is about: latency p99 at 50 %, received near → far."""
        name = self.words.find(f"metrics.{of.name}.name") or of.name
        load_ratio = of.dimensions.load_ratio
        component = self.component(replace(of.dimensions, load_ratio=None))
        if load_ratio is None:
            return f"{name} {component}".rstrip()
        key = "packets.at_load_of" if component else "packets.at_load"
        return self.words.text(key, metric=name, load=load(load_ratio), component=component)

    def component(self, about: Dimensions) -> str:
        """Name what a metric is about: near → far, cpu1, generator tester.p0, dut vCPU 0; empty: the whole."""
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
        """Say in one line what a metric means; None where it is not known here."""
        return self.words.find(f"metrics.{name}.definition")


def load(ratio: float) -> str:
    """Write an offered load as a share: 50 %."""
    return f"{ratio * 100:.6g} %"


def _arrow(ends: str | None) -> str:
    return (ends or "").replace("->", " → ").strip()


def names(factors: Iterable[str], words: Words, fixed: Iterable[str] = ()) -> Names:
    """Name every factor by the last part of its path, and by more of it where two would be called alike."""
    wanted = tuple(dict.fromkeys(factors))
    same = frozenset(fixed)
    for parts in range(1, 6):
        found = {factor: _tail(factor, parts, words) for factor in wanted}
        if len(set(found.values())) == len(wanted):
            return Names(words, found, same)
    return Names(words, {factor: factor for factor in wanted}, same)


def names_of(plan: Plan, words: Words) -> Names:
    """Name the factors of a run."""
    return names([factor.name for factor in plan.factors], words, plan.fixed())


def _tail(factor: str, parts: int, words: Words) -> str:
    path = factor.split(".")
    if len(path) == 1:
        return factor
    last = words.name("factors", path[-1], path[-1].replace("_", " "))
    return " ".join([*path[-parts:-1], last])
