"""Compare the gate with rules of other tools on the same simulated runs: false alarms and detected steps.

Usage: python -m benches.peers.gates [GATES]; 1000 repetitions per noise take a minute on one CPU. Each repetition has a
history of 40 runs of the base, one new run, and 40 interleaved pairs. The step is d/4 + 2.5 robust standard deviations
(sd) of a run. Rules:

- welch: Welch's t test at 5 % on 20 samples within one run of each side (sd within a run: 0.3), as in benchmark actions
- t, once: Student's t test at 5 % on 10 pairs; t, peeked: the same after each of 40 pairs
- bencher: the new run outside Bencher's t-test boundary 0.98 of the history (both sides)
- conbench: the new run more than 5 standard deviations from the mean of the history
- jumpavg: CSIT's grouping puts the new run apart, if the package jumpavg is installed
- gate: iolab's procedure

bencher, conbench and jumpavg do not measure the base again, so a new level of the host causes a false alarm in them. In
one of 25 repetitions, epochs give the new run a separate host level.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from benches.harness.arguments import Argument, arguments
from benches.harness.table import Table
from benches.truth import gate
from numpy.typing import NDArray
from scipy import stats

from iolab.analysis.sequential import Rule

Floats = NDArray[np.float64]
ARGUMENTS = (Argument("gates", 1000, "repetitions of each noise"),)
HISTORY, SAMPLES, WITHIN_SD = 40, 20, 0.3
FIXED_PAIRS = 10


def welch(base: Floats, new: Floats, random: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether Welch's t test on the samples within two runs rejects."""
    one, other = (run[:, None] + random.normal(0, WITHIN_SD, (len(run), SAMPLES)) for run in (base, new))
    return np.asarray(stats.ttest_ind(one, other, axis=1, equal_var=False).pvalue) < 0.05


def t_of_pairs(values: Floats, *, peeked: bool) -> NDArray[np.bool_]:
    """Return whether Student's t test rejects after the fixed number of pairs, or after any number from 3."""
    looks = range(3, values.shape[1] + 1) if peeked else (FIXED_PAIRS,)
    rejected = [np.asarray(stats.ttest_1samp(values[:, :look], 0.0, axis=1).pvalue) < 0.05 for look in looks]
    found: NDArray[np.bool_] = np.any(rejected, axis=0)
    return found


def bencher(history: Floats, new: Floats) -> NDArray[np.bool_]:
    """Return whether the new run is outside mean +- t(0.98, n - 1) sd of the history."""
    count = history.shape[1]
    limit = stats.t.ppf(0.98, count - 1) * history.std(axis=1, ddof=1)
    found: NDArray[np.bool_] = np.abs(new - history.mean(axis=1)) > limit
    return found


def conbench(history: Floats, new: Floats) -> NDArray[np.bool_]:
    """Return whether the z score of the new run exceeds 5."""
    found: NDArray[np.bool_] = np.abs(new - history.mean(axis=1)) > 5 * history.std(axis=1, ddof=1)
    return found


def jumpavg(history: Floats, new: Floats) -> NDArray[np.bool_]:
    """Return whether jumpavg puts the new run into a separate group."""
    classify = import_module("jumpavg").classify  # not a dependency

    groups = [classify([*(100 + row), 100 + last]).group_list for row, last in zip(history, new, strict=True)]
    return np.array([len(found[-1].run_list) == 1 and len(found) > 1 for found in groups])


def rejected(noise: str, count: int, step: float, random: np.random.Generator) -> Mapping[str, float]:
    """Return the share of repetitions in which each rule detects a change."""
    make, _ = gate.NOISES[noise]
    runs = make((count, HISTORY + 2), random)
    history, base, new = runs[:, :HISTORY], runs[:, HISTORY], runs[:, HISTORY + 1] + step
    values = gate.pairs(noise, count, step, random, Rule().max_pairs)
    rules: dict[str, Callable[[], NDArray[np.bool_]]] = {
        "welch": lambda: welch(base, new, random),
        "t, once": lambda: t_of_pairs(values, peeked=False),
        "t, peeked": lambda: t_of_pairs(values, peeked=True),
        "bencher": lambda: bencher(history, new),
        "conbench": lambda: conbench(history, new),
        "gate": lambda: gate.outcomes(values, Rule())[0],
    }
    if find_spec("jumpavg"):
        rules["jumpavg"] = lambda: jumpavg(history, new)
    return {name: float(rule().mean()) for name, rule in rules.items()}


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__, *ARGUMENTS)
    print(f"{asked.gates} repetitions per noise: false alarms / steps found [%]")
    table: Table | None = None
    for noise, (_, sd) in gate.NOISES.items():
        random = np.random.default_rng(gate.SEED)
        null = rejected(noise, asked.gates, 0.0, random)
        found = rejected(noise, asked.gates, 100 * Rule().margin / 4 + 2.5 * sd, random)
        table = table or Table("<noise", *null)
        table.row(noise, *(f"{100 * null[name]:.1f} / {100 * found[name]:.0f}" for name in null))


if __name__ == "__main__":
    main()
