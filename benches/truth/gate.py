"""Simulate gates under seven kinds of noise: false alarms, power, pairs, false "equivalent", and the cost of suspects.

Usage: python -m benches.truth.gate [GATES [POWER [SERIES]]]; 6000, 2000 and 300 repetitions per noise take minutes on
one CPU. No network and no clock. The simulation uses the code of iolab.analysis.sequential. Unit: per cent of the base;
sd is the robust standard deviation of one run. The figures are those of docs/method/gate.md.
"""

import math
from collections.abc import Callable

import numpy as np
from benches.harness.arguments import Argument, arguments
from benches.harness.table import Table
from numpy.typing import NDArray

from iolab.analysis import sequential
from iolab.analysis.sequential import Rule

Floats = NDArray[np.float64]
ARGUMENTS = (
    Argument("gates", 6000, "gates without a change, per noise"),
    Argument("power", 2000, "gates with a step, per noise"),
    Argument("series", 300, "histories of 120 runs, per noise"),
)
SEED = 20261127
MODE_GAP = 4.0
"""Distance of the two modes [sd within a mode]."""
T2_SD = 1.2105
"""Robust sd of Student's t with 2 degrees of freedom."""
EPOCH_RUNS = 25
RUNS, STEP_AT, STEP_RUNS = 120, 80, 5
"""Number of runs of a history, the first run with the step, and the number of runs within which the step must be
suspected and confirmed."""


def normal(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return normal noise."""
    return random.normal(size=shape)


def outliers(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return normal noise; 5 % of the runs are lower by another 5 to 30."""
    return random.normal(size=shape) - (random.random(shape) < 0.05) * random.uniform(5, 30, shape)


def modes(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return two modes, equally frequent, with normal noise within each."""
    return random.normal(size=shape) + MODE_GAP * (random.random(shape) < 0.5)


def modes3(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return means of three measurements that share the mode of their run."""
    return random.normal(size=shape) / math.sqrt(3) + MODE_GAP * (random.random(shape) < 0.5)


def host_levels(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return host levels with sd 2 that change every 25 runs on average; the last axis is time."""
    changes = random.random(shape) < 1 / EPOCH_RUNS
    latest = np.maximum.accumulate(np.where(changes, np.arange(shape[-1]), 0), axis=-1)
    return np.take_along_axis(random.normal(0, 2, shape), latest, axis=-1)


def epochs(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return normal noise on a changing host level, which may change within a pair."""
    return host_levels(shape, random) + random.normal(size=shape)


def correlated(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return normal noise with correlation 0.5 between consecutive values."""
    noise = random.normal(size=shape)
    for at in range(1, shape[-1]):
        noise[..., at] = 0.5 * noise[..., at - 1] + math.sqrt(0.75) * noise[..., at]
    return noise


def t2(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Return Student's t with 2 degrees of freedom, robust sd 1."""
    return random.standard_t(2, shape) / T2_SD


NOISES: dict[str, tuple[Callable[[tuple[int, ...], np.random.Generator], Floats], float]] = {
    "normal": (normal, 1.0),
    "outliers": (outliers, 1.0),
    "modes": (modes, 2.97),
    "modes3": (modes3, 2.96),
    "epochs": (epochs, 1.0),
    "correlated": (correlated, 1.0),
    "t2": (t2, 1.0),
}
"""Name of the noise to its generator and the robust sd of one run."""


def pairs(noise: str, gates: int, step: float, random: np.random.Generator, count: int) -> Floats:
    """Return log ratios of interleaved pairs in the order of a fair coin; shape (gate, pair)."""
    make, _ = NOISES[noise]
    coin = random.choice((-1.0, 1.0), (gates, count))
    if noise == "correlated":  # between pairs: the difference of second and first run
        difference = math.sqrt(2) * make((gates, count), random)
    else:
        runs = make((gates, 2 * count), random)
        difference = runs[:, 1::2] - runs[:, ::2]
    return (coin * difference + step) / 100


def first(reached: NDArray[np.bool_]) -> Floats:
    """Return the first pair, from 1, at which a condition is true; infinite if there is none. Shape (gate,)."""
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)


def outcomes(values: Floats, rule: Rule) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats]:
    """Return whether each gate of one cell ends as changed, as equivalent, and after which pair."""
    changed = first(sequential.change_evidence(values, rule) >= -math.log(rule.alpha))
    equivalent = first(sequential.equivalent_after(values, rule))
    futile = first(sequential.futile_after(values, rule))
    end = np.minimum.reduce([changed, equivalent, futile, np.full(len(values), float(rule.max_pairs))])
    return changed <= end, (equivalent <= end) & (equivalent < changed), end


def upper_bound(found: int, total: int) -> float:
    """Return the upper end of the one-sided 95 % Clopper-Pearson interval of a proportion."""
    from scipy.stats import beta

    return float(beta.ppf(0.95, found + 1, total - found)) if found < total else 1.0


def histories(
    noise: str, count: int, step: float, random: np.random.Generator, rule: Rule
) -> tuple[float, float, float]:
    """Return triggers per 100 runs without a change, extra pairs per run, and the share of detected steps.

    Every suspect is tested by a gate on fresh pairs; the median of its fresh runs is the new reference level. A step
    counts if a suspect of the first `STEP_RUNS` runs with it is confirmed as changed.
    """
    make, _ = NOISES[noise]
    triggers = hits = 0
    spent = 0.0
    for _ in range(count):
        host = host_levels((RUNS,), random) if noise == "epochs" else np.zeros(RUNS)
        quiet = (normal if noise == "epochs" else make)((RUNS,), random) + host

        def gate(at: int, size: float, host: Floats = host) -> tuple[bool, float, float | None]:
            changed, _, end = outcomes(pairs(noise, 1, size, random, rule.max_pairs), rule)
            fresh = (normal if noise == "epochs" else make)((max(1, int(end[0])),), random) + host[at]
            return bool(changed[0]), float(end[0]), None if changed[0] else float(np.median(fresh))

        ends: list[float] = []

        def without(at: int, ends: list[float] = ends) -> float | None:
            _, end, level = gate(at, 0.0)
            ends.append(end)
            return level

        triggers += len(sequential.suspects(quiet, without))
        spent += sum(ends)
        confirmed: list[int] = []

        def with_step(at: int, confirmed: list[int] = confirmed) -> float | None:
            changed, _, level = gate(at, step if at >= STEP_AT else 0.0)
            if changed and STEP_AT <= at < STEP_AT + STEP_RUNS:
                confirmed.append(at)
            return level

        sequential.suspects(quiet + step * (np.arange(RUNS) >= STEP_AT), with_step)
        hits += bool(confirmed)
    judged = count * (RUNS - sequential.REFERENCE_RUNS - sequential.LATEST_RUNS)
    return 100 * triggers / judged, spent / judged, hits / count


def main() -> None:
    """Print the tables."""
    asked = arguments(__doc__, *ARGUMENTS)
    rule = Rule()
    margin = 100 * rule.margin
    print(
        f"margin {margin:g} %, at most {rule.max_pairs} pairs; {asked.gates} null gates, {asked.power} with a step"
    )
    table = Table(
        "<noise", "step [%]", "found [%]", "mean", "p95 pairs", "false changed", "no change: pairs", "equivalent [%]",
        "false equivalent [%]",
    )  # fmt: skip
    alarms = gates = 0
    for noise, (_, sd) in NOISES.items():
        random = np.random.default_rng(SEED)
        null = outcomes(pairs(noise, asked.gates, 0.0, random, rule.max_pairs), rule)
        null_changed, null_equal, null_end = null
        step = margin / 4 + 2.5 * sd
        found, _, end = outcomes(pairs(noise, asked.power, step, random, rule.max_pairs), rule)
        _, equal, _ = outcomes(pairs(noise, asked.power, 100 * rule.outer, random, rule.max_pairs), rule)
        alarms, gates = alarms + int(null_changed.sum()), gates + asked.gates
        p95 = np.quantile(np.where(found, end, np.inf), 0.95, method="higher")
        table.row(
            noise, f"{step:.2f}", f"{100 * found.mean():.1f}", f"{end.mean():.1f}", f"{p95:.0f}",
            int(null_changed.sum()), f"{null_end.mean():.1f}", f"{100 * null_equal.mean():.1f}",
            f"{100 * equal.mean():.1f}",
        )  # fmt: skip
    print(
        f"false alarms: {alarms} of {gates}; upper 95 % bound {100 * upper_bound(alarms, gates):.3f} per 100 gates"
    )
    print(f"\n{asked.series} histories of {RUNS} runs; a step of 3 sd")
    table = Table("<noise", "triggers per 100 runs", "extra pairs per run", "step found within 5 runs [%]")
    for noise, (_, sd) in NOISES.items():
        triggers, spent, hits = histories(noise, asked.series, 3 * sd, np.random.default_rng(SEED), rule)
        table.row(noise, f"{triggers:.1f}", f"{spent:.2f}", f"{100 * hits:.1f}")


if __name__ == "__main__":
    main()
