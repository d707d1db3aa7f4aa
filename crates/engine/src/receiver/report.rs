//! The final report of a receiver.

use serde::Serialize;

use super::StrayCounts;
use crate::arrivals::ArrivalsReport;
use crate::histogram::Histogram;
use crate::time::Nanos;

/// The frame counts of one flow: `sent + surplus = received + lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct FlowReport {
    /// Frames that the sending interface accepted.
    pub sent_frames: u64,
    /// Intact first copies.
    pub received_frames: u64,
    /// Sent frames that did not arrive, arrived corrupted, or arrived too late.
    pub lost_frames: u64,
    /// First copies in excess of the sent frames: above zero only if a count is wrong.
    pub surplus_frames: u64,
    /// Further copies.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame (RFC 4737).
    pub reordered_frames: u64,
    /// Frames that were older than the window when they arrived; they count as lost unless they are copies.
    pub too_late_frames: u64,
    /// First copies with a negative latency, due to a clock offset; excluded from the latency.
    pub negative_latency_frames: u64,
    /// Maximum reordering extent (RFC 4737 section 4.2.1) (frames).
    pub reorder_extent_max_frames: u64,
    /// Sum of the latencies of first copies (ns).
    pub latency_sum_ns: u64,
    /// Minimum latency (ns).
    pub latency_min_ns: Option<u64>,
    /// Maximum latency (ns).
    pub latency_max_ns: Option<u64>,
}

/// The frame counts of all flows together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ReceiverTotals {
    /// Frames that the sending interface accepted.
    pub sent_frames: u64,
    /// Intact first copies.
    pub received_frames: u64,
    /// Sent frames that did not arrive, arrived corrupted, or arrived too late.
    pub lost_frames: u64,
    /// First copies in excess of the sent frames.
    pub surplus_frames: u64,
    /// Further copies.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame of their flow.
    pub reordered_frames: u64,
    /// Frames that were older than the window when they arrived.
    pub too_late_frames: u64,
    /// First copies with a negative latency, due to a clock offset.
    pub negative_latency_frames: u64,
}

impl ReceiverTotals {
    pub(super) const fn add(&mut self, flow: &FlowReport) {
        self.sent_frames += flow.sent_frames;
        self.received_frames += flow.received_frames;
        self.lost_frames += flow.lost_frames;
        self.surplus_frames += flow.surplus_frames;
        self.duplicate_frames += flow.duplicate_frames;
        self.reordered_frames += flow.reordered_frames;
        self.too_late_frames += flow.too_late_frames;
        self.negative_latency_frames += flow.negative_latency_frames;
    }

    /// Return the counts with `refused_frames` removed from the sent frames: the interface refused this number of
    /// frames without reporting which ones, so these frames were not lost.
    #[must_use]
    pub const fn without_refused(mut self, refused_frames: u64) -> Self {
        self.sent_frames = self.sent_frames.saturating_sub(refused_frames);
        let arrived = self.received_frames;
        self.lost_frames = self.sent_frames.saturating_sub(arrived);
        self.surplus_frames = arrived.saturating_sub(self.sent_frames);
        self
    }

    /// Return the number of intact frames of the trial's flows, including copies.
    pub const fn arrived_frames(&self) -> u64 {
        self.received_frames + self.duplicate_frames + self.too_late_frames
    }
}

/// The report of one direction of a trial.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ReceiverReport {
    /// Counts of all flows together.
    pub totals: ReceiverTotals,
    /// Counts of frames outside the flows of the trial.
    pub stray: StrayCounts,
    /// All frames passed to the receiver: those of the totals and the strays.
    pub arrived_frames: u64,
    /// Bytes of all intact frames of this trial, including copies, with FCS (bytes).
    pub arrived_bytes: u64,
    /// Arrival time of the first intact frame of this trial.
    pub first_at: Option<Nanos>,
    /// Arrival time of the last intact frame of this trial.
    pub last_at: Option<Nanos>,
    /// One-way latency of first copies (ns).
    pub latency: Histogram,
    /// Reordering extents (RFC 4737 section 4.2.1): exact up to a flow's 16th newest sequence gap (fewer gaps with
    /// more than 65 536 flows), a lower bound beyond.
    pub reorder_extent: Histogram,
    /// Reorder density (RFC 5236 section 4): displacements, positive for late frames, with the number of first
    /// copies. Frames displaced by more than 16 are excluded: the density counts them as lost.
    pub reorder_density: Box<[(i8, u64)]>,
    /// First copies per slice of transmit time; empty if they were not counted.
    pub slices: Box<[u64]>,
    /// First copies per slice of arrival time; empty if they were not counted.
    pub arrivals: ArrivalsReport,
    /// Latency per flow, for at most 256 flows (ns).
    pub flow_latency: Box<[Histogram]>,
    /// Frame counts per flow.
    pub flows: Box<[FlowReport]>,
}
