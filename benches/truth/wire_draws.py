"""Check that random draws of emulated links are independent and unbiased, and that intervals contain the truth.

Usage: python -m benches.truth.wire_draws [draws] [first] [virtual] [running]; without words all four. `running` needs
root. The exit status is 1 if a check fails.

draws    all pairs of link, direction, stage and block: correlation of 10^5 draws, at most 4 / sqrt(10^5) each; the
         draws are computed here by the published SplitMix64, from the seeds that the agent's code gives each stage
first    frames 1, 2 and 3 over 10^4 seeds of an experiment: as often lost as the ratio says (binomial, p >= 0.001)
virtual  1000 experiments of 4 blocks in virtual time: their intervals contain the set loss, and the set delay under
         jitter, in 93 to 97 %
running  200 links, 4 blocks each, frames over running wires one after the other: 91 % or more
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import ROOT, output
from numpy.typing import NDArray
from scipy import stats

from iolab.agent.answers import counted_since
from iolab.agent.client import Agent
from iolab.agent.messages import Json, WireCounts
from iolab.analysis.intervals import interval_of_mean
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.instruments.wires import draw_seed

DRAWS = 100_000
STEP = np.uint64(0x9E3779B97F4A7C15)
CHANCES: tuple[Json, ...] = (
    {"kind": "loss", "frames_per_billion": 20_000_000},
    {"kind": "loss_bursts", "to_bad_per_billion": 10_000_000, "to_good_per_billion": 250_000_000,
     "lost_in_bad_per_billion": 900_000_000, "lost_in_good_per_billion": 0},
    {"kind": "corrupt", "frames_per_billion": 1_000_000},
    {"kind": "duplicate", "frames_per_billion": 1_000_000},
    {"kind": "delay", "delay_ns": 10_000_000, "jitter": {"kind": "normal", "deviation_ns": 1_000_000},
     "overtaking": True},
    {"kind": "reorder", "frames_per_billion": 10_000_000, "by_ns": 1_000_000},
)  # fmt: skip
LINKS, BLOCKS = ("west", "east"), 4
LOSS, JITTER = CHANCES[:1], CHANCES[4:5]


def told(held: bool, said: str) -> bool:
    """Print a result, and return whether it is within its limits."""
    print(f"{'ok  ' if held else 'FAIL'} {said}", flush=True)
    return held


def through(asked: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return the agent's decisions in virtual time, for each request."""
    manifest = ("--manifest-path", str(ROOT / "Cargo.toml"))
    argv = ("cargo", "run", *manifest, "-q", "--release", "-p", "iolab-traffic", "--example", "virtual_wire")
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    return [json.loads(line) for line in output(*argv, text=lines).splitlines()]


def request(
    chances: Sequence[Json], seed: int, way: int, frames: int, every_ns: int = 20_000_000
) -> dict[str, Json]:
    """Return the request for the stages of one direction."""
    return {"impairments": list(chances), "seed": seed, "way": way, "frames": frames, "every_ns": every_ns}


def split_mix(seed: int) -> NDArray[np.float64]:
    """Return the first numbers of SplitMix64 (Steele, Lea and Flood 2014), with mean 0 and deviation 1."""
    with np.errstate(over="ignore"):
        state = np.uint64(seed) + np.arange(1, DRAWS + 1, dtype=np.uint64) * STEP
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    unit = state.astype(np.float64) / 2.0**64 - 0.5
    return np.asarray((unit - unit.mean()) / unit.std())


def draws() -> bool:
    """Check all pairs of link, direction, stage and block."""
    asked = [
        request(CHANCES, draw_seed(1, block, link, 1), way, 0)
        for link in LINKS
        for block in range(1, BLOCKS + 1)
        for way in (0, 1)
    ]
    seeds = [seed for one in through(asked) for seed in one["stages"]]
    matrix = np.stack([split_mix(seed) for seed in seeds])
    correlations = np.abs(matrix @ matrix.T / DRAWS)
    np.fill_diagonal(correlations, 0)
    most, pairs = float(correlations.max()), len(seeds) * (len(seeds) - 1) // 2
    bound = 4 / math.sqrt(DRAWS)
    said = f"draws: {len(seeds)} streams, {pairs} pairs, |r| at most {most:.5f} (bound {bound:.5f})"
    return told(most <= bound and len(set(seeds)) == len(seeds), said)


def first() -> bool:
    """Check frames 1, 2 and 3 over 10^4 seeds: counts of n frames minus those of n - 1."""
    seeds = [draw_seed(seed, 1, "path", 1) for seed in range(1, 10_001)]
    lost = [
        np.array([one["lost_frames"] for one in through([request(LOSS, seed, 0, frames) for seed in seeds])])
        for frames in (0, 1, 2, 3)
    ]
    counts = [int((after - before).sum()) for before, after in pairwise(lost)]
    ps = [float(stats.binomtest(count, len(seeds), 0.02).pvalue) for count in counts]
    said = f"first: lost of 10000 at 2 %: {counts}, p {', '.join(f'{p:.3f}' for p in ps)} (least 0.001)"
    return told(min(ps) >= 0.001, said)


def covered(samples: Sequence[Sequence[float]], truth: float) -> float:
    """Return the share of experiments whose interval over their blocks contains the truth."""
    found = [interval_of_mean(np.array(one, dtype=np.float64)) for one in samples]
    return sum(one is not None and one.low <= truth <= one.high for one in found) / len(found)


def blocks_of(chances: Sequence[Json], frames: int, experiments: int) -> Iterator[list[dict[str, Json]]]:
    """Yield the results of each experiment's blocks."""
    numbers = range(1, BLOCKS + 1)
    asked = [
        request(chances, draw_seed(seed, block, "path", 1), 0, frames)
        for seed in range(1, experiments + 1)
        for block in numbers
    ]
    done = through(asked)
    for begin in range(0, len(done), BLOCKS):
        yield done[begin : begin + BLOCKS]


def in_virtual_time() -> bool:
    """Check loss and delay over 1000 experiments."""
    lost = [[one["lost_frames"] / 5000 for one in own] for own in blocks_of(LOSS, 5000, 1000)]
    stayed = [[one["stay_mean_ns"] for one in own] for own in blocks_of(JITTER, 1000, 1000)]
    shares = {"loss": covered(lost, 0.02), "delay": covered(stayed, 10e6)}
    held = all(0.93 <= share <= 0.97 for share in shares.values())
    return told(held, f"virtual: 1000 experiments cover {shares} (93 to 97 %)")


def running(experiments: int = 200, frames: int = 2000) -> bool:
    """Check the loss of running emulated links, whose taps are in one namespace."""
    with open_agent() as agent:
        lost = list(on_wires(agent, experiments, frames))
    share = covered(lost, 0.02)
    return told(share >= 0.91, f"running: {experiments} links of 4 blocks cover {share:.1%} (least 91 %)")


def on_wires(agent: Agent, experiments: int, frames: int) -> Iterator[list[float]]:
    """Yield the loss of each block of a link, one link after the other."""
    netns = "iolab-draws"
    agent.call("netns.create", {"name": netns})
    try:
        for number in range(experiments):
            link = f"l{number}"
            ends = [{"netns": netns, "interface": f"t{side}"} for side in (0, 1)]
            agent.call("wire.start", {"id": link, "ends": ends, "super_frames": False})
            way = {"impairments": list(LOSS), "seed": 1, "memory_bytes": 1 << 26}
            agent.call("wire.change", {"id": link, "ways": [way, way]})
            for end in ends:
                agent.run(
                    ("ip", "link", "set", "dev", end["interface"], "txqueuelen", "16384", "up"), netns=netns
                )
            yield [block_of(agent, netns, link, block, frames) for block in range(1, BLOCKS + 1)]
            agent.call("wire.stop", {"id": link})
    finally:
        agent.call("netns.delete", {"name": netns})


def block_of(agent: Agent, netns: str, link: str, block: int, frames: int) -> float:
    """Return the loss ratio of one block of an emulated link."""
    seed = draw_seed(1, block, link, 1)
    agent.call("wire.restart_draws", {"id": link, "seeds": [seed, seed]})
    before = agent.ask(WireCounts, "wire.read", {"id": link}).ways[0]
    sender = (
        "import socket,sys;s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW);s.bind(('t0',0x88b5));"
        f"[s.send(b'\\x02'*12+b'\\x88\\xb5'+bytes(50)) for _ in range({frames})]"
    )
    done = agent.run((sys.executable, "-c", sender), netns=netns)
    if not done.succeeded:
        raise RuntimeError(done.complaint)
    while (
        way := counted_since(before, agent.ask(WireCounts, "wire.read", {"id": link}).ways[0])
    ).arrived_frames < frames:
        pass
    return sum(stage.lost_frames for stage in way.stages) / way.arrived_frames


CHECKS = {"draws": draws, "first": first, "virtual": in_virtual_time, "running": running}
ARGUMENTS = (Argument("check", tuple(CHECKS), "what is checked", allowed=tuple(CHECKS), several=True),)


def main() -> int:
    """Run the requested checks."""
    held = [CHECKS[word]() for word in arguments(__doc__, *ARGUMENTS).check]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
