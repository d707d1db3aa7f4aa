"""Impairments: what a path or a reference device does to frames. One model, for `wire:` on links and `device:`."""

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
"""One stage, as the agent takes it."""

LONGEST_NS = {"delay": 10 * NS_PER_S, "jitter": 4 * NS_PER_S}
"""Longest times."""

LINES = ("rate", "rate_trace", "delivery_trace")
"""Keys that say how fast the line is."""

DELIVERY_BYTES = 1504
"""What leaves at each moment of a delivery trace, as in mahimahi."""

PER_BILLION = "frames_per_billion"

QUEUE_FRAMES = 1000
"""What waits before a line of a bit rate when nothing is said: as long as the kernel makes its own (txqueuelen)."""

BURST_FRAMES = 256
"""What a capacity in frames forwards at once when nothing is said: what a veth holds."""


class Stall(BaseModel):
    """When nothing goes on; frames that come meanwhile wait, as far as they have room."""

    model_config = FROZEN
    length: SomeDelay
    """How long nothing goes on."""
    every: SomeDelay
    """From the beginning of one stall to that of the next."""


class LossBursts(BaseModel):
    """Loss in bursts: a good and a bad state, each with its own loss (Gilbert and Elliott)."""

    model_config = FROZEN
    to_bad: Ratio
    """How often the good state turns bad, before each frame."""
    to_good: Ratio
    """How often the bad state turns good; its runs have 1 / to_good frames on average."""
    bad: Ratio = 1.0
    """Loss in the bad state."""
    good: Ratio = 0.0
    """Loss in the good state."""


class Reorder(BaseModel):
    """Some frames are held back, so that others overtake them."""

    model_config = FROZEN
    ratio: Ratio
    """How many, each by chance."""
    by: SomeDelay
    """How long they are held."""


class Codel(BaseModel):
    """A queue that is kept short (RFC 8289)."""

    model_config = FROZEN
    target: SomeDelay = 5_000_000
    """The delay that it may keep."""
    interval: SomeDelay = 100_000_000
    """For how long the delay may be longer: a large round-trip time."""
    ecn: Flag = True
    """Whether frames that can be marked (ECT) are marked in place of being dropped."""


class Impairments(BaseModel):
    """What happens to the frames of each direction, in the order of the keys."""

    model_config = FROZEN
    loss: Ratio = 0.0
    """Part of the frames that is lost, each by chance."""
    lose_every: Maybe[Annotated[int, Field(ge=1, le=2**31, strict=True)]] = None
    """Frames n, 2n, 3n, ... are lost."""
    lose_pattern: Maybe[Annotated[str, Field(pattern=r"^[01]{1,4096}$", strict=True)]] = None
    """Which frames are lost (1) and which are not (0), in quotes; it begins again at its end."""
    loss_bursts: Maybe[LossBursts] = None
    """Loss in bursts."""
    corrupt: Ratio = 0.0
    """Part of the frames of which one bit is inverted."""
    duplicate: Ratio = 0.0
    """Part of the frames that comes twice."""
    stall: Maybe[Stall] = None
    """Nothing goes on now and then."""
    rate: Maybe[LineRate] = None
    """Of the line, in bits of frames with FCS or in frames; absent: as fast as it goes."""
    rate_trace: Maybe[RateSteps] = None
    """The same, as a rate that changes over time; it begins again at its end."""
    delivery_trace: Maybe[Moments] = None
    """The same, as moments at which 1504 bytes may leave (a trace of mahimahi); it begins again at its end."""
    burst: Maybe[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]] = None
    """With a rate in frames: what leaves at once after a pause; absent: 256 [frames]."""
    queue: Maybe[SomeBytes] = None
    """Room before the line; absent: none with a rate in frames, 1000 frames with one in bits."""
    queue_frames: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """The same [frames]."""
    queue_time: Maybe[SomeDelay] = None
    """The same, as what waits no longer than this."""
    codel: Maybe[Codel] = None
    """Keeps the queue short; absent: what does not fit is dropped."""
    ecn_above: Maybe[SomeDelay] = None
    """Frames that can be marked (ECT, RFC 3168) are marked when they would wait longer than this before the line."""
    delay: Delay = 0
    """One way."""
    jitter: Delay = 0
    """How far delays lie from it: at most (uniform), or the standard deviation (normal)."""
    jitter_kind: Literal["uniform", "normal"] = "uniform"
    """How delays are distributed."""
    jitter_samples: Maybe[Samples] = None
    """What each frame waits beyond the delay: one of these, each as likely as every other."""
    jitter_correlation: Ratio = 0.0
    """How often a frame has the delay of the one before; otherwise it is drawn again."""
    overtake: Flag = False
    """Whether frames with a shorter delay overtake others."""
    reorder: Maybe[Reorder] = None
    """Some frames are held back."""
    seed: Count = Field(default=1, ge=1)
    """What chance is drawn from: the same seed does the same to the same frames."""

    def stages(self) -> tuple[Stage, ...]:
        """Return the stages that frames pass, as the agent's `impairments` (contract, device.start)."""
        return (*self._losses(), *self._frames(), *self._line(), *self._delay(), *self._reorder())

    def problems(self) -> Iterator[tuple[str, Text, Text]]:
        """Give what makes no sense together: the key, what is there, and what is allowed."""
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
        """Whether the rate is one of frames."""
        return self.rate is not None and self.rate.endswith("pps")

    def most_bps(self) -> int | None:
        """Return the most that the line carries [bit/s]; None where it has no rate in bits."""
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
