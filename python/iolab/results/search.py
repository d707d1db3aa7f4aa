"""The goal of a search for a rate, the result of each load, and the result of the search. Sums are over all
directions."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.locale import Phrase
from iolab.messages.evidence import Disturbance
from iolab.messages.searches import SearchEnd
from iolab.messages.statement import Name
from iolab.units import NS_PER_S

TAKEN_UP_RATIO = 1e-3
"""Ratio of a trial's frames that a queue may absorb without further analysis: a tenth of a search's default width."""

EXCUSED_RATIO = 0.1
"""Ratio of the schedule's time that host stalls may take without a change of the measured rate: during a longer pause,
a device refills its token bucket and drains its queue. A kernel withholds 5 % of each second from real-time threads."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The part of a trial in which the device was at its limit; sums over directions."""

    share_ratio: float
    """Duration of this part, as a ratio of the trial's duration."""
    offered_frames: int
    """Frames sent in this part."""
    forwarded_frames: int
    """Frames forwarded in this part."""

    @property
    def loss_ratio(self) -> float:
        """Return the ratio of the offered frames that were lost or delayed; never negative."""
        if not self.offered_frames:
            return 0.0
        return max(0.0, 1.0 - self.forwarded_frames / self.offered_frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of one trial at one load. Counts are sums over the directions, which send at the same time."""

    intended_fps: float
    """The intended rate, equal to that of the LoadTrial [frames/s]."""
    duration_ns: int
    """The intended duration, equal to that of the LoadTrial [ns]."""
    intended_frames: int
    """Number of frames in the schedule of the trial."""
    offered_frames: int
    """Number of frames that the interface accepted."""
    forwarded_frames: int
    """Number of frames that were forwarded, read when the counters no longer changed."""
    perturbations: tuple[Disturbance, ...] = ()
    """Disturbances of the host during the trial, from the stall log; empty: undisturbed."""
    overhead_ns: int = 0
    """Time that the trial took in addition to its duration [ns]."""
    held_ns: int | None = 0
    """Total stall time of the instrument's threads in the stall log, including short stalls [ns]; None, here and in the
    next fields: an old record without this value."""
    calm_frames: int | None = 0
    """Frames that were offered while no thread of the instrument was stalled or had recently been stalled. If the
    device reached its limit, only the part of the trial at the limit counts."""
    calm_lost_frames: int | None = 0
    """Number of the frames in `calm_frames` that were lost."""
    excused_frames: int | None = 0
    """Unsent frames that were due while the host stalled the sender; they do not show a limit of the generator."""
    steady: Steady | None = None
    """The part of the trial in which the device was at its limit; None: the device was not at its limit, or the trial
    was not analysed."""
    late_frames: int | None = 0
    """Frames that were forwarded after the end of the trial, because they were queued."""

    @property
    def perturbed(self) -> bool:
        """Whether the host was disturbed during the trial."""
        return bool(self.perturbations)

    @property
    def lost_frames(self) -> int:
        """Number of offered frames that were not forwarded; never negative, even if a frame is counted twice."""
        return max(0, self.offered_frames - self.forwarded_frames)

    @property
    def unsent_frames(self) -> int:
        """Frames in the schedule that the interface did not accept."""
        return max(0, self.intended_frames - self.offered_frames)

    @property
    def loss_ratio(self) -> float:
        """Ratio of lost frames to offered frames; 1 if no frame could be offered."""
        return self.lost_frames / self.offered_frames if self.offered_frames else 1.0

    @property
    def unsent_ratio(self) -> float:
        """Ratio of unsent frames to intended frames."""
        return self.unsent_frames / self.intended_frames if self.intended_frames else 0.0

    @property
    def short_ratio(self) -> float:
        """Ratio of unsent to intended frames; frames that host stalls excuse do not count, unless many frames are
        unsent."""
        if self.unsent_ratio > EXCUSED_RATIO:
            return self.unsent_ratio
        own_frames = max(0, self.unsent_frames - (self.excused_frames or 0))
        return own_frames / self.intended_frames if self.intended_frames else 0.0

    @property
    def offered_fps(self) -> float:
        """Offered load [frames/s]: the intended rate minus the unsent rate."""
        return self.intended_fps * (1.0 - self.unsent_ratio)

    @property
    def forwarded_fps(self) -> float:
        """Forwarding rate [frames/s]."""
        return self.offered_fps * (1.0 - self.loss_ratio)

    @property
    def sustained_loss_ratio(self) -> float:
        """Loss ratio at a sustained load: frames that a queue or a burst absorbed count as lost."""
        if self.steady is None or self.steady.loss_ratio <= self.loss_ratio + TAKEN_UP_RATIO:
            return self.loss_ratio
        return self.steady.loss_ratio

    @property
    def at_limit(self) -> bool:
        """Whether the trial shows the device's forwarding rate at the device's limit."""
        return self.steady is not None and self.steady.share_ratio > 0 and self.intended_frames > 0

    @property
    def began_late(self) -> bool:
        """Whether the device reached its limit so late that only a longer trial can show its sustained rate."""
        return self.steady is not None and not self.steady.share_ratio

    @property
    def sustained_fps(self) -> float:
        """Forwarding rate while the device was at its limit, or of the whole trial if the device was never at its limit
        [frames/s]."""
        if self.steady is None or not self.at_limit:
            return self.forwarded_fps
        whole = self.steady.forwarded_frames / self.steady.share_ratio
        return self.intended_fps * whole / self.intended_frames

    @property
    def burst_frames(self) -> float:
        """Frames per direction forwarded in excess of the sustained rate, by the end of the trial: a token bucket's
        credit."""
        if self.steady is None or not self.at_limit:
            return 0.0
        whole = self.steady.forwarded_frames / self.steady.share_ratio
        beyond = max(0.0, self.forwarded_frames - (self.late_frames or 0) - whole)
        return beyond * self.intended_fps * self.duration_ns / NS_PER_S / self.intended_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a search: the highest load with a loss ratio up to `loss_ratio`."""

    loss_ratio: float
    """Acceptable loss [ratio]; above 0 for `fast`, which needs 10/loss_ratio frames for a decision."""
    relative_width: float
    """Maximum distance between the bounds, as a ratio of the upper bound [ratio]."""
    min_fps: float
    """Minimum load [frames/s]."""
    max_fps: float
    """Maximum load: the line rate or the maximum rate of the generator [frames/s]."""
    trial_ns: int = NS_PER_S
    """Duration of a trial of `bisect` and of a full trial of `mlr` [ns]; `fast` selects the duration itself."""
    reruns: int = 2
    """Number of reruns of a failed and disturbed trial before its result is used."""
    unsent_ratio: float = 1e-3
    """Minimum ratio of unsent frames at which the generator is the limit, not the device [ratio]."""
    limit_ns: int = 600 * NS_PER_S
    """Time limit of the search, including the overhead of trials [ns]."""

    def __post_init__(self) -> None:
        """Reject goals that no search can reach."""
        wrong = [
            text
            for bad, text in (
                (
                    not 0 <= self.loss_ratio < 1,
                    Phrase("results.loss-ratio-of-goal", loss_ratio=self.loss_ratio),
                ),
                (
                    not 0 < self.relative_width < 1,
                    Phrase("results.width-of-goal", value=self.relative_width),
                ),
                (
                    not 0 < self.min_fps < self.max_fps,
                    Phrase("results.loads-of-goal", low=self.min_fps, high=self.max_fps),
                ),
                (self.trial_ns <= 0, Phrase("results.trial-of-goal", trial_ns=self.trial_ns)),
                (self.reruns < 0, Phrase("results.reruns-of-goal", count=self.reruns)),
            )
            if bad
        ]
        if wrong:
            raise ValueError(Phrase("results.goal-invalid", reasons=wrong))


class StopReason(StrEnum):
    """The reason why a search stopped, or that it was interrupted."""

    NARROW = "narrow"
    """The bounds are as close as the goal requires."""
    LINE = "line"
    """The device forwarded the maximum load, so its throughput may be higher."""
    GENERATOR = "generator"
    """The generator reached its maximum rate, and the device forwarded it."""
    NOTHING_PASSES = "nothing-passes"
    """The loss at the minimum load exceeds the goal."""
    TIME = "time"
    """The time limit was reached before the bounds were close enough."""
    UNSTEADY = "unsteady"
    """The search does not converge, because the device behaves differently each time; the bounds are still too far
    apart."""
    UNFINISHED = "unfinished"
    """The search was interrupted, and needs more trials."""


REACHED = frozenset({StopReason.NARROW, StopReason.LINE, StopReason.GENERATOR, StopReason.NOTHING_PASSES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The evaluation of a list of results against a goal; it can be computed after any number of trials."""

    lower_fps: float | None
    """Highest load that met the goal, below every load that did not [frames/s]; None: no load met the goal."""
    upper_fps: float | None
    """Lowest load that did not meet the goal [frames/s]; None: all loads met the goal."""
    lower_trials: tuple[int, ...] = ()
    """Trials at `lower_fps`, as indices in the list of results."""
    upper_trials: tuple[int, ...] = ()
    """Trials at `upper_fps`, as indices in the list of results."""
    robust_fps: float | None
    """Robust rate, at which half of the undisturbed trials meet the goal [frames/s]."""
    interval_fps: tuple[float, float] | None = None
    """95 % confidence interval of the rate, computed with `method` [frames/s]."""
    method: Name
    """Method that computed `robust_fps` and `interval_fps`, by its name in docs/method/search.md."""
    strict_fps: float | None
    """Strict rate: the highest load up to which every trial, including disturbed ones, met the goal [frames/s];
    never above the rate or the lower bound."""
    searches_fps: tuple[float, ...] = ()
    """Rate of each complete search, if the strategy runs several [frames/s]."""
    trials: int
    """Number of trials."""
    perturbed_trials: int
    """Number of disturbed trials."""
    conditional_fps: float | None = None
    """Forwarding rate at the lower bound, which is the load minus its loss: MLRsearch's conditional throughput
    [frames/s]; None: the strategy does not compute this rate."""
    sustained_fps: float | None = None
    """Sustained rate of the device, measured at its limit [frames/s]; None: the device never reached its limit."""
    burst_frames: int | None = 0
    """Largest burst in one trial: the number of frames above the sustained rate; None: an old record without this
    value."""
    queue_frames: int | None = 0
    """Longest queue at the end of one trial: the number of frames forwarded after the trial; None: an old record
    without this value."""
    taken_up: bool = False
    """Whether a queue or a burst absorbed the load above the sustained rate, and no trial was long enough to show
    its loss."""
    disturbed_loads: int | None = 0
    """Number of loads at which every trial was disturbed, including all reruns; loss that host stalls explain was
    ignored."""
    spent_ns: int
    """Duration of all trials, including overhead [ns]."""
    reason: StopReason
    """Reason why the search stopped."""
    seen: SearchEnd
    """Evidence for this reason."""

    @property
    def rate_fps(self) -> float | None:
        """The sustained rate if a queue or a burst raised the rate that was found; otherwise the found rate.

        The rate is in frames/s; None: the search found no rate.
        """
        return self.sustained_fps if self.taken_up and self.sustained_fps is not None else self.robust_fps

    @property
    def complete(self) -> bool:
        """Whether the goal was reached; otherwise the bounds are still too far apart."""
        return self.reason in REACHED
