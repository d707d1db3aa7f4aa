"""Run variants in alternation, so that a drift of the host favours no variant, and compare two programs on one storage.

For two programs, a block is A B B A. A block gives the ratio of the two programs, and the ratio of the first program to
itself, which is the noise floor.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from iolab.analysis.estimates import ratio_of_pairs

MOST_NOISE = 0.10
"""Maximum distance of an interval's end from 1; with a wider interval, a difference between the programs could be
undetected."""


K = TypeVar("K")
T = TypeVar("T")


def alternated(variants: Mapping[K, Callable[[], T]], rounds: int) -> dict[K, list[T]]:
    """Run every variant once per round, in rotating order; return the results, round by round."""
    found: dict[K, list[T]] = {name: [] for name in variants}
    for number in range(rounds):
        for name in variants if number % 2 else reversed([*variants]):
            found[name].append(variants[name]())
    return found


@dataclass(frozen=True)
class Block:
    """Results of four runs: original, iolab, iolab, original."""

    first: float
    ours: float
    ours_again: float
    last: float

    @property
    def ratio(self) -> float:
        """Ratio of iolab to the original, both as geometric means."""
        return math.sqrt(self.ours * self.ours_again / (self.first * self.last))

    @property
    def scatter(self) -> float:
        """Ratio of the original to itself."""
        return self.last / self.first


@dataclass(frozen=True)
class Agreement:
    """Comparison of two programs over several blocks."""

    blocks: int
    ratio: float
    low: float
    high: float
    noise: float
    """Expected deviation from 1 of the mean of the same number of ratios of the original to itself."""

    @property
    def judged(self) -> str:
        """Verdict: "agree", "differ", or "not shown" if the storage varies too much."""
        if max(self.high / self.ratio, self.ratio / self.low) - 1 > MOST_NOISE:
            return "not shown"
        near = abs(self.ratio - 1) <= self.noise
        return "agree" if near or self.low <= 1 <= self.high else "differ"

    def __str__(self) -> str:
        """Return the complete text."""
        interval = f"[{self.low:.4f}, {self.high:.4f}]"
        return (
            f"{self.ratio:.4f} {interval}, noise floor {self.noise:.2%}, {self.blocks} blocks: {self.judged}"
        )


def agreement(blocks: Sequence[Block]) -> Agreement:
    """Compare the programs over at least four blocks."""
    ratio, interval = ratio_of_pairs(np.array([one.ratio for one in blocks]))
    _, scatter = ratio_of_pairs(np.array([one.scatter for one in blocks]))
    if interval is None or scatter is None:
        raise ValueError("so few blocks show nothing of the noise: run at least four")
    noise = math.sqrt(scatter.high / scatter.low) - 1
    return Agreement(len(blocks), ratio, interval.low, interval.high, noise)
