//! What can be wrong with a configuration of the engine, and with counts handed to it.

use thiserror::Error;

/// Why the engine refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A rate of zero, or with a divisor of zero, or too large to be scheduled in whole numbers.
    #[error(
        "rate {numerator}/{denominator} per second cannot be scheduled; it must be above 0 and below 2^62"
    )]
    Rate {
        /// The numerator asked for.
        numerator: u64,
        /// The denominator asked for.
        denominator: u64,
    },
    /// A rate above what the declared line carries.
    #[error(
        "rate: {seen_bps} bit/s on the line (with preamble and gap) asked for, the line carries {line_bps}; \
         lower the rate or declare a faster line"
    )]
    AboveLine {
        /// The rate asked for, on layer 1 (bit/s).
        seen_bps: u64,
        /// The line's rate (bit/s).
        line_bps: u64,
    },
    /// A longest burst outside 1 to 64.
    #[error("a burst of at most {seen} frames asked for; choose 1 to 64")]
    MaxBurst {
        /// The number asked for.
        seen: u32,
    },
    /// Neither a number of frames nor a duration.
    #[error("a trial without end: give a number of frames, a duration, or both")]
    NoLimit,
    /// A number of flows outside what a stamp can name.
    #[error("{seen} flows asked for; there can be 1 to 1048576")]
    FlowCount {
        /// The number asked for.
        seen: u32,
    },
    /// Flows that cannot be spread over senders so that each has its own.
    #[error("{flows} flows asked for over {of} senders, this one number {place}; the flows must be a multiple of the senders")]
    Share {
        /// Which sender, from 0.
        place: u32,
        /// How many senders.
        of: u32,
        /// How many flows.
        flows: u32,
    },
    /// A rate that is not counted in frames, over several senders: the time of a frame would depend on those of the others.
    #[error("a rate in bits asked for over {of} senders; give it in frames")]
    SharedBits {
        /// How many senders.
        of: u32,
    },
    /// A window that is no power of two from 64 to 2^24 frames.
    #[error("window of {seen} frames asked for; choose a power of two from 64 to 16777216")]
    Window {
        /// The length asked for (frames).
        seen: u32,
    },
    /// More memory than the receiver may take.
    #[error(
        "{flows} flows with windows of {window_frames} frames need {needed_bytes} B, {limit_bytes} B are allowed; \
         use fewer flows or a shorter window"
    )]
    Memory {
        /// The number of flows.
        flows: u32,
        /// The window of each (frames).
        window_frames: u32,
        /// What they need (bytes).
        needed_bytes: u64,
        /// What they may take (bytes).
        limit_bytes: u64,
    },
    /// Counts of another number of flows than the receiver's.
    #[error("sent counts of {seen} flows given, the receiver has {count} flows")]
    SentCounts {
        /// The number of counts given.
        seen: usize,
        /// The number of flows.
        count: usize,
    },
    /// A setting of the monitor or of a device that makes no sense.
    #[error("{what}: {seen} is not allowed; {allowed}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// What was given.
        seen: u64,
        /// What is allowed, in words.
        allowed: &'static str,
    },
}
