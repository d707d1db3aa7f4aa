//! The parameters and results of `watch.*`: instruments that count the frames that pass interfaces.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// The side of the stack on which a watch observes an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchHook {
    /// Ingress: received frames.
    Ingress,
    /// Egress: frames to send, before they are queued.
    Egress,
}

/// The mechanism by which a watch observes frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchBy {
    /// A BPF program, or `AF_PACKET` if BPF is not available.
    #[default]
    Auto,
    /// A BPF program.
    Bpf,
    /// `AF_PACKET`, with the kernel's time stamps.
    Packet,
}

/// A point at which a watch observes frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchPoint {
    /// The namespace of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface.
    pub interface: String,
    /// The side.
    pub hook: WatchHook,
}

/// Parameters of `watch.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchStart {
    /// The controller's name for the watch.
    pub id: String,
    /// The points; each has separate counters.
    pub points: Vec<WatchPoint>,
    /// The mechanism.
    #[serde(default)]
    pub by: WatchBy,
    /// Window lengths, in whole microseconds (ns).
    pub windows_ns: Vec<u64>,
    /// Rate of the modelled line (bit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_bps: Option<u64>,
    /// Maximum gap between frames of a train, exclusive (ns).
    pub train_gap_ns: u64,
    /// Rates of the modelled token buckets (bit/s).
    #[serde(default)]
    pub rates_bps: Vec<u64>,
    /// Depths of the modelled buffers before the line (bytes).
    #[serde(default)]
    pub buffers_bytes: Vec<u64>,
    /// Maximum number of flows with separate counters, in windows of the first length.
    #[serde(default)]
    pub flows: usize,
    /// Memory for the individual windows of a point (bytes).
    pub kept_bytes: usize,
}

/// Result of `watch.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchStarted {
    /// Mechanism of each point: `tcx`, `clsact` or `af_packet`.
    pub by: Vec<String>,
    /// The reason why no better mechanism is used.
    pub fallbacks: Vec<String>,
    /// Time at which all points were ready (ns).
    pub begin_ns: u64,
}

/// Parameters of `watch.stop` and `watch.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchName {
    /// The watch.
    pub id: String,
}

/// The traffic that the windows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchView {
    /// Frames at their arrival times.
    Arrival,
    /// Frames at the times of the modelled line.
    Line,
}

/// All windows of one length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchWindows {
    /// The counted traffic.
    pub view: WatchView,
    /// Window length (ns).
    pub window_ns: u64,
    /// Index of the first window, which starts at this multiple of the length.
    pub first: u64,
    /// Number of windows from the first to the last with a frame.
    pub windows: u64,
    /// Number of empty windows between the first and the last window with a frame.
    pub idle_windows: u64,
    /// Total number of bytes.
    pub bytes: u64,
    /// Total number of frames.
    pub frames: u64,
    /// Sum of the squared frame counts of the windows.
    pub frames_squared: u64,
    /// Frames with an earlier time stamp than a previous frame; they are counted in that frame's window.
    pub late_frames: u64,
    /// Number of windows with frames that are not kept individually for lack of memory.
    pub left_out: u64,
    /// Histogram of the bytes per window.
    pub histogram: Histogram,
}

/// Statistics of trains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchTrains {
    /// Histogram of frames per train.
    pub frames: Histogram,
    /// Histogram of bytes per train.
    pub bytes: Histogram,
    /// Histogram of train durations, from first to last frame (ns).
    pub lengths_ns: Histogram,
    /// Histogram of intervals between the first frames of consecutive trains (ns).
    pub intervals_ns: Histogram,
    /// Histogram of gaps between frames (ns).
    pub gaps_ns: Histogram,
}

/// The smallest token bucket of a given rate to which the traffic conforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchBucket {
    /// Token rate, at which the bucket drains (bit/s).
    pub rate_bps: u64,
    /// Bucket depth (bytes).
    pub depth_bytes: u64,
    /// Bucket level at the end; greater than zero if the traffic exceeded the rate until the end (bytes).
    pub left_bytes: u64,
}

/// Losses of a modelled buffer before the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchLoss {
    /// Buffer depth (bytes).
    pub depth_bytes: u64,
    /// Lost traffic (bytes on the line).
    pub lost_bytes: u64,
    /// Offered traffic (bytes on the line).
    pub offered_bytes: u64,
}

/// Results of the modelled line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchLine {
    /// Busy time (ns).
    pub busy_ns: u64,
    /// Depth of the smallest buffer without losses (bytes).
    pub needs: WatchBucket,
    /// Losses of smaller buffers.
    pub losses: Vec<WatchLoss>,
}

/// A flow; the addresses are empty for the remaining flows and for non-IP frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchFlow {
    /// Source address.
    pub source: String,
    /// Destination address.
    pub destination: String,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Whether the entry combines all flows without separate counters.
    pub rest: bool,
    /// The flow's windows.
    pub windows: WatchWindows,
}

/// Interface counters around a watch, each read twice; frames that passed between the two readings are in only one of
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchCounted {
    /// Lower bound of the traffic, by the interface's counters (bytes).
    pub least_bytes: u64,
    /// Upper bound (bytes).
    pub most_bytes: u64,
    /// Lower bound (frames).
    pub least_frames: u64,
    /// Upper bound (frames).
    pub most_frames: u64,
}

/// Results of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchedPoint {
    /// The mechanism.
    pub by: String,
    /// Time of the first frame (ns).
    pub first_ns: Option<u64>,
    /// Time of the last frame (ns).
    pub last_ns: Option<u64>,
    /// Bytes of headers and tags that are on the line, but not in the stack's packets.
    pub added_bytes: u64,
    /// Number of frames on the line beyond the number of the stack's packets.
    pub added_frames: u64,
    /// Number of frames outside all windows.
    pub lost_frames: u64,
    /// Bytes of the frames outside all windows.
    pub lost_bytes: u64,
    /// If the kernel distributes packets to other CPUs (RPS): frames without an earlier kernel time stamp, counted in
    /// the window in which a different CPU processed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstamped_frames: Option<u64>,
    /// The interface counters.
    pub counted: WatchCounted,
    /// Windows by length and kind of traffic.
    pub windows: Vec<WatchWindows>,
    /// Statistics of trains.
    pub trains: WatchTrains,
    /// Token buckets by rate.
    pub curve: Vec<WatchBucket>,
    /// Results of the modelled line, if requested.
    pub line: Option<WatchLine>,
    /// Flows, if they are counted separately.
    pub flows: Vec<WatchFlow>,
}

/// A period with CPU steal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchStolen {
    /// Time of the reading before the steal (ns).
    pub begin_ns: u64,
    /// Time of the reading after the steal (ns).
    pub end_ns: u64,
    /// Stolen CPU time of all CPUs (ns).
    pub steal_ns: u64,
}

/// Result of `watch.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// Results of the points, in the order of the request.
    pub points: Vec<WatchedPoint>,
    /// Periods with CPU steal.
    pub stolen: Vec<WatchStolen>,
    /// CPU time of the thread that read the counters (ns).
    pub cpu_ns: u64,
    /// Time at which all points were ready (ns).
    pub begin_ns: u64,
    /// End of counting (ns).
    pub end_ns: u64,
}

/// Parameters of `watch.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchRead {
    /// The watch, which must be stopped.
    pub id: String,
    /// Index of the point.
    pub point: usize,
    /// Index of the windows in that point or flow.
    pub windows: usize,
    /// Index of the flow; absent: the windows of the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<usize>,
    /// Offset of the first entry to return.
    #[serde(default)]
    pub offset_bytes: usize,
}

/// Result of `watch.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchPart {
    /// Entries `step << frame_bits | frames`, bytes; each number in groups of seven bits, the least significant first,
    /// in Base64.
    pub packed: String,
    /// Number of bits of the frame count in an entry's first number.
    pub frame_bits: u32,
    /// Number of all entries.
    pub total_bytes: usize,
}
