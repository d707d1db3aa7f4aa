//! The impairments of a device or an emulated link: a chain of stages, in the order in which frames pass them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// One stage. Ratios are in units of 1e-9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Impairment {
    /// Independent random loss with one probability for all frames.
    Loss {
        /// Loss probability.
        frames_per_billion: u32,
    },
    /// Loss of every nth frame.
    LossEvery {
        /// The interval n (frames).
        frames: u64,
    },
    /// Loss by a repeated pattern.
    LossPattern {
        /// Whether each frame of the pattern is dropped.
        lost: Vec<bool>,
    },
    /// Loss in bursts (Gilbert-Elliott model).
    LossBursts {
        /// Transition probability per frame from the good to the bad state.
        to_bad_per_billion: u32,
        /// Transition probability per frame from the bad to the good state.
        to_good_per_billion: u32,
        /// Loss probability in the bad state.
        lost_in_bad_per_billion: u32,
        /// Loss probability in the good state.
        lost_in_good_per_billion: u32,
    },
    /// Corruption: one bit of a frame is inverted, with one probability for all frames.
    Corrupt {
        /// Corruption probability.
        frames_per_billion: u32,
    },
    /// Duplication: a frame is sent twice, with one probability for all frames.
    Duplicate {
        /// Duplication probability.
        frames_per_billion: u32,
    },
    /// Reordering: a frame is held back, with one probability for all frames, so that other frames overtake it.
    Reorder {
        /// Reordering probability.
        frames_per_billion: u32,
        /// Time for which a frame is held back (ns).
        by_ns: u64,
    },
    /// Delay of every frame.
    Delay {
        /// Base delay (ns).
        delay_ns: u64,
        /// Deviation from the base delay.
        #[serde(default)]
        jitter: Jitter,
        /// Probability that a frame has the same delay as the previous frame; otherwise a new delay is drawn.
        #[serde(default)]
        correlation_per_billion: u32,
        /// Whether a frame with a shorter delay may overtake other frames.
        #[serde(default)]
        overtaking: bool,
    },
    /// Stalls: frames that arrive during a stall are sent at its end.
    Stall {
        /// Duration of each stall (ns).
        length_ns: u64,
        /// Interval between the starts of consecutive stalls (ns).
        every_ns: u64,
    },
    /// A line with a queue before it.
    Line {
        /// Rate of the line.
        rate: LineRate,
        /// Queue limit; absent: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<QueueLimit>,
        /// `CoDel` (RFC 8289), which keeps the queueing delay low; absent: tail drop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codel: Option<Codel>,
        /// Queue length above which ECN-capable frames (ECT, RFC 3168) are marked; absent: frames are never marked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark_above: Option<QueueLimit>,
    },
    /// Traffic classes that share a line, with every frame of a class paced; only on emulated links.
    Pacer {
        /// Rate of the line, for frames with FCS (bit/s).
        rate_bps: u64,
        /// The traffic classes.
        classes: Vec<PacerClass>,
        /// Filters that assign frames to classes; the first match applies.
        filters: Vec<PacerFilter>,
        /// Maximum number of bytes by which the frames of any interval exceed the rate, even after the thread was
        /// delayed; a longer delay reduces the mean rate. Absent: every delay is made up (bytes).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst_bytes: Option<u64>,
        /// Class of frames that match no filter; absent: these frames are sent immediately.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<u16>,
    },
}

impl Impairment {
    /// Name of the stage's kind in messages; `codel` for a line with `CoDel`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::LossEvery { .. } => "loss_every",
            Self::LossPattern { .. } => "loss_pattern",
            Self::LossBursts { .. } => "loss_bursts",
            Self::Corrupt { .. } => "corrupt",
            Self::Duplicate { .. } => "duplicate",
            Self::Reorder { .. } => "reorder",
            Self::Delay { .. } => "delay",
            Self::Stall { .. } => "stall",
            Self::Line { codel: Some(_), .. } => "codel",
            Self::Line { .. } => "line",
            Self::Pacer { .. } => "pacer",
        }
    }
}

/// A traffic class of a pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PacerClass {
    /// Guaranteed rate (bit/s).
    pub rate_bps: u64,
    /// Maximum rate, including bandwidth borrowed from other classes (bit/s).
    pub ceil_bps: u64,
    /// Queue limit; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueLimit>,
}

/// A filter: IPv4 and IPv6 packets with these addresses belong to a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PacerFilter {
    /// Source address; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Destination address; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// Index of the class, from 0.
    pub class: u16,
}

/// Distribution of delays around the base delay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Jitter {
    /// Constant.
    #[default]
    None,
    /// Uniform, symmetric around the base delay.
    Uniform {
        /// Maximum deviation (ns).
        most_ns: u64,
    },
    /// Normally distributed.
    Normal {
        /// Standard deviation (ns).
        deviation_ns: u64,
    },
    /// Empirical: one of these additional delays, all with equal probability.
    Samples {
        /// Additional delays (ns).
        later_ns: Vec<u64>,
    },
}

/// Rate of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LineRate {
    /// Bits of frames with FCS.
    Bits {
        /// Bits per second.
        bps: u64,
    },
    /// Frames, regardless of their length.
    Frames {
        /// Number of frames per interval.
        frames: u64,
        /// Length of the interval (ns).
        per_ns: u64,
        /// Maximum number of frames that are sent back to back after an idle period.
        burst_frames: u32,
    },
    /// A variable rate, from the start of the device; the sequence is repeated.
    Trace {
        /// Duration (ns) and rate (bit/s) of each step.
        steps: Vec<(u64, u64)>,
    },
    /// Times at which bytes can be sent (a delivery trace); the sequence is repeated.
    Delivery {
        /// Time after the start of the device (ns).
        moments_ns: Vec<u64>,
        /// Number of bytes that can be sent at each time.
        bytes: u32,
    },
}

/// Limit of the queue before a line; the frame in transmission does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueLimit {
    /// Limit in frames.
    Frames {
        /// Maximum number of frames.
        frames: u64,
    },
    /// Limit in bytes, with FCS.
    Bytes {
        /// Maximum number of bytes.
        bytes: u64,
    },
    /// Limit by waiting time.
    Time {
        /// Maximum waiting time (ns).
        most_ns: u64,
    },
}

/// The parameters of `CoDel` (RFC 8289).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// Target queueing delay (ns).
    pub target_ns: u64,
    /// Interval (ns).
    pub interval_ns: u64,
    /// Whether ECN-capable frames are marked instead of dropped.
    #[serde(default = "marks")]
    pub marks: bool,
}

const fn marks() -> bool {
    true
}
