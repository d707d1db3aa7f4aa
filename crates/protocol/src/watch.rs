//! The parameters and results of `watch.*`: instruments that count what passes interfaces, and of captures.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// On which side of the stack an interface is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchHook {
    /// Where frames come in.
    Ingress,
    /// Where frames leave, before they are queued.
    Egress,
}

/// How a frame is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchBy {
    /// By a program in the kernel, or else by `AF_PACKET`.
    #[default]
    Auto,
    /// By a program in the kernel.
    Bpf,
    /// By `AF_PACKET`, with the kernel's stamps.
    Packet,
}

/// Where frames are seen.
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

/// Of `watch.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchStart {
    /// The controller's name for it.
    pub id: String,
    /// Where; each is counted by itself.
    pub points: Vec<WatchPoint>,
    /// How.
    #[serde(default)]
    pub by: WatchBy,
    /// The lengths of windows, whole microseconds (ns).
    pub windows_ns: Vec<u64>,
    /// Rate of the line that is thought of (bit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_bps: Option<u64>,
    /// Frames less than that apart are of one train (ns).
    pub train_gap_ns: u64,
    /// Rates at which a token bucket is thought of (bit/s).
    #[serde(default)]
    pub rates_bps: Vec<u64>,
    /// Depths of buffers that are thought of before the line (bytes).
    #[serde(default)]
    pub buffers_bytes: Vec<u64>,
    /// How many flows are counted apart, in windows of the first length.
    #[serde(default)]
    pub flows: usize,
    /// What the windows of a point that are kept one by one may take (bytes).
    pub kept_bytes: usize,
}

/// Result of `watch.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchStarted {
    /// By what each point is seen: `tcx`, `clsact` or `af_packet`.
    pub by: Vec<String>,
    /// Why it is nothing better.
    pub fallbacks: Vec<String>,
    /// When all were in place (ns).
    pub begin_ns: u64,
}

/// Of `watch.stop` and `watch.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchName {
    /// The watch.
    pub id: String,
}

/// What the windows show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchView {
    /// Frames as they come.
    Arrival,
    /// Frames while they are on the line.
    Line,
}

/// The windows of one length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchWindows {
    /// What they show.
    pub view: WatchView,
    /// The length (ns).
    pub window_ns: u64,
    /// The number of the first: it begins at that times the length.
    pub first: u64,
    /// How many, from the first with a frame to the last.
    pub windows: u64,
    /// Empty ones among them.
    pub idle_windows: u64,
    /// The bytes in all.
    pub bytes: u64,
    /// The frames in all.
    pub frames: u64,
    /// The sum of the squares of frames per window.
    pub frames_squared: u64,
    /// Frames with an earlier time than those before, which are in the window of these.
    pub late_frames: u64,
    /// Windows with a frame that are not kept: there was no room.
    pub left_out: u64,
    /// Windows by bytes.
    pub histogram: Histogram,
}

/// Trains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchTrains {
    /// By frames.
    pub frames: Histogram,
    /// By bytes.
    pub bytes: Histogram,
    /// By time from the first frame to the last (ns).
    pub lengths_ns: Histogram,
    /// From the first frame of a train to that of the next (ns).
    pub intervals_ns: Histogram,
    /// Between frames (ns).
    pub gaps_ns: Histogram,
}

/// The smallest token bucket at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchBucket {
    /// The rate (bit/s).
    pub rate_bps: u64,
    /// Its depth (bytes).
    pub depth_bytes: u64,
    /// What is still in it at the end (bytes).
    pub left_bytes: u64,
}

/// What a buffer before the line would lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchLoss {
    /// Its depth (bytes).
    pub depth_bytes: u64,
    /// What it loses (bytes on the line).
    pub lost_bytes: u64,
    /// What comes (bytes on the line).
    pub offered_bytes: u64,
}

/// What a line would have seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchLine {
    /// How long it was busy (ns).
    pub busy_ns: u64,
    /// The buffer that holds all.
    pub needs: WatchBucket,
    /// What smaller ones lose.
    pub losses: Vec<WatchLoss>,
}

/// A flow; the addresses of the rest, and of frames that are no IP, are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchFlow {
    /// The sender's address.
    pub source: String,
    /// The receiver's address.
    pub destination: String,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Number of the protocol.
    pub protocol: u8,
    /// Whether it stands for all that have no place of their own.
    pub rest: bool,
    /// Its windows.
    pub windows: WatchWindows,
}

/// Interface counters around a watch, each read twice: frames that passed between the readings are in one of both only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchCounted {
    /// The least that passed by the interface's counters (bytes).
    pub least_bytes: u64,
    /// The most (bytes).
    pub most_bytes: u64,
    /// The least (frames).
    pub least_frames: u64,
    /// The most (frames).
    pub most_frames: u64,
}

/// What passed one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchedPoint {
    /// By what it was seen.
    pub by: String,
    /// When the first frame came (ns).
    pub first_ns: Option<u64>,
    /// When the last one came (ns).
    pub last_ns: Option<u64>,
    /// Bytes of headers and tags that a line carries and packets of the stack do not.
    pub added_bytes: u64,
    /// Frames that a line carries beyond the packets of the stack.
    pub added_frames: u64,
    /// Frames that are in no window.
    pub lost_frames: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Where the kernel gives packets to other CPUs: those without its stamp from before, in the windows of when another CPU
    /// looked at them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstamped_frames: Option<u64>,
    /// What the interface counted.
    pub counted: WatchCounted,
    /// By length and view.
    pub windows: Vec<WatchWindows>,
    /// Trains.
    pub trains: WatchTrains,
    /// The curve.
    pub curve: Vec<WatchBucket>,
    /// Where a line was thought of.
    pub line: Option<WatchLine>,
    /// Flows, where they were counted apart.
    pub flows: Vec<WatchFlow>,
}

/// A time in which a CPU was stolen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchStolen {
    /// After this (ns).
    pub begin_ns: u64,
    /// Before this (ns).
    pub end_ns: u64,
    /// So much, of all CPUs together (ns).
    pub steal_ns: u64,
}

/// Result of `watch.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// In the order asked.
    pub points: Vec<WatchedPoint>,
    /// Stolen times.
    pub stolen: Vec<WatchStolen>,
    /// CPU time of the thread that read the bins (ns).
    pub cpu_ns: u64,
    /// When all were in place (ns).
    pub begin_ns: u64,
    /// When counting ended (ns).
    pub end_ns: u64,
}

/// Of `watch.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchRead {
    /// The watch, stopped.
    pub id: String,
    /// The number of the point.
    pub point: usize,
    /// The number of the windows in that point, its own or the flow's.
    pub windows: usize,
    /// The number of the flow; absent: the windows are of the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<usize>,
    /// Where to begin.
    #[serde(default)]
    pub offset_bytes: usize,
}

/// Result of `watch.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchPart {
    /// Entries `step << frame_bits | frames`, bytes; each number in groups of seven bits, the lowest first, all in base 64.
    pub packed: String,
    /// Of an entry's first number.
    pub frame_bits: u32,
    /// Of all parts.
    pub total_bytes: usize,
}
