"""Measure reference devices of known capacity, loss and delay on real interfaces.

Usage: python -m benches.truth.devices [capacity|loss|delay ...]; all take about four minutes. Needs root and two CPUs.
Capacity: a token bucket, measured by each search, with a goal of 1e-4 and a width of 0.4 %. The bucket holds the frames
of 1 ms, at least 32, so that a sender that was late by less than that and catches up does not overflow it. A trial
forwards the frames of the bucket in addition to the rate: trials of bisect and mlr are so long that these frames are
0.2 % of the rate, and fast corrects for them. On a host with interference, the kernel stops every real-time thread that
uses a whole CPU for 50 ms of each second, so all trials are perturbed. Loss: each frame is dropped at random, and the
loss is compared with the 99 % interval of as many draws. Delay: the median with the delay minus the median of the same
device without a rule, and the median itself.
"""

from collections.abc import Iterator, Mapping
from math import sqrt

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import THROUGH, load_bench

from iolab.agent.client import Agent
from iolab.results.packets import LoadRecord
from iolab.results.search import Goal
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.counters.drops import RULE
from iolab.trial.packets.forwarding import search
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.fast import Fast
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.types import LoadTrial, Strategy
from iolab.units import NS_PER_S

LOSS_RATIO, WIDTH = 1e-4, 0.004
RATES_FPS = (20_000, 100_000, 300_000)
LEAST_BURST_FRAMES, BURST_S = 32, 1e-3
HIGHEST_FPS = 500_000.0
LOST_RATIO, LOST_OF_FRAMES, LOSING_FPS = 1e-3, 1_000_000, 100_000
DELAYS = {"200us": 200_000, "1ms": 1_000_000, "5ms": 5_000_000}
DELAYED_FPS = 10_000
Z_99 = 2.5758
"""Half width of a 99 % interval, in standard deviations."""


def experiment(device: str) -> str:
    """Return an experiment with a device between the ports."""
    measure = "kind: latency, rate: 1kpps"
    return THROUGH.replace("DEVICE", device).replace("MEASURE", measure)


def burst_frames(rate_fps: int) -> int:
    """Return the bucket size of a rate [frames]."""
    return max(LEAST_BURST_FRAMES, round(rate_fps * BURST_S))


def strategies(rate_fps: int) -> Mapping[str, Strategy]:
    """Return the searches, all with the same goal."""
    trial_ns = round(burst_frames(rate_fps) / 0.002 / rate_fps * NS_PER_S)
    goal = Goal(
        loss_ratio=LOSS_RATIO,
        relative_width=WIDTH,
        min_fps=1000.0,
        max_fps=HIGHEST_FPS,
        trial_ns=trial_ns,
        limit_ns=90 * NS_PER_S,
    )
    return {"bisect": Bisect(goal, searches=1), "mlr": Mlr(goal=goal), "fast": Fast(goal)}


def capacities(agent: Agent) -> Iterator[str]:
    """Yield the result of each search for each token bucket."""
    for rate_fps in RATES_FPS:
        device = experiment(f"{{rate: {rate_fps}pps, burst: {burst_frames(rate_fps)}}}")
        for name, strategy in strategies(rate_fps).items():
            with load_bench(agent, device) as bench:
                records, found = search(bench, strategy)
            robust_fps = found.robust_fps or 0.0
            error = robust_fps / (rate_fps / (1 - LOSS_RATIO)) - 1
            open_sheets = sum(record.unexplained_frames != 0 for record in records)
            yield (
                f"{rate_fps:>9} frames/s {name:7} found {robust_fps:>9.0f} ({error:+.3%})  "
                f"{len(records):3} trials, {found.perturbed_trials} perturbed, {found.spent_ns / NS_PER_S:5.1f} s, "
                f"{open_sheets} sheets open, {found.reason}"
            )


def losses(agent: Agent) -> Iterator[str]:
    """Yield the measured loss of a device with random loss."""
    with load_bench(agent, experiment(f"{{loss: {LOST_RATIO}, seed: 7}}")) as bench:
        record = run(bench, LOSING_FPS, LOST_OF_FRAMES / LOSING_FPS)
    sheet = record.balances[0]
    ruled = sum(drop.frames for drop in sheet.drops if drop.reason == RULE)
    offered = record.result.offered_frames
    half = Z_99 * sqrt(LOST_RATIO * (1 - LOST_RATIO) / offered)
    measured = ruled / offered
    inside = "within" if abs(measured - LOST_RATIO) <= half else "outside"
    yield (
        f"loss of {LOST_RATIO:g}: {ruled} of {offered} frames, {measured:.6f}, {inside} {LOST_RATIO:g} +- {half:.6f} "
        f"(99 %); all that was lost: {record.result.lost_frames}, unexplained {sheet.unexplained_frames}"
    )


def delays(agent: Agent) -> Iterator[str]:
    """Yield the median latencies of devices with a delay, and of a device without a delay."""
    own_ns = median_ns(agent, "{delay: 1ns}")
    yield f"the forwarder itself: median {own_ns / 1e3:.1f} us"
    for text, delay_ns in DELAYS.items():
        seen_ns = median_ns(agent, f"{{delay: {text}}}")
        error_us, added_us = (seen_ns - delay_ns) / 1e3, (seen_ns - own_ns - delay_ns) / 1e3
        beyond = f"{error_us:+.1f} us, less the forwarder's own {added_us:+.1f} us"
        yield f"delay of {text}: median {seen_ns / 1e3:.1f} us: {beyond}"


def median_ns(agent: Agent, device: str) -> float:
    """Return the median latency through a device [ns]."""
    with load_bench(agent, experiment(device)) as bench:
        run(bench, DELAYED_FPS, 2.0)
        histogram = bench.answers[-1]["receivers"][0]["latency_ns"]
    left = histogram["count"] / 2
    for low, count in histogram["buckets"]:  # a bucket is up to 1/128 wide: 8 us at 1 ms
        if count >= left:
            return float(low + (1 << max(0, low.bit_length() - 8)) * left / count)
        left -= count
    raise RuntimeError("no frame arrived")


def run(bench: LoadBench, fps: float, seconds: float) -> LoadRecord:
    """Run one trial."""
    return bench.run(LoadTrial(intended_fps=fps, duration_ns=round(seconds * NS_PER_S)), "bench")


PARTS = {"capacity": capacities, "loss": losses, "delay": delays}
ARGUMENTS = (
    Argument("what", tuple(PARTS), "what is known of the devices", allowed=tuple(PARTS), several=True),
)


def main() -> None:
    """Print a line for each device and method."""
    wanted = arguments(__doc__, *ARGUMENTS).what
    with open_agent() as agent:
        for name in wanted:
            for line in PARTS[name](agent):
                print(line, flush=True)


if __name__ == "__main__":
    main()
