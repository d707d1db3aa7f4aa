"""Variants in alternation, so that a drift of the host favours none; and how two programs compare on one store.

Of two programs a block is A B B A. It gives the ratio of the two, and that of the first one to itself: the noise floor.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from iolab.analysis.estimates import ratio_of_pairs

MOST_NOISE = 0.10
"""Where an interval is wider than this on either side, two programs may well differ and nothing shows it."""


K = TypeVar("K")
T = TypeVar("T")


def alternated(variants: Mapping[K, Callable[[], T]], rounds: int) -> dict[K, list[T]]:
    """Run every variant once in each round, in an order that turns round; return what each gave, round by round."""
    found: dict[K, list[T]] = {name: [] for name in variants}
    for number in range(rounds):
        for name in variants if number % 2 else reversed([*variants]):
            found[name].append(variants[name]())
    return found


@dataclass(frozen=True)
class Block:
    """What four runs gave: the original, ours, ours, the original."""

    first: float
    ours: float
    ours_again: float
    last: float

    @property
    def ratio(self) -> float:
        """Ours by the original, both by their geometric mean."""
        return math.sqrt(self.ours * self.ours_again / (self.first * self.last))

    @property
    def scatter(self) -> float:
        """The original by itself."""
        return self.last / self.first


@dataclass(frozen=True)
class Agreement:
    """How two programs compare over several blocks."""

    blocks: int
    ratio: float
    low: float
    high: float
    noise: float
    """By how much the mean of as many ratios of the original to itself may differ from 1."""

    @property
    def judged(self) -> str:
        """Agree, differ, or "not shown" where the store scatters too much to tell."""
        if max(self.high / self.ratio, self.ratio / self.low) - 1 > MOST_NOISE:
            return "not shown"
        near = abs(self.ratio - 1) <= self.noise
        return "agree" if near or self.low <= 1 <= self.high else "differ"

    def __str__(self) -> str:
        """Say all of it."""
        interval = f"[{self.low:.4f}, {self.high:.4f}]"
        return (
            f"{self.ratio:.4f} {interval}, noise floor {self.noise:.2%}, {self.blocks} blocks: {self.judged}"
        )


def agreement(blocks: Sequence[Block]) -> Agreement:
    """Return how the two compare; there are at least four blocks."""
    ratio, interval = ratio_of_pairs(np.array([one.ratio for one in blocks]))
    _, scatter = ratio_of_pairs(np.array([one.scatter for one in blocks]))
    if interval is None or scatter is None:
        raise ValueError("so few blocks show nothing of the noise: run at least four")
    noise = math.sqrt(scatter.high / scatter.low) - 1
    return Agreement(len(blocks), ratio, interval.low, interval.high, noise)
