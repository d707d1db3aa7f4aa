//! The results of `traffic.run`: reports of all senders and receivers.

use serde::{Deserialize, Serialize};

use super::Waiting;
use crate::histogram::Histogram;

/// The reason why frames were late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// The thread had no CPU, or was busy.
    NotAsked,
    /// The interface's queue was full.
    NoRoom,
}

/// A stall: a period in which a thread was late, with the kernel's scheduling data of that period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Start of the stall.
    pub begin_ns: u64,
    /// End of the stall.
    pub end_ns: u64,
    /// Maximum lateness.
    pub late_ns: u64,
    /// Shift of the schedule; 0 for a receiver.
    pub slipped_ns: u64,
    /// The reason, as far as the thread can determine it.
    pub cause: StallCause,
    /// CPU steal on the thread's CPU; absent if the CPU is unknown.
    pub steal_ns: Option<u64>,
    /// Time in which the thread was runnable without a CPU.
    pub wait_ns: u64,
    /// Number of involuntary context switches of the thread.
    pub involuntary_switches: u64,
    /// Index of the sender's thread; absent: 0, the first thread.
    #[serde(default, skip_serializing_if = "is_first")]
    pub thread: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
const fn is_first(thread: &u32) -> bool {
    *thread == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
const fn is_none(frames: &u64) -> bool {
    *frames == 0
}

/// CPU use of a thread in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThreadUse {
    /// The CPU to which the thread was pinned; absent: none.
    pub cpu: Option<usize>,
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time runnable without a CPU.
    pub wait_ns: u64,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
}

/// Report of a sender. `intended = offered + unsent`, `unsent = refused + invalid + dropped_by_us`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SenderReport {
    /// The sender's port.
    pub port: String,
    /// The sender's tag.
    pub tag: u16,
    /// Due time of the first frame (ns).
    pub begin_ns: u64,
    /// End of sending (ns).
    pub end_ns: u64,
    /// Number of frames according to the rate.
    pub intended_frames: u64,
    /// Number of gap frames sent, which no other field counts; absent: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub gap_frames: u64,
    /// Number of frames without a stamp, which can only be counted; absent: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unstamped_frames: u64,
    /// Number of frames that the interface accepted.
    pub offered_frames: u64,
    /// Bytes of the offered frames, with FCS.
    pub offered_bytes: u64,
    /// Number of intended frames that were not offered.
    pub unsent_frames: u64,
    /// Part of the unsent frames that the interface rejected.
    pub refused_frames: u64,
    /// Part of the unsent frames that the kernel rejected as malformed.
    pub invalid_frames: u64,
    /// Part of the unsent frames that the interface never got, or that were still in the sender's ring at the end.
    pub dropped_by_us_frames: u64,
    /// Number of times the interface could temporarily accept no frame; the sender then retried.
    pub busy_answers: u64,
    /// Number of times a due frame found the ring full.
    pub blocked_polls: u64,
    /// Number of system calls.
    pub kicks: u64,
    /// Total shift of the schedule (ns); for several threads, their mean.
    pub slipped_ns: u64,
    /// Histogram of the gaps between consecutive frames of all threads; 0 within a burst.
    pub gap_ns: Histogram,
    /// Histogram of the lateness of frames.
    pub lateness_ns: Histogram,
    /// Histogram of burst sizes: frames of one thread that were sent together.
    pub bursts: Vec<(u32, u64)>,
    /// The first stalls, oldest first.
    pub stalls: Vec<Stall>,
    /// Number of stalls.
    pub stall_count: u64,
    /// Frames sent in each hundredth of the trial.
    #[serde(default)]
    pub slices_frames: Vec<u64>,
    /// CPU use of the (first) thread.
    pub thread: ThreadUse,
    /// CPU use of the additional threads; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_threads: Vec<ThreadUse>,
}

/// Frame counts of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowReport {
    /// Flow number.
    pub flow: u32,
    /// Frames sent.
    pub sent_frames: u64,
    /// First copies that arrived intact.
    pub received_frames: u64,
    /// Sent frames that did not arrive intact.
    pub lost_frames: u64,
    /// Duplicates.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame.
    pub reordered_frames: u64,
    /// Minimum latency, if a frame arrived.
    pub latency_min_ns: Option<u64>,
    /// Maximum latency.
    pub latency_max_ns: Option<u64>,
}

/// Summary of a receiver's flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowSummary {
    /// Number of flows.
    pub count: u32,
    /// Number of flows with lost frames.
    pub with_loss: u32,
    /// The 16 flows with the greatest loss, in descending order.
    pub worst: Vec<FlowReport>,
}

/// Counters of a receiving socket in a trial, by kernel and port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketCounts {
    /// Frames that the agent got.
    pub received_frames: u64,
    /// Frames passed to the host because they do not belong to the engine.
    pub filtered_frames: u64,
    /// Frames lost because the agent was too slow: the sum of the next two fields.
    pub dropped_frames: u64,
    /// Frames lost because the ring to the agent was full.
    pub ring_full_frames: u64,
    /// Frames lost because no buffer was free.
    pub no_buffer_frames: u64,
    /// Frames that exceeded the buffer size.
    pub truncated_frames: u64,
    /// Frames stamped when the agent read them, because the path has no earlier stamp.
    pub poll_stamped_frames: u64,
}

/// Report of a receiver. `offered + surplus = received + lost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiverReport {
    /// The receiver's port.
    pub port: String,
    /// Index of the sender.
    pub of: usize,
    /// The receiver's waiting mode.
    pub waiting: Waiting,
    /// Whether no more frames arrived at the end.
    pub drained: bool,
    /// Start of receiving (ns).
    pub begin_ns: u64,
    /// End of receiving (ns).
    pub end_ns: u64,
    /// Arrival time of the sender's first frame.
    pub first_ns: Option<u64>,
    /// Arrival time of the sender's last frame.
    pub last_ns: Option<u64>,
    /// First copies that arrived intact; for frames without a stamp, all arrived frames.
    pub received_frames: u64,
    /// Number of the received frames that have no stamp; absent: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unstamped_frames: u64,
    /// Bytes of all copies that arrived intact, with FCS.
    pub received_bytes: u64,
    /// Offered frames that did not arrive intact and in time.
    pub lost_frames: u64,
    /// Received frames beyond the number of offered frames; greater than zero only if a count is wrong.
    pub surplus_frames: u64,
    /// Duplicates.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame of their flow (RFC 4737).
    pub reordered_frames: u64,
    /// Frames too far behind the newest frame to detect duplicates; they count as lost.
    pub late_frames: u64,
    /// First copies with a negative latency: an arrival time before the sending time.
    pub negative_latency_frames: u64,
    /// Corrupted frames of the sender.
    pub corrupted_frames: u64,
    /// Frames that do not belong to the engine.
    pub foreign_frames: u64,
    /// Frames of a different trial or direction.
    pub other_tag_frames: u64,
    /// Frames of the sender with an invalid flow number.
    pub unknown_flow_frames: u64,
    /// One-way latency of first copies.
    pub latency_ns: Histogram,
    /// Reordering extents (RFC 4737 section 4.2.1).
    pub reorder_extent_frames: Histogram,
    /// Reorder density (RFC 5236): pairs of a displacement, -16 to 16, and its number of first copies.
    #[serde(default)]
    pub reorder_density: Vec<(i8, u64)>,
    /// Summary of the flows.
    pub flows: FlowSummary,
    /// The socket's counters.
    pub socket: SocketCounts,
    /// Stalls of the receiving thread, oldest first.
    pub stalls: Vec<Stall>,
    /// Number of stalls.
    pub stall_count: u64,
    /// Number of frames that arrived, without duplicates, for each hundredth of the trial in which they were sent.
    #[serde(default)]
    pub slices_frames: Vec<u64>,
    /// Number of frames that arrived, without duplicates, in each hundredth of the trial.
    #[serde(default)]
    pub arrived_slices_frames: Vec<u64>,
    /// Minimum latency of the frames, without duplicates, that arrived in each hundredth of the trial; none if no frame arrived.
    #[serde(default)]
    pub least_latency_slices_ns: Vec<Option<u64>>,
    /// First copies that arrived after the end of the trial's time.
    #[serde(default)]
    pub after_end_frames: u64,
    /// CPU use of the thread.
    pub thread: ThreadUse,
}

/// Threads of the trial that were pinned to the same CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SharedCpu {
    /// The CPU.
    pub cpu: usize,
    /// The threads: port name, dot, `send` or `receive`.
    pub threads: Vec<String>,
}

/// Result of `traffic.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRan {
    /// Time before the first thread was started (ns).
    pub begin_ns: u64,
    /// Time after the last thread ended (ns).
    pub end_ns: u64,
    /// Whether `traffic.close` aborted the trial.
    pub ended_early: bool,
    /// Reports of the senders.
    pub senders: Vec<SenderReport>,
    /// Reports of the receivers.
    pub receivers: Vec<ReceiverReport>,
    /// CPUs to which several threads were pinned.
    pub shared_cpus: Vec<SharedCpu>,
}
