"""Measure how often 95 % intervals contain the truth, and how often A/A data show a difference, noise by noise.

Usage: python -m benches.truth.coverage [SETS [EXPERIMENTS [NOISE [BLOCKS]]]]; 10 000 and 10 000 A/A data sets per noise
and number of blocks take some minutes each on one CPU. No network and no clock. The figures are those of
docs/method/statistics.md.
"""

import numpy as np
from benches.harness.arguments import Argument, arguments
from benches.harness.table import Table

from iolab.analysis.simulated import CELLS, NOISES, experiments, means, ratios

BLOCKS = (3, 5, 10, 30)
ARGUMENTS = (
    Argument("sets", 10_000, "data sets of each noise and number of blocks"),
    Argument("experiments", None, "A/A experiments of each; absent: as many", int),
    Argument("noise", None, "the only noise", allowed=tuple(NOISES)),
    Argument("blocks", None, "the only number of blocks", int),
)
SEED = 20110903


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__, *ARGUMENTS)
    sets, whole = asked.sets, asked.sets if asked.experiments is None else asked.experiments
    print(f"{sets} data sets of two cells, {whole} experiments of {CELLS} cells; all figures in %")
    falsities = ("false ratio", "false effect", "false finding", "contradictions")
    table = Table("<noise", "n", "mean", "level", "ratio", "effects", *falsities)
    for noise in [asked.noise] if asked.noise else NOISES:
        for blocks in [asked.blocks] if asked.blocks else BLOCKS:
            random = np.random.default_rng(SEED)
            one, ratio = means(noise, blocks, sets, random), ratios(noise, blocks, sets, random)
            many = experiments(noise, blocks, whole, random)
            shares = (
                one.of_mean, one.of_level, ratio, many.effects_hold, many.ratios_false, many.effects_false,
                many.findings_false, many.contradictions,
            )  # fmt: skip
            table.row(noise, blocks, *("-" if np.isnan(share) else f"{100 * share:.1f}" for share in shares))


if __name__ == "__main__":
    main()
