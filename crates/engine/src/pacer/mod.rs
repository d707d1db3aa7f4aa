//! When to send: a schedule of absolute times, one per frame, that no rounding and no late call can shift.
//!
//! A frame is due at its time and not before. A caller that comes late finds several frames due at once: it gets them,
//! at most `max_burst` together and from then on at most twice as fast as the rate, so that catching up never becomes
//! a train of its own. Lateness beyond what the stall policy catches up shifts the rest of the schedule; the shift is
//! counted, so that the mean rate is exact outside of it.

mod stats;

use iolab_frame::SizeMix;

use crate::error::EngineError;
use crate::rate::{ExactTime, Gap, Rate};
use crate::share::Share;
use crate::time::Nanos;

pub use stats::{PacerStats, StallCause, StallEntry, LONGEST_BURST, STALL_LOG_ENTRIES};

/// Frames due before the end may leave this much after it, so that the last one is not lost to a late call. It is far
/// above the jitter of a running thread and far below a trial.
const END_GRACE: Nanos = Nanos::from_millis(1);

/// What happens to frames that were due while nobody asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallPolicy {
    /// They are not sent: the schedule shifts, as soon as more than `max_burst` frames are late.
    Slip,
    /// Up to `max_frames` of them are sent late, at no more than twice the rate; the rest shifts the schedule.
    CatchUp {
        /// The most that are caught up after one stall (frames).
        max_frames: u32,
    },
}

/// When a trial ends: at whichever comes first of those given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// After this many frames.
    pub frames: Option<u64>,
    /// After this time from the start.
    pub duration: Option<Nanos>,
}

/// What to send, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerConfig {
    /// When the first frame is due.
    pub start: Nanos,
    /// The intended rate.
    pub rate: Rate,
    /// The most frames that leave at once, 1 to 64.
    pub max_burst: u32,
    /// What happens after a stall.
    pub stall: StallPolicy,
    /// When to end.
    pub limit: Limit,
    /// From which lateness on a stall is logged; it ends when frames are half as late.
    pub stall_threshold: Nanos,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Send one frame and call [`Pacer::advance`]; then ask again with the same time for the next of the burst.
    Send,
    /// Nothing is due before this time.
    Wait(Nanos),
    /// The trial is over.
    Done,
}

/// Decides when each frame leaves.
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
    /// When the last frame's half gap is over, counted on from a burst's first frame (a token bucket as in ITU-T
    /// I.371's virtual scheduling: at twice the rate, `max_burst` deep).
    paid: Nanos,
    last_poll: Nanos,
    last_sent: Option<Nanos>,
    burst_frames: u32,
    sent_frames: u64,
    blocked: bool,
    stats: PacerStats,
}

/// The time that a frame of one size takes, and half of it.
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

/// The frames that come in turn.
struct Turns {
    /// Of each size; where one is given, of all.
    gaps: Box<[FrameGap]>,
    mean: Nanos,
    /// How many are due in the whole time, where there is an end by time.
    by_time: Option<u64>,
}

impl Pacer {
    /// A schedule for frames of `sizes`, whose indices [`Self::advance`] is given.
    pub fn new(config: &PacerConfig, sizes: &SizeMix) -> Result<Self, EngineError> {
        Self::shared(config, sizes, Share::WHOLE)
    }

    /// The times of one share of that schedule: each frame is due when it is in the whole, and what a stall may make late is
    /// spread over the senders.
    pub fn shared(config: &PacerConfig, sizes: &SizeMix, share: Share) -> Result<Self, EngineError> {
        let rate = config.rate.shared(share.of)?;
        let gaps = sizes.shares().iter().map(|size| FrameGap::new(rate.gap(size.frame_bytes)));
        let by_time = config.limit.duration.map(|span| config.rate.frames_within(sizes, span));
        let turns = Turns { gaps: gaps.collect(), mean: rate.mean_gap(sizes), by_time };
        let mut pacer = Self::over(config, share, turns)?;
        // All sizes cost the same where there are several shares.
        (0..share.place).for_each(|_| pacer.due.advance(config.rate.gap(sizes.largest_bytes())));
        pacer.paid = pacer.due.whole;
        Ok(pacer)
    }

    /// A schedule for the frames of a recording, which [`Self::advance`] is given by their numbers: at the times at which they
    /// were recorded, stretched so that their mean rate is that of `config`. Without `times_ns`, or where all are the same, at
    /// equal distances.
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
        // The first follows the last as far as they are from each other on average.
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

    /// Decide what to do at `now`, which never goes back.
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

    /// Note that a frame of the size number `size` left at `now`, after [`Decision::Send`].
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

    /// Note that a frame was due but could not be handed over, because the interface had no room.
    pub const fn note_blocked(&mut self) {
        self.blocked = true;
        self.stats.blocked_polls += 1;
    }

    /// Take back the last frame: the interface did not accept it. The schedule goes on as if it had been sent.
    pub const fn retract(&mut self) {
        self.sent_frames = self.sent_frames.saturating_sub(1);
        self.stats.retracted_frames += 1;
    }

    /// The frames sent until now.
    pub const fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    /// The frames that the rate asks for in the whole trial.
    pub const fn intended_frames(&self) -> u64 {
        self.intended_frames
    }

    /// When the next frame is due.
    pub const fn due(&self) -> Nanos {
        self.due.whole
    }

    /// When the trial ends by time; [`Nanos::MAX`] when only a number of frames was given.
    pub const fn end(&self) -> Nanos {
        self.end
    }

    /// Close the books after the last frame.
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

    /// The statistics so far; bursts and stalls that go on, and the totals of [`Self::finish`], are not in them.
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
