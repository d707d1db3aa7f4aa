"""How often 95 % intervals hold the truth, and how often nothing is shown as something, noise by noise.

Usage: python -m benches.truth.coverage [SETS [EXPERIMENTS [NOISE [BLOCKS]]]]; 10 000 and 10 000 A/A data sets per noise
and number of blocks take some minutes each on one CPU. No network and no clock. The figures are those of
docs/method/statistics.md.
"""

import sys

import numpy as np

from iolab.analysis.simulated import CELLS, NOISES, experiments, means, ratios

BLOCKS = (3, 5, 10, 30)
SEED = 20110903


def main() -> None:
    """Print the table."""
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    whole = int(sys.argv[2]) if len(sys.argv) > 2 else sets
    print(f"{sets} data sets of two cells, {whole} experiments of {CELLS} cells; all figures in %")
    print(
        "| noise | n | mean | level | ratio | effects | false ratio | false effect | false finding | contradictions |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    noises = [noise for noise in NOISES if noise in (sys.argv[3:4] or NOISES)]
    for noise in noises:
        for blocks in map(int, sys.argv[4:5] or BLOCKS):
            random = np.random.default_rng(SEED)
            one, ratio = means(noise, blocks, sets, random), ratios(noise, blocks, sets, random)
            many = experiments(noise, blocks, whole, random)
            shares = (
                one.of_mean, one.of_level, ratio, many.effects_hold, many.ratios_false, many.effects_false,
                many.findings_false, many.contradictions,
            )  # fmt: skip
            written = " | ".join("-" if np.isnan(share) else f"{100 * share:.1f}" for share in shares)
            print(f"| {noise} | {blocks} | {written} |", flush=True)


if __name__ == "__main__":
    main()
