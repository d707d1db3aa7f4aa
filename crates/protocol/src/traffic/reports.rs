//! What `traffic.run` answers: what each sender and receiver did and saw.

use serde::{Deserialize, Serialize};

use super::Waiting;
use crate::histogram::Histogram;

/// Why frames were late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// The thread did not run, or was busy elsewhere.
    NotAsked,
    /// The interface had no room.
    NoRoom,
}

/// One time during which a thread did not do its work in time, joined with what the kernel says of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Its begin.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The largest lateness.
    pub late_ns: u64,
    /// By how much the schedule was shifted; 0 at a receiver.
    pub slipped_ns: u64,
    /// Why, as far as the thread can see.
    pub cause: StallCause,
    /// Time stolen from its CPU by the hypervisor; absent when the CPU is not known.
    pub steal_ns: Option<u64>,
    /// Time the thread was ready but waited for a CPU.
    pub wait_ns: u64,
    /// How often the CPU was taken from the thread.
    pub involuntary_switches: u64,
    /// Which of a sender's threads it was: 0, and absent, is the first.
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

/// What a thread used in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThreadUse {
    /// The CPU it was kept on; absent when on any.
    pub cpu: Option<usize>,
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time ready but waiting for a CPU.
    pub wait_ns: u64,
    /// How often it gave up the CPU.
    pub voluntary_switches: u64,
    /// How often the CPU was taken from it.
    pub involuntary_switches: u64,
}

/// What one sender did. `intended = offered + unsent`, `unsent = refused + invalid + dropped_by_us`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SenderReport {
    /// Its port.
    pub port: String,
    /// Its tag.
    pub tag: u16,
    /// When its first frame was due (ns).
    pub begin_ns: u64,
    /// When it ended (ns).
    pub end_ns: u64,
    /// Frames that the rate asks for.
    pub intended_frames: u64,
    /// Gap frames handed over between them, which are in no other count; absent: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub gap_frames: u64,
    /// Frames handed over without a stamp, which are counted and no more; absent: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unstamped_frames: u64,
    /// Frames that the interface accepted.
    pub offered_frames: u64,
    /// Bytes of them, with FCS.
    pub offered_bytes: u64,
    /// Frames intended but not offered.
    pub unsent_frames: u64,
    /// Of these: refused by the interface.
    pub refused_frames: u64,
    /// Of these: refused by the kernel as malformed.
    pub invalid_frames: u64,
    /// Of these: never given to the interface, or still in our ring at the end.
    pub dropped_by_us_frames: u64,
    /// How often the interface said "not now"; those frames were tried again.
    pub busy_answers: u64,
    /// How often a frame was due and the ring had no room.
    pub blocked_polls: u64,
    /// Calls of the kernel.
    pub kicks: u64,
    /// By how much the schedule was shifted in all (ns); of several threads their mean.
    pub slipped_ns: u64,
    /// Time between one frame and the next of all threads; 0 within a burst.
    pub gap_ns: Histogram,
    /// Time between a frame's turn and its sending.
    pub lateness_ns: Histogram,
    /// Bursts: how many frames of one thread left together, how often.
    pub bursts: Vec<(u32, u64)>,
    /// The first stalls, oldest first.
    pub stalls: Vec<Stall>,
    /// How many there were.
    pub stall_count: u64,
    /// Frames handed over in each hundredth of the trial.
    #[serde(default)]
    pub slices_frames: Vec<u64>,
    /// What its (first) thread used.
    pub thread: ThreadUse,
    /// What its further threads used; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_threads: Vec<ThreadUse>,
}

/// One flow's balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowReport {
    /// The flow's number.
    pub flow: u32,
    /// Frames sent.
    pub sent_frames: u64,
    /// First copies that arrived whole.
    pub received_frames: u64,
    /// Frames sent that did not.
    pub lost_frames: u64,
    /// Further copies.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame.
    pub reordered_frames: u64,
    /// The smallest latency, when any frame arrived.
    pub latency_min_ns: Option<u64>,
    /// The largest latency.
    pub latency_max_ns: Option<u64>,
}

/// The flows of a receiver in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowSummary {
    /// How many flows there are.
    pub count: u32,
    /// How many of them lost frames.
    pub with_loss: u32,
    /// The 16 that lost most, worst first.
    pub worst: Vec<FlowReport>,
}

/// The kernel's and the port's counters of a receiving socket in this trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketCounts {
    /// Frames given to the agent.
    pub received_frames: u64,
    /// Frames left to the host because they are not the engine's.
    pub filtered_frames: u64,
    /// Frames lost because the agent was too slow: the sum of the two below.
    pub dropped_frames: u64,
    /// Of these: the ring to the agent was full.
    pub ring_full_frames: u64,
    /// Of these: no buffer was free.
    pub no_buffer_frames: u64,
    /// Frames longer than the buffers.
    pub truncated_frames: u64,
    /// Frames stamped when the agent looked, because the path gave no stamp.
    pub poll_stamped_frames: u64,
}

/// What one receiver saw. `offered + surplus = received + lost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiverReport {
    /// Its port.
    pub port: String,
    /// The sender it listened to.
    pub of: usize,
    /// How it waited.
    pub waiting: Waiting,
    /// Whether nothing arrived any more at the end.
    pub drained: bool,
    /// When it began (ns).
    pub begin_ns: u64,
    /// When it ended (ns).
    pub end_ns: u64,
    /// When the first frame of the sender arrived.
    pub first_ns: Option<u64>,
    /// When the last frame of the sender arrived.
    pub last_ns: Option<u64>,
    /// First copies that arrived whole; without a stamp, all that arrived.
    pub received_frames: u64,
    /// Of these: without a stamp; absent: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unstamped_frames: u64,
    /// Bytes of all copies that arrived whole, with FCS.
    pub received_bytes: u64,
    /// Frames offered that did not arrive whole and in time.
    pub lost_frames: u64,
    /// Frames beyond what was offered: above zero only when a count is wrong.
    pub surplus_frames: u64,
    /// Further copies.
    pub duplicate_frames: u64,
    /// First copies that arrived after a newer frame of their flow (RFC 4737).
    pub reordered_frames: u64,
    /// Frames so far behind the newest that copies could not be told apart; they are among the lost.
    pub late_frames: u64,
    /// First copies that arrived before they were sent, by their clocks.
    pub negative_latency_frames: u64,
    /// Damaged frames of the sender.
    pub corrupted_frames: u64,
    /// Frames that are not the engine's.
    pub foreign_frames: u64,
    /// Frames of another trial or direction.
    pub other_tag_frames: u64,
    /// Frames of the sender, of a flow that it does not have.
    pub unknown_flow_frames: u64,
    /// One-way latency of first copies.
    pub latency_ns: Histogram,
    /// Reordering extents (RFC 4737 section 4.2.1).
    pub reorder_extent_frames: Histogram,
    /// Reorder density (RFC 5236): pairs of a displacement, -16 to 16, and how many first copies had it.
    #[serde(default)]
    pub reorder_density: Vec<(i8, u64)>,
    /// The flows in short.
    pub flows: FlowSummary,
    /// The socket's counters.
    pub socket: SocketCounts,
    /// When the thread did not look in time, oldest first.
    pub stalls: Vec<Stall>,
    /// How many there were.
    pub stall_count: u64,
    /// First copies of the frames sent in each hundredth of the trial.
    #[serde(default)]
    pub slices_frames: Vec<u64>,
    /// First copies that arrived in each hundredth of the trial.
    #[serde(default)]
    pub arrived_slices_frames: Vec<u64>,
    /// The least latency of those; none where none arrived.
    #[serde(default)]
    pub least_latency_slices_ns: Vec<Option<u64>>,
    /// First copies that arrived when the trial's time was over.
    #[serde(default)]
    pub after_end_frames: u64,
    /// What its thread used.
    pub thread: ThreadUse,
}

/// Threads of the trial that were kept on one CPU together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SharedCpu {
    /// The CPU.
    pub cpu: usize,
    /// The threads: the port's name, a dot, `send` or `receive`.
    pub threads: Vec<String>,
}

/// Result of `traffic.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRan {
    /// Before the first thread was started (ns).
    pub begin_ns: u64,
    /// After the last had ended (ns).
    pub end_ns: u64,
    /// Whether `traffic.close` ended it before its time.
    pub ended_early: bool,
    /// What each sender did.
    pub senders: Vec<SenderReport>,
    /// What each receiver saw.
    pub receivers: Vec<ReceiverReport>,
    /// CPUs that several threads were kept on.
    pub shared_cpus: Vec<SharedCpu>,
}
