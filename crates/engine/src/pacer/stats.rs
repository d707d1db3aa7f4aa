//! What a pacer noted: gaps, lateness, bursts and stalls.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::time::Nanos;

/// The longest burst there can be (frames).
pub const LONGEST_BURST: u32 = 64;
/// How many stalls are kept one by one; more are counted only.
pub const STALL_LOG_ENTRIES: usize = 4096;

/// Why frames were late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// Nobody asked in time: the thread did not run, or was busy elsewhere.
    NotAsked,
    /// The interface had no room.
    NoRoom,
}

/// One time during which frames were later than the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StallEntry {
    /// The last call before the lateness was seen: what held the thread up happened after this.
    pub begin: Nanos,
    /// When frames were on time again, or the trial ended.
    pub end: Nanos,
    /// The largest lateness of a frame.
    pub late: Nanos,
    /// By how much the schedule was shifted.
    pub slipped: Nanos,
    /// Why, as far as the pacer can see.
    pub cause: StallCause,
}

/// Counters of one trial's sending.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PacerStats {
    /// Frames that the rate asks for in the whole trial.
    pub intended_frames: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames intended but not sent: skipped by slips, late at the end, or refused by the interface.
    pub unsent_frames: u64,
    /// Frames taken back because the interface did not accept them.
    pub retracted_frames: u64,
    /// How often a frame was due and the interface had no room.
    pub blocked_polls: u64,
    /// Time between one frame and the next; 0 within a burst (ns).
    pub gaps: Histogram,
    /// Time between a frame's turn and its sending (ns).
    pub lateness: Histogram,
    /// Bursts by their length: `bursts[n]` times `n` frames left together.
    pub bursts: Box<[u64]>,
    /// By how much the schedule was shifted in all.
    pub slipped: Nanos,
    /// The first stalls, oldest first.
    pub stalls: Vec<StallEntry>,
    /// How many stalls there were, kept or not.
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

    /// Add what another sender of the same stream did. Gaps are then each sender's own, and stalls in the order of the senders.
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
