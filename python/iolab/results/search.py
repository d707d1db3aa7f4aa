"""What a search for a rate was asked, what each load gave it, and what it found. Sums are over directions."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.messages.evidence import Disturbance
from iolab.messages.searches import SearchEnd
from iolab.messages.statement import Name
from iolab.units import NS_PER_S

TAKEN_UP_RATIO = 1e-3
"""Share of a trial's frames that a queue may take up without being looked at: a tenth of the usual width."""

EXCUSED_RATIO = 0.1
"""Part of a schedule that stalls of the host may take without its rate being another: a device that rests for longer
fills up its credit and empties its queue. A kernel keeps 5 % of each second from real-time threads."""


@dataclass(frozen=True, slots=True)
class Steady:
    """What came out while the device was at its limit; sums over directions."""

    share_ratio: float
    """That time, per duration of the trial."""
    offered_frames: int
    """Frames sent in it."""
    forwarded_frames: int
    """Frames that came out in it."""

    @property
    def loss_ratio(self) -> float:
        """Return what was lost or kept back, per frame offered; never negative."""
        if not self.offered_frames:
            return 0.0
        return max(0.0, 1.0 - self.forwarded_frames / self.offered_frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What happened in one trial at one load. Counts are sums over the directions that were sent at once."""

    intended_fps: float
    """The rate that was asked for, exactly as in the LoadTrial [frames/s]."""
    duration_ns: int
    """The duration that was asked for, exactly as in the LoadTrial [ns]."""
    intended_frames: int
    """Frames that the schedule had."""
    offered_frames: int
    """Frames that the interface accepted."""
    forwarded_frames: int
    """Frames that came out, counted when the counters stood still."""
    perturbations: tuple[Disturbance, ...] = ()
    """What disturbed the host meanwhile, from the stall log; nothing: a calm trial."""
    overhead_ns: int = 0
    """Time that the trial took beyond its duration [ns]."""
    held_ns: int | None = 0
    """For how long the stall log shows threads of the instrument held up, added up, short stalls included [ns]; None:
    an old record does not say. The same holds for the next ones."""
    calm_frames: int | None = 0
    """Frames offered while none of them was held up, nor had just been, in the part of the trial at the device's limit
    if it reached that."""
    calm_lost_frames: int | None = 0
    """Of these, lost."""
    excused_frames: int | None = 0
    """Of the unsent frames, those due while the host held the sender up: they are not the generator's limit."""
    steady: Steady | None = None
    """The part of the trial in which the device was at its limit; None: it was not seen there, or nobody looked."""
    late_frames: int | None = 0
    """Frames that came out when the trial's time was over: a queue had held them."""

    @property
    def perturbed(self) -> bool:
        """Whether the host was disturbed meanwhile."""
        return bool(self.perturbations)

    @property
    def lost_frames(self) -> int:
        """Frames offered and not forwarded; never negative: a frame counted twice is no gain."""
        return max(0, self.offered_frames - self.forwarded_frames)

    @property
    def unsent_frames(self) -> int:
        """Frames of the schedule that the interface never accepted."""
        return max(0, self.intended_frames - self.offered_frames)

    @property
    def loss_ratio(self) -> float:
        """Lost frames per offered frame; 1 when nothing could be offered."""
        return self.lost_frames / self.offered_frames if self.offered_frames else 1.0

    @property
    def unsent_ratio(self) -> float:
        """Unsent frames per intended frame."""
        return self.unsent_frames / self.intended_frames if self.intended_frames else 0.0

    @property
    def short_ratio(self) -> float:
        """Unsent frames per intended frame that no stall of the host excuses: all of them where there are many."""
        if self.unsent_ratio > EXCUSED_RATIO:
            return self.unsent_ratio
        own_frames = max(0, self.unsent_frames - (self.excused_frames or 0))
        return own_frames / self.intended_frames if self.intended_frames else 0.0

    @property
    def offered_fps(self) -> float:
        """Rate that the device really saw [frames/s]: the intended rate less what was not sent."""
        return self.intended_fps * (1.0 - self.unsent_ratio)

    @property
    def forwarded_fps(self) -> float:
        """Rate that came out [frames/s]."""
        return self.offered_fps * (1.0 - self.loss_ratio)

    @property
    def sustained_loss_ratio(self) -> float:
        """Loss as it would go on without end: what a queue or a burst took up is no part of it."""
        if self.steady is None or self.steady.loss_ratio <= self.loss_ratio + TAKEN_UP_RATIO:
            return self.loss_ratio
        return self.steady.loss_ratio

    @property
    def at_limit(self) -> bool:
        """Whether the trial shows at what rate the device forwards at its limit."""
        return self.steady is not None and self.steady.share_ratio > 0 and self.intended_frames > 0

    @property
    def began_late(self) -> bool:
        """Whether the device reached its limit so late that only a longer trial can tell at what rate it forwards."""
        return self.steady is not None and not self.steady.share_ratio

    @property
    def sustained_fps(self) -> float:
        """Rate that came out while the device was at its limit, of the whole trial where it was not [frames/s]."""
        if self.steady is None or not self.at_limit:
            return self.forwarded_fps
        whole = self.steady.forwarded_frames / self.steady.share_ratio
        return self.intended_fps * whole / self.intended_frames

    @property
    def burst_frames(self) -> float:
        """Frames per direction that came out in time beyond what the device can without end: a bucket's credit."""
        if self.steady is None or not self.at_limit:
            return 0.0
        whole = self.steady.forwarded_frames / self.steady.share_ratio
        beyond = max(0.0, self.forwarded_frames - (self.late_frames or 0) - whole)
        return beyond * self.intended_fps * self.duration_ns / NS_PER_S / self.intended_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is looked for: the highest load at which no more than `loss_ratio` is lost."""

    loss_ratio: float
    """Acceptable loss [ratio]; above 0 for `fast`, which needs 10/loss_ratio frames to decide."""
    relative_width: float
    """How far apart the bounds may stay, per upper bound [ratio]."""
    min_fps: float
    """Lowest load to try [frames/s]."""
    max_fps: float
    """Highest load to try: the line, or what the generator can do [frames/s]."""
    trial_ns: int = NS_PER_S
    """Duration of a trial of `bisect` and of a full trial of `mlr` [ns]; `fast` chooses its own."""
    reruns: int = 2
    """How often a trial that failed and was perturbed is run again before its result decides."""
    unsent_ratio: float = 1e-3
    """From which share of unsent frames on the generator is the limit, not the device [ratio]."""
    limit_ns: int = 600 * NS_PER_S
    """Time after which the search stops with what it has, trials and their overhead together [ns]."""

    def __post_init__(self) -> None:
        """Refuse goals that no search can reach."""
        wrong = [
            text
            for bad, text in (
                (not 0 <= self.loss_ratio < 1, f"loss_ratio {self.loss_ratio}: allowed are 0 up to below 1"),
                (
                    not 0 < self.relative_width < 1,
                    f"relative_width {self.relative_width}: allowed are values between 0 and 1",
                ),
                (
                    not 0 < self.min_fps < self.max_fps,
                    f"loads {self.min_fps} to {self.max_fps} frames/s: the lowest must be above 0, below the highest",
                ),
                (self.trial_ns <= 0, f"trial {self.trial_ns} ns: it must last"),
                (self.reruns < 0, f"reruns {self.reruns}: 0 or more are allowed"),
            )
            if bad
        ]
        if wrong:
            raise ValueError("the goal of a load search cannot be reached: " + "; ".join(wrong))


class StopReason(StrEnum):
    """Why a search stopped, or would go on."""

    NARROW = "narrow"
    """The goal's width is reached."""
    LINE = "line"
    """The highest load allowed was forwarded: the device can do more than can be asked."""
    GENERATOR = "generator"
    """The generator could not send more, and what it sent was forwarded."""
    NOTHING_PASSES = "nothing-passes"
    """The lowest load allowed loses too much."""
    TIME = "time"
    """The time limit was reached; the bounds are partial."""
    UNSTEADY = "unsteady"
    """No end in sight: the device behaves differently each time; the bounds are partial."""
    UNFINISHED = "unfinished"
    """More trials are wanted: the search was interrupted."""


REACHED = frozenset({StopReason.NARROW, StopReason.LINE, StopReason.GENERATOR, StopReason.NOTHING_PASSES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a list of results says about the goal; meaningful after any number of trials."""

    lower_fps: float | None
    """Highest load that met the goal, below every load that did not [frames/s]; None: none did."""
    upper_fps: float | None
    """Lowest load that did not meet the goal [frames/s]; None: none failed."""
    lower_trials: tuple[int, ...] = ()
    """The trials at `lower_fps`, as places in the list of results."""
    upper_trials: tuple[int, ...] = ()
    """The trials at `upper_fps`, as places in the list of results."""
    robust_fps: float | None
    """The rate: half of the undisturbed trials meet the goal there [frames/s]."""
    interval_fps: tuple[float, float] | None = None
    """Where the rate is with 95 % probability, by `method` [frames/s]."""
    method: Name
    """How `robust_fps` and `interval_fps` came about; a name of docs/method/search.md."""
    strict_fps: float | None
    """Highest load up to which every single trial, perturbed ones included, met the goal [frames/s]; never above both
    the rate and the lower bound."""
    searches_fps: tuple[float, ...] = ()
    """The rate by each whole search, when the strategy runs several [frames/s]."""
    trials: int
    """Trials that were run."""
    perturbed_trials: int
    """Trials among them that were perturbed."""
    conditional_fps: float | None = None
    """What came out at the lower bound, less than that load by its loss: MLRsearch's conditional throughput [frames/s];
    None: the strategy does not say."""
    sustained_fps: float | None = None
    """The rate at which the device forwards without end, seen at its limit [frames/s]; None: never seen there."""
    burst_frames: int | None = 0
    """Frames that it passed on beyond that in one trial, at most: a burst; None: an old record does not say."""
    queue_frames: int | None = 0
    """Frames that came out after the end of one trial, at most: a queue; None: an old record does not say."""
    taken_up: bool = False
    """A queue or a burst took up what is above the sustained rate, and no trial was long enough to show the rest."""
    disturbed_loads: int | None = 0
    """Loads whose trial was disturbed in every re-run as well: what the host explains of the loss did not count."""
    spent_ns: int
    """Time of all trials, overhead included [ns]."""
    reason: StopReason
    """Why the search stopped."""
    seen: SearchEnd
    """What shows it."""

    @property
    def rate_fps(self) -> float | None:
        """The sustained rate where a queue or a burst made the found one higher, else the found one [frames/s]."""
        return self.sustained_fps if self.taken_up and self.sustained_fps is not None else self.robust_fps

    @property
    def complete(self) -> bool:
        """Whether the goal was reached; otherwise the bounds are partial."""
        return self.reason in REACHED
