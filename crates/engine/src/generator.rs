//! The sending half: pacer, schedule and sequence numbers as one. Gives plans of frames, writes no bytes.

use serde::Serialize;

use crate::error::EngineError;
use crate::pacer::{Decision, Pacer, PacerConfig, PacerStats};
use crate::schedule::Schedule;
use crate::time::Nanos;

/// One frame to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlan {
    /// Its size, as an index of the mix.
    pub size: usize,
    /// Its flow.
    pub flow: u32,
    /// Its number within the flow.
    pub sequence: u64,
    /// The time for its stamp.
    pub tx_time: Nanos,
}

/// What was sent.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct GeneratorReport {
    /// When and how the frames left.
    pub pacing: PacerStats,
    /// Frames that the interface accepted, by flow.
    pub sent_per_flow: Box<[u64]>,
}

impl GeneratorReport {
    /// Add what another sender of the same stream sent; each flow is of one of them.
    pub fn merge(&mut self, other: Self) {
        self.pacing.merge(other.pacing);
        for (frames, more) in self.sent_per_flow.iter_mut().zip(&other.sent_per_flow) {
            *frames += more;
        }
    }
}

/// Decides what is sent when.
#[derive(Debug, Clone)]
pub struct Generator {
    pacer: Pacer,
    schedule: Schedule,
    next_sequences: Box<[u64]>,
    discarded: Box<[u64]>,
}

impl Generator {
    /// Frames of `sizes`, paced by `config`, in the order of `schedule` (which is of the same sizes).
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

    /// The frames of a recording in the order of `schedule`; with the times at which they were recorded (ns), if these are
    /// given, stretched to the rate of `config`.
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

    /// Decide what to do at `now`: see [`Pacer::poll`].
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Decision {
        self.pacer.poll(now)
    }

    /// The frame to send at `now`, once after each [`Decision::Send`].
    #[inline]
    pub fn take(&mut self, now: Nanos) -> FramePlan {
        let (size, flow) = self.schedule.next();
        self.pacer.advance(now, size);
        let next = &mut self.next_sequences[flow as usize];
        let sequence = *next;
        *next += 1;
        FramePlan { size, flow, sequence, tx_time: now }
    }

    /// Take back a frame that the interface did not accept: it counts as unsent. With several, begin with the last:
    /// their sequence numbers are then given again, and the receiver sees no hole.
    pub fn retract(&mut self, plan: &FramePlan) {
        let flow = plan.flow as usize;
        if self.next_sequences[flow] == plan.sequence + 1 {
            self.next_sequences[flow] -= 1;
        } else {
            self.discarded[flow] += 1;
        }
        self.pacer.retract();
    }

    /// Note that a frame is due but the interface has no room: see [`Pacer::note_blocked`].
    pub const fn note_blocked(&mut self) {
        self.pacer.note_blocked();
    }

    /// The pacer, to read its state.
    pub const fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Close the books after the last frame.
    pub fn finish(self) -> GeneratorReport {
        let counts = self.next_sequences.iter().zip(&self.discarded);
        let sent_per_flow = counts.map(|(next, discarded)| next - discarded).collect();
        GeneratorReport { pacing: self.pacer.finish(), sent_per_flow }
    }
}
