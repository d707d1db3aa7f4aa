"""The table of effects as text, the best supported first."""

from dataclasses import dataclass

from iolab.analysis.types import Analysis, Effect
from iolab.report import numbers
from iolab.report.names import Names


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect, written."""

    measure: str
    level: str
    reference: str
    change: str
    p_value: str


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The effects that fit."""

    rows: tuple[EffectRow, ...]
    """Best supported first."""
    total: int
    """How many there are."""


def effect_table(analysis: Analysis, names: Names, most: int) -> EffectTable:
    """Write the effects, the best supported first."""
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
        level=words.text("table.interaction", levels=levels) if len(effect.levels) > 1 else levels,
        reference=names.cell(effect.reference),
        change=numbers.judged(change, effect.ratio, better, words),
        p_value=numbers.p_value(effect.p_value, words),
    )
