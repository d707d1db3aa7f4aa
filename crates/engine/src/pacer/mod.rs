//! Transmit times: a schedule of absolute times, one per frame, without drift from rounding or late calls.
//!
//! A frame is never sent before its due time. A late caller finds several frames due at once: it may send at most
//! `max_burst` of them together, and then frames at no more than twice the rate, so that catching up causes no long
//! train. Lateness beyond the catch-up limit of the stall policy shifts the rest of the schedule; the shift is counted,
//! so that the mean rate is exact apart from the shift.

mod stats;

use iolab_frame::SizeMix;

use crate::error::EngineError;
use crate::rate::{ExactTime, Gap, Rate};
use crate::share::Share;
use crate::time::Nanos;

pub use stats::{PacerStats, StallCause, StallEntry, LONGEST_BURST, STALL_LOG_ENTRIES};

/// Grace period for frames that were due before the end, so that a late call does not lose the last frame. The grace
/// period is far above the jitter of a running thread and far below the duration of a trial.
const END_GRACE: Nanos = Nanos::from_millis(1);

/// The handling of frames that became overdue during a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallPolicy {
    /// Skip the overdue frames: the schedule shifts when more than `max_burst` frames are late.
    Slip,
    /// Send up to `max_frames` overdue frames late, at no more than twice the rate; the remaining lateness shifts the
    /// schedule.
    CatchUp {
        /// Maximum number of overdue frames that are sent after one stall.
        max_frames: u32,
    },
}

/// The end of a trial: the limit that is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Maximum number of frames.
    pub frames: Option<u64>,
    /// Maximum time since the start.
    pub duration: Option<Nanos>,
}

/// The configuration of a pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerConfig {
    /// Due time of the first frame.
    pub start: Nanos,
    /// Intended rate.
    pub rate: Rate,
    /// Maximum number of frames sent at once, 1 to 64.
    pub max_burst: u32,
    /// Stall policy.
    pub stall: StallPolicy,
    /// End of the trial.
    pub limit: Limit,
    /// Lateness above which a stall is logged; the stall ends when the lateness falls to half of it.
    pub stall_threshold: Nanos,
}

/// The action that the caller must take now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Send one frame and call [`Pacer::advance`]; then poll again with the same time for the next frame of the
    /// burst.
    Send,
    /// No frame is due before this time.
    Wait(Nanos),
    /// The trial is over.
    Done,
}

/// Decides the transmit time of each frame.
#[derive(Debug, Clone)]
pub struct Pacer {
    limit_frames: u64,
    end: Nanos,
    last_call: Nanos,
    max_burst: u32,
    gaps: Box<[FrameGap]>,
    late_limit: Nanos,
    burst_span: Nanos,
    stall_threshold: Nanos,
    intended_frames: u64,

    due: ExactTime,
    /// Theoretical arrival time of the next frame at a token bucket with twice the rate and a depth of `max_burst`
    /// (virtual scheduling of ITU-T I.371).
    paid: Nanos,
    last_poll: Nanos,
    last_sent: Option<Nanos>,
    burst_frames: u32,
    sent_frames: u64,
    blocked: bool,
    stats: PacerStats,
}

/// The gap after a frame of one size, and half of it.
#[derive(Debug, Clone, Copy)]
struct FrameGap {
    whole: Gap,
    half: Nanos,
}

impl FrameGap {
    const fn new(whole: Gap) -> Self {
        Self { whole, half: Nanos(whole.whole_ns / 2) }
    }
}

/// The gaps of a repeating sequence of frames.
struct Turns {
    /// Gap after a frame of each size, or one gap for all sizes.
    gaps: Box<[FrameGap]>,
    mean: Nanos,
    /// Number of frames due within the duration, if the duration is limited.
    by_time: Option<u64>,
}

impl Pacer {
    /// Create a schedule for frames of `sizes`; [`Self::advance`] expects size indices.
    pub fn new(config: &PacerConfig, sizes: &SizeMix) -> Result<Self, EngineError> {
        Self::shared(config, sizes, Share::WHOLE)
    }

    /// Create the schedule of one of several senders: each frame has the same due time as in the whole schedule, and
    /// the catch-up frames of a stall are divided among the senders.
    pub fn shared(config: &PacerConfig, sizes: &SizeMix, share: Share) -> Result<Self, EngineError> {
        let rate = config.rate.shared(share.of)?;
        let gaps = sizes.shares().iter().map(|size| FrameGap::new(rate.gap(size.frame_bytes)));
        let by_time = config.limit.duration.map(|span| config.rate.frames_within(sizes, span));
        let turns = Turns { gaps: gaps.collect(), mean: rate.mean_gap(sizes), by_time };
        let mut pacer = Self::over(config, share, turns)?;
        // With several senders the rate counts frames, so all sizes have the same gap.
        (0..share.place).for_each(|_| pacer.due.advance(config.rate.gap(sizes.largest_bytes())));
        pacer.paid = pacer.due.whole;
        Ok(pacer)
    }

    /// Create a schedule for the frames of a recording, whose indices [`Self::advance`] expects: at the recorded
    /// times, scaled so that the mean rate is that of `config`. Without `times_ns`, or if all times are equal, the
    /// frames are evenly spaced.
    pub fn recorded(config: &PacerConfig, times_ns: &[u64]) -> Result<Self, EngineError> {
        let frames = times_ns.len() as u64;
        let span_ns = times_ns.last().map_or(0, |last| last - times_ns[0]);
        if frames < 2 || span_ns == 0 {
            return Self::shared(
                config,
                &SizeMix::single(64).map_err(|_| EngineError::NoLimit)?,
                Share::WHOLE,
            );
        }
        // In a repetition, the first frame follows the last one after the mean gap.
        let round_ns = config.rate.span_of(frames).0;
        let recorded_ns = u128::from(span_ns) + u128::from(span_ns / (frames - 1));
        let due = |time_ns: u64| {
            let scaled = u128::from(time_ns - times_ns[0]) * u128::from(round_ns) / recorded_ns;
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let ends = times_ns[1..].iter().map(|&time_ns| due(time_ns)).chain([round_ns]);
        let gaps = times_ns.iter().zip(ends).map(|(&time_ns, end_ns)| {
            FrameGap::new(Gap { whole_ns: end_ns.saturating_sub(due(time_ns)), rest: 0 })
        });
        let within = |span: Nanos| {
            let begun = times_ns.partition_point(|&time_ns| due(time_ns) < span.0 % round_ns.max(1));
            (span.0 / round_ns.max(1)).saturating_mul(frames).saturating_add(begun as u64)
        };
        let by_time = config.limit.duration.map(within);
        let turns = Turns { gaps: gaps.collect(), mean: Nanos(round_ns / frames), by_time };
        Self::over(config, Share::WHOLE, turns)
    }

    fn over(config: &PacerConfig, share: Share, turns: Turns) -> Result<Self, EngineError> {
        if !(1..=LONGEST_BURST).contains(&config.max_burst) {
            return Err(EngineError::MaxBurst { seen: config.max_burst });
        }
        if config.limit == Limit::default() {
            return Err(EngineError::NoLimit);
        }
        let Turns { gaps, mean, by_time } = turns;
        let caught_up = match config.stall {
            StallPolicy::Slip => config.max_burst,
            StallPolicy::CatchUp { max_frames } => max_frames.div_ceil(share.of).max(config.max_burst),
        };
        let limit_frames = config.limit.frames.unwrap_or(u64::MAX);
        let intended_frames = share.frames(limit_frames.min(by_time.unwrap_or(u64::MAX)));
        let end = config.limit.duration.map_or(Nanos::MAX, |span| config.start.plus(span));
        Ok(Self {
            limit_frames: share.frames(limit_frames),
            end,
            last_call: end.plus(END_GRACE),
            max_burst: config.max_burst,
            gaps,
            late_limit: Nanos(mean.0.saturating_mul(u64::from(caught_up))),
            burst_span: Nanos((mean.0 / 2).saturating_mul(u64::from(config.max_burst - 1))),
            stall_threshold: config.stall_threshold,
            intended_frames,
            paid: config.start,
            due: ExactTime::new(config.start, config.rate.rest_unit()),
            last_poll: config.start,
            last_sent: None,
            burst_frames: 0,
            sent_frames: 0,
            blocked: false,
            stats: PacerStats::new(),
        })
    }

    /// Return the decision for the time `now`, which must not decrease.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Decision {
        let previous = std::mem::replace(&mut self.last_poll, now);
        if self.sent_frames >= self.limit_frames || now >= self.last_call || self.due.whole >= self.end {
            return Decision::Done;
        }
        if self.due.whole > now {
            return Decision::Wait(self.due.whole);
        }
        let late = now.since(self.due.whole);
        if late > self.stall_threshold || self.stats.in_stall() || late > self.late_limit {
            self.note_late(previous, now, late);
        }
        let gate = self.paid.since(self.burst_span);
        if gate > now {
            return Decision::Wait(gate);
        }
        if self.burst_frames >= self.max_burst && self.last_sent == Some(now) {
            return Decision::Wait(now.plus(Nanos(1)));
        }
        Decision::Send
    }

    /// Record that a frame with size index `size` was sent at `now`, after [`Decision::Send`].
    #[inline]
    pub fn advance(&mut self, now: Nanos, size: usize) {
        debug_assert!(
            self.due.whole <= now && self.sent_frames < self.limit_frames,
            "sent without a decision"
        );
        self.stats.lateness.record(now.since(self.due.whole).0);
        match self.last_sent {
            Some(last) => {
                self.stats.gaps.record(now.since(last).0);
                if last == now {
                    self.burst_frames += 1;
                } else {
                    self.stats.note_burst(self.burst_frames);
                    self.burst_frames = 1;
                }
            }
            None => self.burst_frames = 1,
        }
        self.last_sent = Some(now);
        self.blocked = false;
        self.sent_frames += 1;
        let gap = self.gaps[size.min(self.gaps.len() - 1)];
        self.due.advance(gap.whole);
        self.paid = self.paid.max(now).plus(gap.half);
    }

    /// Record that a frame was due but could not be sent because the transmit ring was full.
    pub const fn note_blocked(&mut self) {
        self.blocked = true;
        self.stats.blocked_polls += 1;
    }

    /// Retract the last frame, which the interface did not accept. The schedule does not change.
    pub const fn retract(&mut self) {
        self.sent_frames = self.sent_frames.saturating_sub(1);
        self.stats.retracted_frames += 1;
    }

    /// Return the number of frames sent so far.
    pub const fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    /// Return the number of frames intended for the whole trial at the configured rate.
    pub const fn intended_frames(&self) -> u64 {
        self.intended_frames
    }

    /// Return the due time of the next frame.
    pub const fn due(&self) -> Nanos {
        self.due.whole
    }

    /// Return the end time of the trial; [`Nanos::MAX`] if only the number of frames is limited.
    pub const fn end(&self) -> Nanos {
        self.end
    }

    /// Close the statistics after the last frame.
    pub fn finish(mut self) -> PacerStats {
        if self.burst_frames > 0 {
            self.stats.note_burst(self.burst_frames);
        }
        self.stats.close_stall(self.last_poll);
        self.stats.sent_frames = self.sent_frames;
        self.stats.intended_frames = self.intended_frames;
        self.stats.unsent_frames = self.intended_frames.saturating_sub(self.sent_frames);
        self.stats
    }

    /// Return the statistics so far, without bursts and stalls in progress and without the totals of
    /// [`Self::finish`].
    pub const fn stats(&self) -> &PacerStats {
        &self.stats
    }

    #[cold]
    fn note_late(&mut self, previous: Nanos, now: Nanos, late: Nanos) {
        let slipped = late.since(self.late_limit);
        self.due.skip(slipped);
        self.stats.slipped = self.stats.slipped.plus(slipped);
        let cause = if self.blocked { StallCause::NoRoom } else { StallCause::NotAsked };
        let over =
            if self.stats.in_stall() { Nanos(self.stall_threshold.0 / 2) } else { self.stall_threshold };
        if late > over {
            self.stats.note_stall(previous, late, slipped, cause);
        } else if self.stats.in_stall() {
            self.stats.close_stall(now);
        }
    }
}
