"""How long a trial of `fast` lasts, and at which exact load. Called by fast, estimates and steps."""

import math

from iolab.results.search import Goal
from iolab.units import NS_PER_S

from .types import LoadTrial

EXPECTED_LOSSES = 10
"""Frames that may be lost in a trial that decides: with fewer, one stray frame would decide."""
SPARE = 1.0025
"""Loads are rounded to whole frames/s and a sender may slip a little: a trial must not miss a frame to decide."""
SHORTEST_S = 0.05
"""No trial is shorter: its start and end would weigh [s]."""
SCOUT_FRAMES = 5_000
"""Frames of a trial that only estimates: one more or less is a fiftieth of a percent."""
SCOUT_S = 0.3
"""From which duration on it is worth while to estimate in less than a deciding trial [s]."""
QUICK_S = 0.5
"""How long a trial may be that only uses up a burst: the load is as high as it takes [s]."""
LONGEST_S = 0.9
"""How long a trial may be that uses up a burst just above the rate: simulated with 2 and 4 s, searches of token buckets
of 5000 to 100 000 frames find the same rate, and take up to twice as long [s]."""


def deciding_frames(goal: Goal) -> int:
    """Return the frames that a trial needs to pass a load."""
    return math.ceil(EXPECTED_LOSSES / goal.loss_ratio)


def deciding_s(load_fps: float, goal: Goal) -> float:
    """Return how long a trial that can pass must be [s]."""
    return max(SHORTEST_S, SPARE * deciding_frames(goal) / load_fps)


def scout_s(load_fps: float, goal: Goal) -> float:
    """Return how long a trial that estimates must be [s]."""
    enough_s = SCOUT_FRAMES / load_fps
    return max(min(deciding_s(load_fps, goal), max(SCOUT_S, enough_s)), min(SCOUT_S, enough_s))


def overload_s(load_fps: float, rate_fps: float, burst_frames: float, goal: Goal) -> float:
    """Return how long an overload must last until a burst is used up, and the rest of it as long again [s]."""
    excess_fps = max(load_fps - rate_fps, goal.relative_width / 10 * rate_fps)
    wanted_s = 2 * burst_frames / excess_fps + 3 * EXPECTED_LOSSES / excess_fps
    longest_s = max(4 * deciding_s(load_fps, goal), LONGEST_S if burst_frames else 0.0)
    return min(max(scout_s(load_fps, goal), wanted_s), longest_s)


def quick_excess(rate_fps: float, burst_frames: float, goal: Goal) -> float:
    """Return the overload at which a burst is used up in half of a quick trial [per rate]."""
    quick_s = max(QUICK_S, scout_s(rate_fps, goal))
    return 2 * burst_frames / (quick_s * rate_fps)


def trial_at(load_fps: float, duration_s: float, goal: Goal) -> LoadTrial:
    """Return a trial within the loads allowed, of whole microseconds."""
    load = round_load(min(max(load_fps, goal.min_fps), goal.max_fps), goal)
    return LoadTrial(intended_fps=load, duration_ns=math.ceil(duration_s * 1e6) * (NS_PER_S // 1_000_000))


def round_load(load_fps: float, goal: Goal) -> float:
    """Return whole frames/s where that is fine enough; the ends of the loads allowed stay as they are."""
    whole = load_fps * goal.relative_width >= 100 and load_fps not in (goal.min_fps, goal.max_fps)
    return float(round(load_fps)) if whole else load_fps


def load_of(capacity_fps: float, goal: Goal) -> float:
    """Return the load at which a device of this capacity loses just what the goal allows [frames/s]."""
    return capacity_fps / (1 - goal.loss_ratio)
