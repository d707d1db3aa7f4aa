//! What a receiver reports once the balance is closed.

use serde::Serialize;

use super::StrayCounts;
use crate::arrivals::ArrivalsReport;
use crate::histogram::Histogram;
use crate::time::Nanos;

/// One flow's balance: `sent + surplus = received + lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct FlowReport {
    /// Frames that the sending interface accepted.
    pub sent_frames: u64,
    /// First copies that arrived whole.
    pub received_frames: u64,
    /// Frames sent that did not arrive, arrived damaged, or arrived too late.
    pub lost_frames: u64,
    /// First copies beyond what was sent: above zero only when a count is wrong.
    pub surplus_frames: u64,
    /// Further copies.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame (RFC 4737).
    pub reordered_frames: u64,
    /// Frames that arrived further behind the newest than the window; they are among the lost, unless copies.
    pub too_late_frames: u64,
    /// First copies that arrived before they were sent, by their clocks; they are in no latency.
    pub negative_latency_frames: u64,
    /// The largest reordering extent (RFC 4737 section 4.2.1) (frames).
    pub reorder_extent_max_frames: u64,
    /// Sum of the latencies of first copies (ns).
    pub latency_sum_ns: u64,
    /// Smallest latency (ns).
    pub latency_min_ns: Option<u64>,
    /// Largest latency (ns).
    pub latency_max_ns: Option<u64>,
}

/// The balance of all flows together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ReceiverTotals {
    /// Frames that the sending interface accepted.
    pub sent_frames: u64,
    /// First copies that arrived whole.
    pub received_frames: u64,
    /// Frames sent that did not arrive, arrived damaged, or arrived too late.
    pub lost_frames: u64,
    /// First copies beyond what was sent.
    pub surplus_frames: u64,
    /// Further copies.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame of their flow.
    pub reordered_frames: u64,
    /// Frames that arrived behind the window.
    pub too_late_frames: u64,
    /// First copies that arrived before they were sent, by their clocks.
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

    /// The same balance when the interface, without saying which, refused `refused_frames` of those counted as sent:
    /// they were not sent, so they were not lost.
    #[must_use]
    pub const fn without_refused(mut self, refused_frames: u64) -> Self {
        self.sent_frames = self.sent_frames.saturating_sub(refused_frames);
        let arrived = self.received_frames;
        self.lost_frames = self.sent_frames.saturating_sub(arrived);
        self.surplus_frames = arrived.saturating_sub(self.sent_frames);
        self
    }

    /// Whole frames of the trial's flows, first copies or not.
    pub const fn arrived_frames(&self) -> u64 {
        self.received_frames + self.duplicate_frames + self.too_late_frames
    }
}

/// All that is known of one direction of a trial.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ReceiverReport {
    /// All flows together.
    pub totals: ReceiverTotals,
    /// Frames that did not count towards a flow.
    pub stray: StrayCounts,
    /// All frames that were handed in: those of the totals and the strays.
    pub arrived_frames: u64,
    /// Whole frames of this trial, all copies, with FCS (bytes).
    pub arrived_bytes: u64,
    /// When the first whole frame of this trial arrived.
    pub first_at: Option<Nanos>,
    /// When the last whole frame of this trial arrived.
    pub last_at: Option<Nanos>,
    /// One-way latency of first copies (ns).
    pub latency: Histogram,
    /// Reordering extents (RFC 4737 section 4.2.1): exact back to a flow's 16th newest hole (of more than 65 536 flows:
    /// fewer), a lower bound beyond.
    pub reorder_extent: Histogram,
    /// Reorder density (RFC 5236 section 4): displacements, late ones above zero, and how many first copies had them. Those
    /// displaced by more than 16 are not in it: they count as lost there.
    pub reorder_density: Box<[(i8, u64)]>,
    /// First copies by the part of the trial they were sent in; empty where that was not asked for.
    pub slices: Box<[u64]>,
    /// First copies by the part of the trial in which they arrived; empty likewise.
    pub arrivals: ArrivalsReport,
    /// Latency of each flow, when there are at most 256 (ns).
    pub flow_latency: Box<[Histogram]>,
    /// The balance of each flow.
    pub flows: Box<[FlowReport]>,
}
