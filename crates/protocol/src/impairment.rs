//! What a device or a path does to frames: the stages of a chain, in the order in which frames pass them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// One stage. Ratios are in parts of 1 000 000 000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Impairment {
    /// Each frame is lost with the same probability.
    Loss {
        /// The probability.
        frames_per_billion: u32,
    },
    /// Frames n, 2n, 3n, and so on are lost.
    LossEvery {
        /// The n.
        frames: u64,
    },
    /// Frames are lost by a pattern that begins again at its end.
    LossPattern {
        /// Whether each frame of it is lost.
        lost: Vec<bool>,
    },
    /// Frames are lost in bursts (Gilbert and Elliott).
    LossBursts {
        /// From the good state to the bad one, before each frame.
        to_bad_per_billion: u32,
        /// From the bad state to the good one, before each frame.
        to_good_per_billion: u32,
        /// Loss in the bad state.
        lost_in_bad_per_billion: u32,
        /// Loss in the good state.
        lost_in_good_per_billion: u32,
    },
    /// One bit of a frame is inverted, each frame with the same probability.
    Corrupt {
        /// The probability.
        frames_per_billion: u32,
    },
    /// A frame is sent twice, each with the same probability.
    Duplicate {
        /// The probability.
        frames_per_billion: u32,
    },
    /// A frame is held back, each with the same probability, so that others overtake it.
    Reorder {
        /// The probability.
        frames_per_billion: u32,
        /// How long it is held (ns).
        by_ns: u64,
    },
    /// Each frame leaves so long after it arrived.
    Delay {
        /// How long (ns).
        delay_ns: u64,
        /// How far from it.
        #[serde(default)]
        jitter: Jitter,
        /// A frame's delay is that of the frame before with this ratio, and otherwise drawn again.
        #[serde(default)]
        correlation_per_billion: u32,
        /// Whether a frame with a shorter delay may overtake others.
        #[serde(default)]
        overtaking: bool,
    },
    /// Frames that arrive in a stall leave at its end.
    Stall {
        /// How long each stall lasts (ns).
        length_ns: u64,
        /// From the begin of one stall to the begin of the next (ns).
        every_ns: u64,
    },
    /// A line with a queue before it.
    Line {
        /// How fast it sends.
        rate: LineRate,
        /// What may wait; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<QueueLimit>,
        /// Keeps the delay of the queue low (RFC 8289); absent: what does not fit is dropped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codel: Option<Codel>,
        /// A frame that says it can be marked (ECT, RFC 3168) is, when more than this waits; absent: none is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark_above: Option<QueueLimit>,
    },
    /// Classes of frames that share a line, every frame of a class spaced. Of wires alone.
    Pacer {
        /// Of the line, in bits of frames with FCS (bit/s).
        rate_bps: u64,
        /// The classes.
        classes: Vec<PacerClass>,
        /// Which frames belong to which class: the first filter that fits holds.
        filters: Vec<PacerFilter>,
        /// What leaves at most above the rate, in any time, whatever holds the thread: what is later than this allows is lost to
        /// the rate. Absent: all that is late is caught up (bytes).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst_bytes: Option<u64>,
        /// The class of frames that no filter fits; absent: they leave when they arrive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<u16>,
    },
}

impl Impairment {
    /// Its kind, as in messages; that of a line whose queue is kept short is `codel`.
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

/// A class of a pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PacerClass {
    /// What it is sure to get (bit/s).
    pub rate_bps: u64,
    /// What it may have when others leave it over (bit/s).
    pub ceil_bps: u64,
    /// What may wait; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueLimit>,
}

/// Which frames belong to a class: packets with these addresses, of either version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PacerFilter {
    /// The source; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The destination; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// The place of the class, from 0.
    pub class: u16,
}

/// How far delays lie from their base.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Evenly to both sides.
    Uniform {
        /// At most (ns).
        most_ns: u64,
    },
    /// Normally distributed.
    Normal {
        /// The standard deviation (ns).
        deviation_ns: u64,
    },
    /// One of these later, each as likely as every other.
    Samples {
        /// How much later (ns).
        later_ns: Vec<u64>,
    },
}

/// How fast a line sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LineRate {
    /// Bits of frames with FCS.
    Bits {
        /// How many in a second.
        bps: u64,
    },
    /// Frames, whatever their length.
    Frames {
        /// How many.
        frames: u64,
        /// In how long (ns).
        per_ns: u64,
        /// How many leave at once after a pause.
        burst_frames: u32,
    },
    /// A rate that changes, from the start of the device on; it begins again at its end.
    Trace {
        /// How long each rate holds (ns), and the rate (bit/s).
        steps: Vec<(u64, u64)>,
    },
    /// Moments at which bytes may leave; it begins again at its end.
    Delivery {
        /// After the start of the device (ns).
        moments_ns: Vec<u64>,
        /// How many may leave at each (bytes).
        bytes: u32,
    },
}

/// What may wait before a line; the frame on it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueLimit {
    /// So many frames.
    Frames {
        /// How many.
        frames: u64,
    },
    /// So many bytes, with FCS.
    Bytes {
        /// How many.
        bytes: u64,
    },
    /// What waits no longer than this.
    Time {
        /// How long (ns).
        most_ns: u64,
    },
}

/// The parameters of RFC 8289.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// The delay that a queue may keep (ns).
    pub target_ns: u64,
    /// For how long it may be longer (ns).
    pub interval_ns: u64,
    /// Whether frames that can be marked are, in place of being dropped.
    #[serde(default = "marks")]
    pub marks: bool,
}

const fn marks() -> bool {
    true
}
