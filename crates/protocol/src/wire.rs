//! The parameters and results of `wire.*`: paths between two interfaces that the agent makes.

use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;

/// An end of a wire: the tap that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireEnd {
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Its name.
    pub interface: String,
}

/// Of `wire.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStart {
    /// The controller's name for it.
    pub id: String,
    /// Its ends.
    pub ends: [WireEnd; 2],
    /// Whether super-frames are carried whole; otherwise each frame comes apart.
    pub super_frames: bool,
    /// Each end is a veth pair for frames of up to so many bytes (without FCS), where this kernel has what that needs; absent:
    /// a tap. Only where every frame comes apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veth_frame_bytes: Option<usize>,
    /// The CPU of its thread; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// Its real-time priority (`SCHED_FIFO`), 1 to 99; absent means it runs as other threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Whether its thread stays on one CPU, and others handle the frames that it gives, as far as this computer has several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
}

/// Result of `wire.start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStarted {
    /// Whether super-frames of UDP are carried whole too.
    pub udp_super_frames: bool,
    /// What carries its frames.
    pub carried: WireCarried,
    /// The CPU of its thread; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// When it was in place (ns).
    pub begin_ns: u64,
}

/// What carries the frames of a wire, and what it has not that it was to have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireCarried {
    /// What frames come from and go to, in words.
    pub path: String,
    /// Why its ends are taps although veth pairs were asked for; absent: they are what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_veth: Option<String>,
    /// Why the kernel does not stamp frames as they come, so that the thread does when it reads them; absent: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstamped: Option<String>,
    /// Why its thread runs as other threads although it was given a priority; absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprioritised: Option<String>,
    /// Why the CPU of its thread handles the frames that it gives although others were to; absent: they do, or were not to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_apart: Option<String>,
}

/// What a wire does to frames of one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireWay {
    /// The stages; none lets frames through.
    pub impairments: Vec<Impairment>,
    /// What chance is drawn from.
    pub seed: u64,
    /// What frames that come from now on may take (bytes).
    pub memory_bytes: u64,
}

/// Of `wire.change`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireChange {
    /// The wire.
    pub id: String,
    /// From the first end to the second, and back.
    pub ways: [WireWay; 2],
}

/// Of `wire.restart_draws`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireRestartDraws {
    /// The wire.
    pub id: String,
    /// What chance is drawn from: from the first end to the second, and back.
    pub seeds: [u64; 2],
}

/// Of `wire.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireName {
    /// The wire.
    pub id: String,
}

/// Of `wire.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireRead {
    /// The wire.
    pub id: String,
    /// The answer lists each stall that ended then or later (ns); absent: it lists none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls_since_ns: Option<u64>,
}

/// What the thread of a wire was doing when it was kept from its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// It waited awake: nothing but a few steps of its own lay between two readings of the clock.
    Waiting,
    /// It called the kernel to take or give a few frames, which took much longer than that does.
    Call,
    /// It slept, and was woken late.
    Sleep,
}

/// A time in which the thread of a wire was kept from its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStall {
    /// What it was doing.
    pub kind: StallKind,
    /// The last reading of the clock before (ns).
    pub begin_ns: u64,
    /// The first reading of the clock after (ns).
    pub end_ns: u64,
}

/// How the thread of a wire spent its time on one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireTime {
    /// All of it (ns).
    pub span_ns: u64,
    /// How often it was kept from its CPU.
    pub stalls: u64,
    /// How long in all (ns).
    pub stalled_ns: u64,
}

/// When the thread of a wire that spaces frames was kept from its CPU, by evidence other than late frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireStalls {
    /// Waiting awake.
    pub waiting: WireTime,
    /// Calling the kernel.
    pub calls: WireTime,
    /// Asleep.
    pub sleeps: WireTime,
    /// Those that were asked for, as far as they are kept: the last 8192.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<WireStall>,
}

/// What became of the frames of one way. Frames are those of a line: a super-frame is as many as it stands for.
///
/// `arrived + copied = left + refused + no_room + lost at the stages + held`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WayCounts {
    /// Frames that came in.
    pub arrived_frames: u64,
    /// Further copies that were made of them.
    pub copied_frames: u64,
    /// Of those, frames about neighbours (ARP, ND, MLD), which chance and full queues spare.
    #[serde(default)]
    pub spared_frames: u64,
    /// Frames that went out.
    pub left_frames: u64,
    /// Frames that the far interface did not take: it was down.
    pub refused_frames: u64,
    /// Frames for which the memory had no room.
    pub no_room_frames: u64,
    /// Frames that are on their way.
    pub held_frames: u64,
    /// Frames with an inverted bit that went out.
    pub corrupted_frames: u64,
    /// Frames marked "congestion experienced" that went out.
    pub marked_frames: u64,
    /// Frames that left over 100 us after they were due.
    pub late_frames: u64,
    /// Frames that left over 1 ms after they were due.
    pub very_late_frames: u64,
    /// The longest time after it was due that a frame left (ns).
    pub latest_ns: u64,
    /// By how much the times of spaced frames were shifted, because the thread could not keep them: the rate lost as much (ns).
    #[serde(default)]
    pub slipped_ns: u64,
    /// What the line sent of spaced frames (ns of the line).
    #[serde(default)]
    pub paced_ns: u64,
    /// By how much the line fell short of its rate while frames waited for the thread, whose times had come (ns of the line).
    #[serde(default)]
    pub short_ns: u64,
    /// Of the lost frames, those that were copies: their originals went on.
    #[serde(default)]
    pub lost_copies_frames: u64,
    /// Bytes of the frames that the stages did not lose, with checksums.
    #[serde(default)]
    pub passed_bytes: u64,
    /// Frames that left the interface, as it counts, and were lost before they arrived here: the thread had not read those
    /// before them.
    #[serde(default)]
    pub unread_frames: u64,
    /// What each kind of stage lost, changes of the wire included.
    pub stages: Vec<StageLoss>,
}

/// Frames that a stage lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StageLoss {
    /// Its kind.
    pub kind: String,
    /// How many.
    pub lost_frames: u64,
}

/// Result of `wire.read` and `wire.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WireCounts {
    /// From the first end to the second, and back.
    pub ways: [WayCounts; 2],
    /// What it does to frames that come now, in each way.
    pub does: [Vec<Impairment>; 2],
    /// Since when: its traces began then (ns).
    #[serde(default)]
    pub does_since_ns: u64,
    /// When its thread was kept from its CPU.
    #[serde(default)]
    pub stalls: WireStalls,
    /// What carries its frames.
    #[serde(default)]
    pub carried: WireCarried,
    /// Before they were counted (ns).
    pub begin_ns: u64,
    /// After they were counted (ns).
    pub end_ns: u64,
}
