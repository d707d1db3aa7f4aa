//! The transmit side: pacer, schedule and sequence numbers. The generator plans frames; it writes no bytes.

use serde::Serialize;

use crate::error::EngineError;
use crate::pacer::{Decision, Pacer, PacerConfig, PacerStats};
use crate::schedule::Schedule;
use crate::time::Nanos;

/// The plan of one frame to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlan {
    /// Index of the frame size in the mix.
    pub size: usize,
    /// Flow number.
    pub flow: u32,
    /// Frame number within the flow.
    pub sequence: u64,
    /// Transmit time for the stamp.
    pub tx_time: Nanos,
}

/// The result of a generator.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct GeneratorReport {
    /// Pacing statistics of the sent frames.
    pub pacing: PacerStats,
    /// Number of frames per flow that the interface accepted.
    pub sent_per_flow: Box<[u64]>,
}

impl GeneratorReport {
    /// Add the report of a different sender of the same stream; each flow belongs to one sender.
    pub fn merge(&mut self, other: Self) {
        self.pacing.merge(other.pacing);
        for (frames, more) in self.sent_per_flow.iter_mut().zip(&other.sent_per_flow) {
            *frames += more;
        }
    }
}

/// Decides which frame is sent at which time.
#[derive(Debug, Clone)]
pub struct Generator {
    pacer: Pacer,
    schedule: Schedule,
    next_sequences: Box<[u64]>,
    discarded: Box<[u64]>,
}

impl Generator {
    /// Create a generator for frames of `sizes`, paced by `config`, in the order of `schedule`, which must have the
    /// same sizes.
    pub fn new(
        config: &PacerConfig,
        sizes: &iolab_frame::SizeMix,
        schedule: Schedule,
    ) -> Result<Self, EngineError> {
        let flows = schedule.flow_count() as usize;
        Ok(Self {
            pacer: Pacer::shared(config, sizes, schedule.share())?,
            schedule,
            next_sequences: vec![0; flows].into(),
            discarded: vec![0; flows].into(),
        })
    }

    /// Create a generator for a recording in the order of `schedule`: with the recorded times (ns) scaled to the rate
    /// of `config`, or evenly spaced without times.
    pub fn recorded(
        config: &PacerConfig,
        times_ns: Option<&[u64]>,
        schedule: Schedule,
    ) -> Result<Self, EngineError> {
        let flows = schedule.flow_count() as usize;
        Ok(Self {
            pacer: Pacer::recorded(config, times_ns.unwrap_or_default())?,
            schedule,
            next_sequences: vec![0; flows].into(),
            discarded: vec![0; flows].into(),
        })
    }

    /// Return the decision for the time `now`; see [`Pacer::poll`].
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Decision {
        self.pacer.poll(now)
    }

    /// Return the frame to send at `now`; call it once after each [`Decision::Send`].
    #[inline]
    pub fn take(&mut self, now: Nanos) -> FramePlan {
        let (size, flow) = self.schedule.next();
        self.pacer.advance(now, size);
        let next = &mut self.next_sequences[flow as usize];
        let sequence = *next;
        *next += 1;
        FramePlan { size, flow, sequence, tx_time: now }
    }

    /// Retract a frame that the interface did not accept; the frame counts as unsent. Retract several frames in
    /// reverse order: then their sequence numbers are reused and the receiver detects no loss.
    pub fn retract(&mut self, plan: &FramePlan) {
        let flow = plan.flow as usize;
        if self.next_sequences[flow] == plan.sequence + 1 {
            self.next_sequences[flow] -= 1;
        } else {
            self.discarded[flow] += 1;
        }
        self.pacer.retract();
    }

    /// Record that a frame is due but the transmit ring is full; see [`Pacer::note_blocked`].
    pub const fn note_blocked(&mut self) {
        self.pacer.note_blocked();
    }

    /// Return the pacer for reading its state.
    pub const fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Return the final report, after the last frame.
    pub fn finish(self) -> GeneratorReport {
        let counts = self.next_sequences.iter().zip(&self.discarded);
        let sent_per_flow = counts.map(|(next, discarded)| next - discarded).collect();
        GeneratorReport { pacing: self.pacer.finish(), sent_per_flow }
    }
}
