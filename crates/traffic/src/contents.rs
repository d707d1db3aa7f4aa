//! The frames of a sender, from a template or a recording.

use std::collections::HashMap;
use std::sync::Arc;

use iolab_engine::{EngineError, FramePlan, Generator, Order, PacerConfig, Schedule, Share};
use iolab_frame::{FrameTemplate, Recording, Replay, SizeMix, WireError};

/// The recordings of a set of ports, by name.
pub type Recordings = HashMap<String, Arc<Recording>>;

/// Frames from a template.
#[derive(Debug, Clone)]
pub struct Made {
    pub template: FrameTemplate,
    pub mix: SizeMix,
    /// Frame lengths in the order of the mix (bytes, without FCS).
    pub sizes_bytes: Box<[usize]>,
    pub size_order: Order,
    pub flow_order: Order,
}

/// Frames from a recording.
#[derive(Debug, Clone)]
pub struct Replayed {
    pub replay: Replay,
    pub as_recorded: bool,
}

/// The source of a sender's frames.
#[derive(Debug, Clone)]
pub enum Contents {
    Made(Made),
    Replayed(Replayed),
}

impl Contents {
    /// Write the part that all frames share to a buffer.
    pub fn prime(&self, buffer: &mut [u8]) {
        if let Self::Made(made) = self {
            let _ = made.template.prime(buffer);
        }
    }

    /// Write a frame to a primed buffer.
    #[inline]
    pub fn emit_primed(&self, plan: &FramePlan, buffer: &mut [u8]) -> Result<usize, WireError> {
        let (size, sequence, time_ns) = (plan.size, plan.sequence, plan.tx_time.0);
        match self {
            Self::Made(made) => made.template.emit_primed(size, plan.flow, sequence, time_ns, buffer),
            Self::Replayed(replayed) => replayed.replay.emit(size, sequence, time_ns, buffer),
        }
    }

    /// Write a frame with the transmit time `tx_time_ns` to any buffer.
    pub fn emit(&self, plan: &FramePlan, tx_time_ns: u64, buffer: &mut [u8]) -> Result<usize, WireError> {
        match self {
            Self::Made(made) => made.template.emit(plan.size, plan.flow, plan.sequence, tx_time_ns, buffer),
            Self::Replayed(replayed) => replayed.replay.emit(plan.size, plan.sequence, tx_time_ns, buffer),
        }
    }

    /// Return the length of a frame without FCS (bytes).
    #[inline]
    pub fn bytes(&self, size: usize) -> usize {
        match self {
            Self::Made(made) => made.sizes_bytes[size],
            Self::Replayed(replayed) => replayed.replay.recording.memory_bytes(size).unwrap_or(0),
        }
    }

    /// Return the length of the longest frame without FCS (bytes).
    pub fn largest_bytes(&self) -> usize {
        match self {
            Self::Made(made) => made.template.largest_bytes(),
            Self::Replayed(replayed) => replayed.replay.recording.largest_bytes(),
        }
    }

    /// Create the generator of one thread.
    pub fn generator(&self, config: &PacerConfig, share: Share) -> Result<Generator, EngineError> {
        match self {
            Self::Made(Made { mix, size_order, flow_order, .. }) => {
                let schedule = Schedule::shared(mix, *size_order, self.flow_count(), *flow_order, share)?;
                Generator::new(config, mix, schedule)
            }
            Self::Replayed(Replayed { replay, as_recorded }) => {
                let schedule = Schedule::recorded(replay.recording.flows(), self.flow_count())?;
                let times_ns = as_recorded.then(|| replay.recording.times_ns());
                Generator::recorded(config, times_ns, schedule)
            }
        }
    }

    /// Return the number of flows in the schedule; the unstamped frames of a recording count as one additional flow.
    pub fn flow_count(&self) -> u32 {
        match self {
            Self::Made(made) => u32::try_from(made.template.flow_count()).unwrap_or(u32::MAX),
            Self::Replayed(replayed) => {
                let recording = &replayed.replay.recording;
                recording.flow_count() + u32::from(recording.unstamped_frames() > 0)
            }
        }
    }

    /// Return the number of flows in the receiver's accounts: all flows, or one if the frames have no stamp.
    pub fn accounts(&self) -> u32 {
        match self {
            Self::Made(made) if !made.template.is_stamped() => 1,
            _ => self.flow_count(),
        }
    }

    /// Return the account of frames without a stamp, if such frames are sent.
    pub fn unstamped_flow(&self) -> Option<u32> {
        match self {
            Self::Made(made) => (!made.template.is_stamped()).then_some(0),
            Self::Replayed(replayed) => {
                let recording = &replayed.replay.recording;
                (recording.unstamped_frames() > 0).then(|| recording.flow_count())
            }
        }
    }

    /// Convert sent frames per flow to sent frames per account.
    pub fn per_account(&self, sent_per_flow: Box<[u64]>) -> Box<[u64]> {
        match self {
            Self::Made(made) if !made.template.is_stamped() => Box::new([sent_per_flow.iter().sum()]),
            _ => sent_per_flow,
        }
    }

    /// Return the tag of the stamps and the stamp offset in a sent frame (bytes).
    pub fn stamps(&self) -> (u16, usize) {
        match self {
            Self::Made(made) => (made.template.tag(), made.template.stamp_offset()),
            Self::Replayed(replayed) => (replayed.replay.tag, 0),
        }
    }
}
