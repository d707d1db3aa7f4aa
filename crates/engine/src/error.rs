//! Errors in the engine's configuration, and in counts passed to the engine.

use thiserror::Error;

/// The reason why the engine refuses its input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The rate is zero, has a zero denominator, or is too large for integer scheduling.
    #[error(
        "rate {numerator}/{denominator} per second cannot be scheduled; it must be above 0 and below 2^62"
    )]
    Rate {
        /// Numerator of the requested rate.
        numerator: u64,
        /// Denominator of the requested rate.
        denominator: u64,
    },
    /// The rate exceeds the declared line rate.
    #[error(
        "rate: {seen_bps} bit/s on the line (with preamble and gap) asked for, the line carries {line_bps}; \
         lower the rate or declare a faster line"
    )]
    AboveLine {
        /// Requested rate on layer 1 (bit/s).
        seen_bps: u64,
        /// Line rate (bit/s).
        line_bps: u64,
    },
    /// The maximum burst is outside 1 to 64 frames.
    #[error("a burst of at most {seen} frames asked for; choose 1 to 64")]
    MaxBurst {
        /// Requested maximum burst (frames).
        seen: u32,
    },
    /// The limit of a trial has neither a number of frames nor a duration.
    #[error("a trial needs a number of frames, a duration, or both")]
    NoLimit,
    /// The number of flows is outside the range of the stamp's flow field.
    #[error("{seen} flows asked for; there can be 1 to 1048576")]
    FlowCount {
        /// Requested number of flows.
        seen: u32,
    },
    /// The flows cannot be divided among the senders such that each flow has one sender.
    #[error("{flows} flows asked for over {of} senders, this one number {place}; the flows must be a multiple of the senders")]
    Share {
        /// Index of the sender, from 0.
        place: u32,
        /// Number of senders.
        of: u32,
        /// Number of flows.
        flows: u32,
    },
    /// A rate in bits cannot be divided among several senders: the transmit time of a frame would depend on the frame
    /// sizes of the other senders.
    #[error("a rate in bits asked for over {of} senders; give it in frames")]
    SharedBits {
        /// Number of senders.
        of: u32,
    },
    /// The window is not a power of two from 64 to 2^24 frames.
    #[error("window of {seen} frames asked for; choose a power of two from 64 to 16777216")]
    Window {
        /// Requested window length (frames).
        seen: u32,
    },
    /// The receiver would exceed its memory limit.
    #[error(
        "{flows} flows with windows of {window_frames} frames need {needed_bytes} B, {limit_bytes} B are allowed; \
         use fewer flows or a shorter window"
    )]
    Memory {
        /// Number of flows.
        flows: u32,
        /// Window length per flow (frames).
        window_frames: u32,
        /// Required memory (bytes).
        needed_bytes: u64,
        /// Memory limit (bytes).
        limit_bytes: u64,
    },
    /// The counts of sent frames are not as many as the receiver has flows.
    #[error("sent counts of {seen} flows given, the receiver has {count} flows")]
    SentCounts {
        /// Number of counts of sent frames.
        seen: usize,
        /// Number of flows.
        count: usize,
    },
    /// A setting of the monitor or of a device is invalid.
    #[error("{what}: {seen} is not allowed; {allowed}")]
    Setting {
        /// Name of the setting.
        what: &'static str,
        /// Invalid value.
        seen: u64,
        /// Description of the allowed values.
        allowed: &'static str,
    },
}
