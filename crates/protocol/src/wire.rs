//! The parameters and results of `wire.*`: emulated links between two interfaces that the agent creates.

use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;

/// One end of an emulated link: the tap interface that the agent creates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireEnd {
    /// The interface's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface's name.
    pub interface: String,
}

/// An existing port of the host whose frames an emulated link carries. Addresses, routes and sockets stay on the port,
/// and frames outside the selection pass untouched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WirePort {
    /// The interface's name, in the namespace of both ends.
    pub interface: String,
    /// VLAN ID of the carried frames; absent: untagged frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// IP networks as `address/bits`: packets are carried whose source and destination are both in one of them, except
    /// neighbour discovery.
    pub networks: Vec<String>,
}

/// Parameters of `wire.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStart {
    /// The controller's name for the emulated link.
    pub id: String,
    /// The two ends.
    pub ends: [WireEnd; 2],
    /// The port whose frames are carried: the first end is the tap of the frames that the port sends, the second end that
    /// of the frames that it receives; absent: the ends themselves are the ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_port: Option<WirePort>,
    /// Whether GSO frames are carried without segmentation; otherwise every frame is segmented.
    pub super_frames: bool,
    /// Each end is a veth pair for frames of at most this size (bytes, without FCS), if the kernel supports it; absent:
    /// a tap. This field is valid only if every frame is segmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veth_frame_bytes: Option<usize>,
    /// The CPU of the link's thread; absent: any CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The thread's real-time priority (`SCHED_FIFO`), 1 to 99; absent: no real-time priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Whether the thread stays on one CPU while other CPUs process the frames that it sends, if the host has several
    /// CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
}

/// Result of `wire.start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStarted {
    /// Whether GSO frames of UDP are carried without segmentation too.
    pub udp_super_frames: bool,
    /// The mechanism that carries the frames.
    pub carried: WireCarried,
    /// The CPU of the link's thread; absent: any CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// Time at which the link was ready (ns).
    pub begin_ns: u64,
}

/// The mechanism that carries the frames of an emulated link, with the reasons for its deviations from the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireCarried {
    /// The kind of interface at both ends, in words.
    pub path: String,
    /// The reason why the ends are taps instead of the requested veth pairs; absent: the ends are as requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_veth: Option<String>,
    /// The reason why the link's thread stamps the frames when it reads them, instead of the kernel at their arrival;
    /// absent: the kernel stamps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstamped: Option<String>,
    /// The reason why the thread does not have its requested priority; absent: the thread has the priority, or none was
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprioritised: Option<String>,
    /// The reason why the thread's CPU also processes the frames that the thread sends, against the request; absent: as
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_apart: Option<String>,
}

/// The impairments of one direction of an emulated link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireWay {
    /// The stages; empty: no impairment.
    pub impairments: Vec<Impairment>,
    /// Seed of the random draws.
    pub seed: u64,
    /// Memory limit for frames that arrive from now on (bytes).
    pub memory_bytes: u64,
}

/// Parameters of `wire.change`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireChange {
    /// The emulated link.
    pub id: String,
    /// The impairments from the first end to the second, and of the opposite direction.
    pub ways: [WireWay; 2],
}

/// Parameters of `wire.restart_draws`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireRestartDraws {
    /// The emulated link.
    pub id: String,
    /// Seeds of the random draws: from the first end to the second, and of the opposite direction.
    pub seeds: [u64; 2],
}

/// Parameters of `wire.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireName {
    /// The emulated link.
    pub id: String,
}

/// Parameters of `wire.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireRead {
    /// The emulated link.
    pub id: String,
    /// Stalls that ended at this time or later are listed (ns); absent: none is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls_since_ns: Option<u64>,
}

/// The activity of a link's thread when it lost its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// Busy waiting: between two clock readings, the thread executed only a few steps.
    Waiting,
    /// A system call that receives or sends a few frames and took much longer than usual.
    Call,
    /// Sleeping: the thread woke up late.
    Sleep,
}

/// A stall: a period in which the thread of an emulated link did not get its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStall {
    /// The activity of the thread.
    pub kind: StallKind,
    /// The last clock reading before the stall (ns).
    pub begin_ns: u64,
    /// The first clock reading after the stall (ns).
    pub end_ns: u64,
}

/// Stalls of a link's thread during one activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireTime {
    /// Total time of the activity (ns).
    pub span_ns: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Total duration of the stalls (ns).
    pub stalled_ns: u64,
}

/// Stalls of a pacing link's thread, detected independently of late frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStalls {
    /// Stalls while busy waiting.
    pub waiting: WireTime,
    /// Stalls in system calls.
    pub calls: WireTime,
    /// Stalls while sleeping.
    pub sleeps: WireTime,
    /// The requested stalls; only the last 8192 are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<WireStall>,
}

/// Frame counts of one direction. A GSO frame counts as the segments that it contains.
///
/// `arrived + copied = left + refused + no_room + stale + lost at the stages + held`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WayCounts {
    /// Frames received.
    pub arrived_frames: u64,
    /// Additional copies that the stages created.
    pub copied_frames: u64,
    /// Neighbour discovery frames (ARP, ND, MLD) among the received frames; random loss and full queues do not affect
    /// them.
    #[serde(default)]
    pub spared_frames: u64,
    /// Frames sent.
    pub left_frames: u64,
    /// Frames that the far interface rejected because it was down.
    pub refused_frames: u64,
    /// Frames dropped at the memory limit.
    pub no_room_frames: u64,
    /// Frames in transit.
    pub held_frames: u64,
    /// Sent frames with an inverted bit.
    pub corrupted_frames: u64,
    /// Sent frames with the mark "congestion experienced" (CE).
    pub marked_frames: u64,
    /// Frames that were sent more than 100 us late.
    pub late_frames: u64,
    /// Frames that were sent more than 1 ms late.
    pub very_late_frames: u64,
    /// Maximum lateness of a frame (ns).
    pub latest_ns: u64,
    /// Total shift of the pacing schedule because the thread could not keep up; this time is missing from the mean rate
    /// (ns).
    #[serde(default)]
    pub slipped_ns: u64,
    /// Line time of the paced frames that were sent (ns).
    #[serde(default)]
    pub paced_ns: u64,
    /// Line time that was lost while due frames waited for the thread (ns).
    #[serde(default)]
    pub short_ns: u64,
    /// Dropped frames that were copies, whose originals were forwarded.
    #[serde(default)]
    pub lost_copies_frames: u64,
    /// Bytes of the frames that the stages did not drop, including the FCS.
    #[serde(default)]
    pub passed_bytes: u64,
    /// Frames that the sending interface counted and that did not reach the link, because its thread had not read the
    /// frames before them.
    #[serde(default)]
    pub unread_frames: u64,
    /// Frames on a port of the host that were dropped after a stall of the link's thread, because later frames had passed
    /// the port without it.
    #[serde(default)]
    pub stale_frames: u64,
    /// Selected packets that passed a port of the host without emulation because the link's thread stalled; a super-frame
    /// counts once.
    #[serde(default)]
    pub bypassed_packets: u64,
    /// Drops by kind of stage, including those before changes of the link.
    pub stages: Vec<StageLoss>,
}

/// Frames that a stage dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StageLoss {
    /// The stage's kind.
    pub kind: String,
    /// Number of frames.
    pub lost_frames: u64,
}

/// Result of `wire.read` and `wire.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireCounts {
    /// Counts from the first end to the second, and of the opposite direction.
    pub ways: [WayCounts; 2],
    /// The current impairments of each direction.
    pub does: [Vec<Impairment>; 2],
    /// Time of the last change, when the traces started (ns).
    #[serde(default)]
    pub does_since_ns: u64,
    /// Stalls of the link's thread.
    #[serde(default)]
    pub stalls: WireStalls,
    /// The mechanism that carries the frames.
    #[serde(default)]
    pub carried: WireCarried,
    /// Time before the frames were counted (ns).
    pub begin_ns: u64,
    /// Time after the frames were counted (ns).
    pub end_ns: u64,
}
