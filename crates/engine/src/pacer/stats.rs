//! Statistics of a pacer: gaps, lateness, bursts and stalls.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::time::Nanos;

/// Maximum burst (frames).
pub const LONGEST_BURST: u32 = 64;
/// Maximum number of logged stalls; further stalls are only counted.
pub const STALL_LOG_ENTRIES: usize = 4096;

/// The reason for late frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// The pacer was not polled in time: the thread did not run, or was busy.
    NotAsked,
    /// The transmit ring was full.
    NoRoom,
}

/// A period during which frames were later than the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StallEntry {
    /// Last poll before the lateness was detected; the cause of the stall is later than this time.
    pub begin: Nanos,
    /// Time at which frames were on time again, or the trial ended.
    pub end: Nanos,
    /// Maximum lateness of a frame.
    pub late: Nanos,
    /// Shift of the schedule.
    pub slipped: Nanos,
    /// Cause of the stall, as far as the pacer can determine it.
    pub cause: StallCause,
}

/// The transmit counters of one trial.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PacerStats {
    /// Number of frames intended for the whole trial at the configured rate.
    pub intended_frames: u64,
    /// Number of frames sent.
    pub sent_frames: u64,
    /// Number of intended frames that were not sent: skipped by shifts of the schedule, late at the end, or refused
    /// by the interface.
    pub unsent_frames: u64,
    /// Number of frames retracted because the interface did not accept them.
    pub retracted_frames: u64,
    /// Number of polls with a due frame and a full transmit ring.
    pub blocked_polls: u64,
    /// Gaps between consecutive frames; 0 within a burst (ns).
    pub gaps: Histogram,
    /// Delays from the due time to the transmission of a frame (ns).
    pub lateness: Histogram,
    /// Burst counts by length: `bursts[n]` bursts had `n` frames.
    pub bursts: Box<[u64]>,
    /// Total shift of the schedule.
    pub slipped: Nanos,
    /// First stalls, oldest first.
    pub stalls: Vec<StallEntry>,
    /// Number of stalls, logged or not.
    pub stall_count: u64,
    #[serde(skip)]
    open: Option<StallEntry>,
}

impl PacerStats {
    pub(super) fn new() -> Self {
        Self {
            intended_frames: 0,
            sent_frames: 0,
            unsent_frames: 0,
            retracted_frames: 0,
            blocked_polls: 0,
            gaps: Histogram::new(),
            lateness: Histogram::new(),
            bursts: vec![0; LONGEST_BURST as usize + 1].into(),
            slipped: Nanos::ZERO,
            stalls: Vec::with_capacity(STALL_LOG_ENTRIES),
            stall_count: 0,
            open: None,
        }
    }

    /// Add the counters of a different sender of the same stream. The gaps are then those between frames of the same
    /// sender, and the stalls are ordered by sender.
    pub(crate) fn merge(&mut self, other: Self) {
        self.intended_frames += other.intended_frames;
        self.sent_frames += other.sent_frames;
        self.unsent_frames += other.unsent_frames;
        self.retracted_frames += other.retracted_frames;
        self.blocked_polls += other.blocked_polls;
        self.gaps.merge(&other.gaps);
        self.lateness.merge(&other.lateness);
        for (times, more) in self.bursts.iter_mut().zip(&other.bursts) {
            *times += more;
        }
        self.slipped = self.slipped.plus(other.slipped);
        self.stalls.extend(other.stalls);
        self.stall_count += other.stall_count;
    }

    #[inline]
    pub(super) fn note_burst(&mut self, frames: u32) {
        if let Some(count) = self.bursts.get_mut(frames as usize) {
            *count += 1;
        }
    }

    #[inline]
    pub(super) const fn in_stall(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn note_stall(&mut self, begin: Nanos, late: Nanos, slipped: Nanos, cause: StallCause) {
        let entry = self.open.get_or_insert(StallEntry {
            begin,
            end: begin,
            late: Nanos::ZERO,
            slipped: Nanos::ZERO,
            cause,
        });
        entry.late = entry.late.max(late);
        entry.slipped = entry.slipped.plus(slipped);
    }

    pub(super) fn close_stall(&mut self, end: Nanos) {
        if let Some(entry) = self.open.take() {
            self.stall_count += 1;
            if self.stalls.len() < STALL_LOG_ENTRIES {
                self.stalls.push(StallEntry { end, ..entry });
            }
        }
    }
}
