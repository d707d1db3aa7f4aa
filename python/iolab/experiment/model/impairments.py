"""Impairments: effects of an emulated link or a reference device on frames.

The keys `wire` and `device` share one model.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.model.files import Moments, RateSteps, Samples
from iolab.experiment.model.quantities import (
    FROZEN,
    Count,
    Delay,
    Flag,
    LineRate,
    Maybe,
    Ratio,
    SomeBytes,
    SomeDelay,
)
from iolab.locale import Phrase, Text
from iolab.units import NS_PER_S

Stage = dict[str, object]
"""One stage of impairments, as sent to the agent."""

LONGEST_NS = {"delay": 10 * NS_PER_S, "jitter": 4 * NS_PER_S}
"""Maximum duration by key [ns]."""

LINES = ("rate", "rate_trace", "delivery_trace")
"""Keys that set the rate of the line."""

DELIVERY_BYTES = 1504
"""Bytes that may be sent at each time of a delivery trace, as in mahimahi."""

PER_BILLION = "frames_per_billion"

QUEUE_FRAMES = 1000
"""Default queue in front of a line with a bit rate: the kernel's default queue length (txqueuelen) [frames]."""

BURST_FRAMES = 256
"""Default burst of a line with a frame rate: the ring size of a veth pair [frames]."""


class Stall(BaseModel):
    """Stalls, during which no frame is forwarded; arriving frames wait in the queue if it has room."""

    model_config = FROZEN
    length: SomeDelay
    """Duration of a stall."""
    every: SomeDelay
    """Time from the start of a stall to the start of the next one."""


class LossBursts(BaseModel):
    """Burst loss: a good and a bad state with separate loss ratios (Gilbert-Elliott model)."""

    model_config = FROZEN
    to_bad: Ratio
    """Probability of a change from the good to the bad state before each frame."""
    to_good: Ratio
    """Probability of a change from the bad to the good state; the mean length of a bad period is 1 / to_good frames."""
    bad: Ratio = 1.0
    """Loss ratio in the bad state."""
    good: Ratio = 0.0
    """Loss ratio in the good state."""


class Reorder(BaseModel):
    """Reordering: random frames are delayed, so that other frames overtake them."""

    model_config = FROZEN
    ratio: Ratio
    """Probability that a frame is delayed."""
    by: SomeDelay
    """Delay of the reordered frames."""


class Codel(BaseModel):
    """CoDel queue management (RFC 8289)."""

    model_config = FROZEN
    target: SomeDelay = 5_000_000
    """Acceptable queueing delay."""
    interval: SomeDelay = 100_000_000
    """Time for which the delay may exceed the target; should be a high round-trip time of the path."""
    ecn: Flag = True
    """Whether ECN-capable frames (ECT) are marked instead of dropped."""


class Impairments(BaseModel):
    """Effects on the frames of each direction, applied in the order of the keys."""

    model_config = FROZEN
    loss: Ratio = 0.0
    """Ratio of randomly lost frames."""
    lose_every: Maybe[Annotated[int, Field(ge=1, le=2**31, strict=True)]] = None
    """Every n-th frame is lost: frames n, 2n, 3n, ..."""
    lose_pattern: Maybe[Annotated[str, Field(pattern=r"^[01]{1,4096}$", strict=True)]] = None
    """Sequence of lost (1) and forwarded (0) frames, in quotes; the sequence repeats."""
    loss_bursts: Maybe[LossBursts] = None
    """Burst loss."""
    corrupt: Ratio = 0.0
    """Ratio of frames in which one bit is inverted."""
    duplicate: Ratio = 0.0
    """Ratio of frames that are duplicated."""
    stall: Maybe[Stall] = None
    """Periodic stalls of the line."""
    rate: Maybe[LineRate] = None
    """Rate of the line in bits/s (frames with FCS) or in frames/s; default: no limit."""
    rate_trace: Maybe[RateSteps] = None
    """Rate of the line, as a trace of rates over time; the trace repeats."""
    delivery_trace: Maybe[Moments] = None
    """Rate of the line, as a trace of times at which 1504 bytes may be sent (mahimahi); the trace repeats."""
    burst: Maybe[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]] = None
    """For a rate in frames/s: frames sent at once after a pause; default: 256 [frames]."""
    queue: Maybe[SomeBytes] = None
    """Queue size in front of the line; default: no queue for a rate in frames/s, 1000 frames for a rate in bits/s."""
    queue_frames: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Queue size in front of the line [frames]."""
    queue_time: Maybe[SomeDelay] = None
    """Queue size in front of the line, as the maximum waiting time."""
    codel: Maybe[Codel] = None
    """CoDel management of the queue; default: frames that do not fit in the queue are dropped."""
    ecn_above: Maybe[SomeDelay] = None
    """ECN-capable frames (ECT, RFC 3168) are marked if their waiting time in front of the line would exceed this value.
    """
    delay: Delay = 0
    """One-way delay."""
    jitter: Delay = 0
    """Variation of the delay: the maximum deviation (uniform), or the standard deviation (normal)."""
    jitter_kind: Literal["uniform", "normal"] = "uniform"
    """Distribution of the delay."""
    jitter_samples: Maybe[Samples] = None
    """Additional delays of frames: each frame gets a random sample, with equal probability."""
    jitter_correlation: Ratio = 0.0
    """Probability that a frame has the same delay as the frame before it; otherwise its delay is random."""
    overtake: Flag = False
    """Whether frames with a shorter delay overtake other frames."""
    reorder: Maybe[Reorder] = None
    """Reordering of random frames."""
    seed: Count = Field(default=1, ge=1)
    """Seed of all random decisions: with the same seed, the same frames are affected in the same way."""

    def stages(self) -> tuple[Stage, ...]:
        """Return the impairment stages that frames pass, as the agent's `impairments` (contract, device.start)."""
        return (*self._losses(), *self._frames(), *self._line(), *self._delay(), *self._reorder())

    def problems(self) -> Iterator[tuple[str, Text, Text]]:
        """Yield conflicting settings: the key, its value, and what is allowed."""
        yield from self._twice()
        yield from self._without_rate()
        if not (self.jitter or self.jitter_samples) and (self.jitter_correlation or self.overtake):
            yield "jitter", Phrase("check.no-jitter"), Phrase("check.jitter-for-such-delays")
        for key, most_ns in LONGEST_NS.items():
            if getattr(self, key) > most_ns:
                yield (
                    key,
                    Phrase("check.duration-of-key", key=key, duration=getattr(self, key)),
                    Phrase("check.at-most-ns", most=most_ns),
                )
        if self.stall is not None and self.stall.length >= self.stall.every:
            seen = Phrase("check.stalls-of-ns-every-ns", length=self.stall.length, every=self.stall.every)
            yield "stall", seen, Phrase("check.stall-shorter-than-every")

    def _twice(self) -> Iterator[tuple[str, Text, Text]]:
        for keys, allowed in (
            (
                ("loss", "lose_every", "lose_pattern", "loss_bursts"),
                Phrase("check.one-way-of-losing"),
            ),
            (("queue", "queue_frames", "queue_time"), Phrase("check.one-limit-of-a-queue")),
            (LINES, Phrase("check.one-rate-of-a-line")),
            (("jitter", "jitter_samples"), Phrase("check.one-distribution-of-delays")),
        ):
            given = [key for key in keys if getattr(self, key)]
            if len(given) > 1:
                yield given[1], Phrase("errors.listed-with-and", items=given), allowed
        if self.codel and self.queue_time:
            yield (
                "codel",
                Phrase("check.codel-with-queue-time"),
                Phrase("check.queue-without-time-limit"),
            )
        if self.codel and self.ecn_above:
            yield "ecn_above", Phrase("check.ecn-above-with-codel"), Phrase("check.codel-marks-itself")

    def _without_rate(self) -> Iterator[tuple[str, Text, Text]]:
        for key in ("burst", "queue", "queue_frames", "queue_time", "codel", "ecn_above"):
            if getattr(self, key) and not any(getattr(self, line) for line in LINES):
                yield key, Phrase("check.without-a-rate", what=key), Phrase("check.rate-behind-the-burst")
        if self.burst and self.rate is not None and not self.in_frames:
            yield (
                "burst",
                Phrase("check.burst-with-rate", rate=self.rate),
                Phrase("check.rate-in-frames"),
            )

    def _losses(self) -> Iterator[Stage]:
        if self.loss:
            yield {"kind": "loss", PER_BILLION: _parts(self.loss)}
        if self.lose_every is not None:
            yield {"kind": "loss_every", "frames": self.lose_every}
        if self.lose_pattern is not None:
            yield {"kind": "loss_pattern", "lost": [letter == "1" for letter in self.lose_pattern]}
        if self.loss_bursts is not None:
            ratios = {
                "to_bad": self.loss_bursts.to_bad,
                "to_good": self.loss_bursts.to_good,
                "lost_in_bad": self.loss_bursts.bad,
                "lost_in_good": self.loss_bursts.good,
            }
            yield {"kind": "loss_bursts"} | {
                f"{key}_per_billion": _parts(each) for key, each in ratios.items()
            }

    def _frames(self) -> Iterator[Stage]:
        for kind, ratio in (("corrupt", self.corrupt), ("duplicate", self.duplicate)):
            if ratio:
                yield {"kind": kind, PER_BILLION: _parts(ratio)}
        if self.stall is not None:
            yield {"kind": "stall", "length_ns": self.stall.length, "every_ns": self.stall.every}

    @property
    def in_frames(self) -> bool:
        """Whether the rate is in frames/s."""
        return self.rate is not None and self.rate.endswith("pps")

    def most_bps(self) -> int | None:
        """Return the maximum rate of the line [bit/s]; None if the line has no bit rate."""
        if self.rate is not None and not self.in_frames:
            return int(self.rate.removesuffix("bit"))
        if self.rate_trace is not None:
            return max(rate for _, rate in self.rate_trace)
        if self.delivery_trace is not None:
            return max(Counter(self.delivery_trace).values()) * DELIVERY_BYTES * 8 * 1000
        return None

    def _clock(self) -> Stage | None:
        if self.rate_trace is not None:
            return {"kind": "trace", "steps": [list(step) for step in self.rate_trace]}
        if self.delivery_trace is not None:
            return {
                "kind": "delivery",
                "moments_ns": list(self.delivery_trace),
                "bytes": DELIVERY_BYTES,
            }
        if self.rate is None:
            return None
        if not self.in_frames:
            return {"kind": "bits", "bps": int(self.rate.removesuffix("bit"))}
        burst = self.burst or BURST_FRAMES
        frames = int(self.rate.removesuffix("pps"))
        return {"kind": "frames", "frames": frames, "per_ns": NS_PER_S, "burst_frames": burst}

    def _line(self) -> Iterator[Stage]:
        rate = self._clock()
        if rate is None:
            return
        line: Stage = {"kind": "line", "rate": rate, "queue": self._queue(self.in_frames)}
        if self.codel is not None:
            line["codel"] = {"target_ns": self.codel.target, "interval_ns": self.codel.interval}
            if not self.codel.ecn:
                line["codel"] = {**line["codel"], "marks": False}  # type: ignore[dict-item]
        if self.ecn_above is not None:
            line["mark_above"] = {"kind": "time", "most_ns": self.ecn_above}
        yield line

    def _queue(self, in_frames: bool) -> Stage:
        if self.queue is not None:
            return {"kind": "bytes", "bytes": self.queue}
        if self.queue_time is not None:
            return {"kind": "time", "most_ns": self.queue_time}
        return {"kind": "frames", "frames": self.queue_frames or (0 if in_frames else QUEUE_FRAMES)}

    def _delay(self) -> Iterator[Stage]:
        if not (self.delay or self.jitter or self.jitter_samples):
            return
        delay: Stage = {"kind": "delay", "delay_ns": self.delay}
        if self.jitter:
            most = "most_ns" if self.jitter_kind == "uniform" else "deviation_ns"
            delay["jitter"] = {"kind": self.jitter_kind, most: self.jitter}
        if self.jitter_samples:
            delay["jitter"] = {"kind": "samples", "later_ns": list(self.jitter_samples)}
        if self.jitter or self.jitter_samples:
            delay["correlation_per_billion"] = _parts(self.jitter_correlation)
            delay["overtaking"] = self.overtake
        yield delay

    def _reorder(self) -> Iterator[Stage]:
        if self.reorder is not None:
            yield {"kind": "reorder", PER_BILLION: _parts(self.reorder.ratio), "by_ns": self.reorder.by}


def _parts(ratio: float) -> int:
    return round(ratio * 1_000_000_000)
