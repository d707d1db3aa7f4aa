//! Accounting of received frames: loss, duplicates, reordering and one-way latency, per flow and for every frame.
//!
//! Each direction has one receiver. Memory is allocated at construction. Receiving a frame is O(1) except after
//! sequence gaps: a gap clears one bit per missing frame, up to one window.

mod density;
mod flow;
mod report;
mod window;

use iolab_frame::{latency_ns, Corruption, Inspection, Inspector, Stamp, FLOW_LIMIT};

use crate::arrivals::Arrivals;
use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::slices::Slices;
use crate::time::Nanos;

use density::Density;
use flow::{Arrival, Flow, Jumps};
pub use report::{FlowReport, ReceiverReport, ReceiverTotals};
use window::Windows;

/// Memory limit of the windows: 65536 flows with windows of 65536 frames (bytes).
const MEMORY_LIMIT_BYTES: u64 = 512 << 20;
const PER_FLOW_HISTOGRAM_LIMIT: usize = 256;

/// The configuration of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Number of flows, 1 to 2^20.
    pub flow_count: u32,
    /// Window length: maximum distance to the newest frame of a flow at which older frames are recognised; a power of
    /// two (frames).
    pub window_frames: u32,
    /// Flow for frames without a stamp, if such frames are sent; otherwise they count as foreign.
    pub unstamped_flow: Option<u32>,
}

impl ReceiverConfig {
    /// Return a configuration for `flow_count` flows with windows of 65536 frames.
    pub const fn of_flows(flow_count: u32) -> Self {
        Self { flow_count, window_frames: 65_536, unstamped_flow: None }
    }
}

/// Counts of frames outside the flows of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct StrayCounts {
    /// Frames that the engine did not send.
    pub foreign_frames: u64,
    /// Intact frames of the engine from a different trial or direction.
    pub other_tag_frames: u64,
    /// Intact frames of this trial with an unknown flow number.
    pub unknown_flow_frames: u64,
    /// Frames of this trial with a corrupted stamp.
    pub corrupted_stamp_frames: u64,
    /// Frames of this trial with corrupted headers, or truncated.
    pub corrupted_header_frames: u64,
    /// Frames of this trial with a corrupted payload.
    pub corrupted_payload_frames: u64,
}

impl StrayCounts {
    /// Return the number of corrupted frames of this trial.
    pub const fn corrupted_frames(&self) -> u64 {
        self.corrupted_stamp_frames + self.corrupted_header_frames + self.corrupted_payload_frames
    }

    /// Return the sum of all counts.
    pub const fn frames(&self) -> u64 {
        self.corrupted_frames() + self.foreign_frames + self.other_tag_frames + self.unknown_flow_frames
    }
}

/// First copies per slice of transmit time (without a stamp: arrival time) and per slice of arrival time.
#[derive(Debug, Clone)]
struct Parts {
    sent: Slices,
    arrived: Arrivals,
}

/// Accounts for every frame that arrives in one direction.
#[derive(Debug, Clone)]
pub struct Receiver {
    flows: Box<[Flow]>,
    jumps: Jumps,
    windows: Windows,
    density: Density,
    unstamped_flow: Option<usize>,
    stray: StrayCounts,
    latency: Histogram,
    flow_latency: Box<[Histogram]>,
    extents: Histogram,
    parts: Option<Parts>,
    arrived_frames: u64,
    arrived_bytes: u64,
    first_at: Option<Nanos>,
    last_at: Option<Nanos>,
}

impl Receiver {
    /// Create an empty receiver. With at most 256 flows, each flow has a separate latency histogram (32 KiB).
    pub fn new(config: ReceiverConfig) -> Result<Self, EngineError> {
        let ReceiverConfig { flow_count, window_frames, unstamped_flow } = config;
        if !(1..=FLOW_LIMIT).contains(&flow_count) {
            return Err(EngineError::FlowCount { seen: flow_count });
        }
        if !window_frames.is_power_of_two() || !(64..=1 << 24).contains(&window_frames) {
            return Err(EngineError::Window { seen: window_frames });
        }
        let needed_bytes = u64::from(flow_count) * u64::from(window_frames) / 8;
        if needed_bytes > MEMORY_LIMIT_BYTES {
            let limit_bytes = MEMORY_LIMIT_BYTES;
            return Err(EngineError::Memory { flows: flow_count, window_frames, needed_bytes, limit_bytes });
        }
        let flows = flow_count as usize;
        let histograms = if flows <= PER_FLOW_HISTOGRAM_LIMIT { flows } else { 0 };
        Ok(Self {
            flows: vec![Flow::new(); flows].into(),
            jumps: Jumps::new(flows),
            windows: Windows::new(flows, window_frames),
            density: Density::new(flows),
            unstamped_flow: unstamped_flow.map(|flow| flow as usize).filter(|&flow| flow < flows),
            stray: StrayCounts::default(),
            latency: Histogram::new(),
            flow_latency: vec![Histogram::new(); histograms].into(),
            extents: Histogram::new(),
            parts: None,
            arrived_frames: 0,
            arrived_bytes: 0,
            first_at: None,
            last_at: None,
        })
    }

    /// Enable counts of first copies per slice of transmit time and of arrival time.
    pub fn count_parts(&mut self, begin: Nanos, duration: Nanos) {
        let (sent, arrived) = (Slices::new(begin, duration), Arrivals::new(begin, duration));
        self.parts = Some(Parts { sent, arrived });
    }

    /// Classify `frame` (without FCS) and account for it; `now` is its arrival time on the clock of the stamps.
    #[inline]
    pub fn receive(&mut self, inspector: &Inspector, frame: &[u8], now: Nanos) -> Inspection {
        let inspection = inspector.inspect(frame);
        let unstamped = match inspection {
            Inspection::Foreign => true,
            // Without stamps no stamp can be corrupted: the payload only resembles the start of a stamp.
            Inspection::Corrupted(Corruption::Stamp) => self.flows.len() == 1,
            _ => false,
        };
        if unstamped && self.account_unstamped(frame, now) {
            return inspection;
        }
        self.account(inspection, frame.len(), now);
        inspection
    }

    /// Account for a frame of `memory_bytes` (without FCS) with the class `inspection`.
    #[inline]
    pub fn account(&mut self, inspection: Inspection, memory_bytes: usize, now: Nanos) {
        self.arrived_frames += 1;
        match inspection {
            Inspection::Ours(stamp) => {
                self.arrived_bytes += memory_bytes as u64 + u64::from(iolab_frame::FCS_BYTES);
                self.first_at.get_or_insert(now);
                self.last_at = Some(now);
                self.account_stamp(stamp, now);
            }
            Inspection::Corrupted(Corruption::Stamp) => self.stray.corrupted_stamp_frames += 1,
            Inspection::Corrupted(Corruption::Headers) => self.stray.corrupted_header_frames += 1,
            Inspection::Corrupted(Corruption::Payload) => self.stray.corrupted_payload_frames += 1,
            Inspection::OtherTag(_) => self.stray.other_tag_frames += 1,
            Inspection::Foreign => self.stray.foreign_frames += 1,
        }
    }

    /// Return the number of all frames passed to the receiver; constant after the drain.
    pub const fn arrived_frames(&self) -> u64 {
        self.arrived_frames
    }

    /// Return the counts of frames outside the flows of the trial.
    pub const fn stray(&self) -> StrayCounts {
        self.stray
    }

    /// Return the one-way latency of first copies of all flows (ns).
    pub const fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Return the counts so far; loss is known only after [`Self::finish`].
    pub fn totals(&self) -> ReceiverTotals {
        let mut totals = ReceiverTotals::default();
        self.flows.iter().for_each(|flow| totals.add(&flow.report(0)));
        totals.lost_frames = 0;
        totals.surplus_frames = 0;
        totals
    }

    /// Compute the final counts from the number of frames sent on each flow.
    pub fn finish(mut self, sent_per_flow: &[u64]) -> Result<ReceiverReport, EngineError> {
        if sent_per_flow.len() != self.flows.len() {
            return Err(EngineError::SentCounts { seen: sent_per_flow.len(), count: self.flows.len() });
        }
        let reports = self.flows.iter().zip(sent_per_flow).map(|(flow, &sent)| flow.report(sent));
        let flows: Box<[FlowReport]> = reports.collect();
        let mut totals = ReceiverTotals::default();
        flows.iter().for_each(|flow| totals.add(flow));
        for (index, flow) in self.flows.iter().enumerate() {
            flow.finish(index, &self.windows, &mut self.density);
        }
        Ok(ReceiverReport {
            totals,
            stray: self.stray,
            arrived_frames: self.arrived_frames,
            arrived_bytes: self.arrived_bytes,
            first_at: self.first_at,
            last_at: self.last_at,
            latency: self.latency,
            reorder_extent: self.extents,
            reorder_density: self.density.counts(),
            slices: self.parts.as_ref().map_or_else(Box::default, |parts| parts.sent.counts().into()),
            arrivals: self.parts.map(|parts| parts.arrived.report()).unwrap_or_default(),
            flow_latency: self.flow_latency,
            flows,
        })
    }

    /// Count a frame without a stamp, if such frames are sent; exclude group addresses, to which neighbour
    /// solicitations and similar frames are sent.
    #[inline]
    fn account_unstamped(&mut self, frame: &[u8], now: Nanos) -> bool {
        let Some(flow) = self.unstamped_flow.filter(|_| frame.first().is_some_and(|byte| byte & 1 == 0))
        else {
            return false;
        };
        self.arrived_frames += 1;
        self.arrived_bytes += frame.len() as u64 + u64::from(iolab_frame::FCS_BYTES);
        self.first_at.get_or_insert(now);
        self.last_at = Some(now);
        self.flows[flow].arrive_unstamped();
        if let Some(parts) = &mut self.parts {
            parts.sent.note(now);
            parts.arrived.note_untimed(now);
        }
        true
    }

    #[inline]
    fn account_stamp(&mut self, stamp: Stamp, now: Nanos) {
        let index = stamp.flow as usize;
        let Some(flow) = self.flows.get_mut(index) else {
            self.stray.unknown_flow_frames += 1;
            return;
        };
        match flow.arrive(stamp.sequence, index, &mut self.windows, &mut self.jumps, &mut self.density) {
            Arrival::InOrder => {}
            Arrival::Reordered { extent } => self.extents.record(extent),
            Arrival::Duplicate | Arrival::TooLate => return,
        }
        let latency = latency_ns(stamp.tx_time_ns, now.0);
        if let Some(parts) = &mut self.parts {
            // A stamp has only the low bits of the transmit time, so the full time is computed from the latency.
            parts.sent.note(Nanos(now.0.saturating_add_signed(-latency)));
            parts.arrived.note(now, latency);
        }
        if let Ok(latency) = u64::try_from(latency) {
            flow.note_latency(latency);
            self.latency.record(latency);
            if let Some(histogram) = self.flow_latency.get_mut(index) {
                histogram.record(latency);
            }
        } else {
            flow.negative_latency_frames += 1;
        }
    }
}
