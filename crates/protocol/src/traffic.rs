//! The parameters and results of `traffic.*`: ports that stay open, and trials through them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// Which way frames take between the agent and an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathChoice {
    /// The fastest that works, with the reasons against the others.
    #[default]
    Auto,
    /// AF_XDP or nothing.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// Which halves of a port are opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halves {
    /// It sends and receives.
    #[default]
    Both,
    /// It sends.
    Send,
    /// It receives.
    Receive,
}

/// One port of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortParams {
    /// The controller's name for it, unique in its set.
    pub name: String,
    /// The namespace of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface.
    pub interface: String,
    /// The way to it.
    #[serde(default)]
    pub path: PathChoice,
    /// Which halves are opened.
    #[serde(default)]
    pub halves: Halves,
    /// The CPU of the sending thread; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_cpu: Option<usize>,
    /// The CPU of the receiving thread; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_cpu: Option<usize>,
    /// The largest frame that will be sent or received, with FCS [bytes]; absent means 1522 (1518 and a tag), or what
    /// the MTU allows if that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u16>,
    /// Replace an XDP program that is attached, and put it back on close.
    #[serde(default)]
    pub force: bool,
}

/// Of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficOpen {
    /// The controller's name for the set of ports.
    pub id: String,
    /// The ports.
    pub ports: Vec<PortParams>,
}

/// The way frames take through one half of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathUsed {
    /// Mechanism and mode in words, such as `AF_XDP native copy`.
    pub name: String,
    /// Why a better way was not taken, one sentence for each way tried.
    pub fallbacks: Vec<String>,
}

/// One port that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortOpened {
    /// Its name.
    pub name: String,
    /// Its interface's MAC address.
    pub mac: String,
    /// Its interface's MTU.
    pub mtu_bytes: u32,
    /// The largest frame it carries, with FCS.
    pub frame_bytes: u16,
    /// How many receive queues its interface uses.
    pub queues: u32,
    /// The way out, when it sends.
    pub send: Option<PathUsed>,
    /// The way in, when it receives.
    pub receive: Option<PathUsed>,
}

/// Result of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficOpened {
    /// The ports in the order asked for.
    pub ports: Vec<PortOpened>,
    /// Before the first was opened [ns].
    pub begin_ns: u64,
    /// After the last was opened [ns].
    pub end_ns: u64,
}

/// Of `traffic.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficClose {
    /// The set of ports.
    pub id: String,
}

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// The VLAN, 0 to 4094.
    pub id: u16,
    /// The priority, 0 to 7.
    #[serde(default)]
    pub priority: u8,
    /// The drop eligible indicator.
    #[serde(default)]
    pub drop_eligible: bool,
}

/// A range of values: flow `f` has `first + step * (f mod count)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range<A> {
    /// The value of flow 0.
    pub first: A,
    /// After how many flows the values begin anew.
    #[serde(default = "one")]
    pub count: u32,
    /// The distance between neighbours.
    #[serde(default = "one")]
    pub step: u32,
}

/// The flows of a sender; addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// How many, 1 to 65536.
    #[serde(default = "one")]
    pub count: u32,
    /// Source addresses.
    pub source_address: Range<IpAddr>,
    /// Destination addresses.
    pub destination_address: Range<IpAddr>,
    /// UDP source ports.
    pub source_port: Range<u16>,
    /// UDP destination ports.
    pub destination_port: Range<u16>,
}

/// In which order sizes or flows come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// One after the other.
    #[default]
    Turns,
    /// Drawn for every frame from a seed.
    Seeded {
        /// The seed.
        seed: u64,
    },
}

/// What a sender's frames look like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameParams {
    /// Sizes with FCS [bytes] and their weights.
    pub sizes: Vec<(u16, u16)>,
    /// The source address; absent means that of the port's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_mac: Option<String>,
    /// The destination address.
    pub destination_mac: String,
    /// Tags from the outside in.
    #[serde(default)]
    pub vlans: Vec<Vlan>,
    /// Addresses and ports.
    pub flows: Flows,
    /// DSCP and ECN.
    #[serde(default)]
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    #[serde(default = "sixty_four")]
    pub hop_limit: u8,
    /// The order of sizes.
    #[serde(default)]
    pub size_order: Order,
    /// The order of flows.
    #[serde(default)]
    pub flow_order: Order,
}

/// A rate: `frames` in every `per_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameRate {
    /// How many frames.
    pub frames: u64,
    /// In how long [ns].
    pub per_ns: u64,
}

/// What happens to frames that were due while the sender could not send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StallRule {
    /// They are not sent.
    #[default]
    Slip,
    /// So many are sent late, at no more than twice the rate.
    CatchUp {
        /// The most after one stall.
        max_frames: u32,
    },
}

/// One sender of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderParams {
    /// The port it sends through.
    pub port: String,
    /// What its frames are recognised by, different in each trial and direction.
    pub tag: u16,
    /// What its frames look like.
    pub frames: FrameParams,
    /// How fast.
    pub rate: FrameRate,
    /// The most frames that leave at once, 1 to 64.
    #[serde(default = "one")]
    pub max_burst: u32,
    /// What happens after a stall.
    #[serde(default)]
    pub stall: StallRule,
    /// From which lateness on a stall is logged.
    #[serde(default = "hundred_us_ns")]
    pub stall_threshold_ns: u64,
    /// The most frames, besides the duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_frames: Option<u64>,
}

/// How a thread waits for frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// `wait` where threads and system under test would not have a CPU each, else `busy`.
    #[default]
    Auto,
    /// It looks all the time.
    Busy,
    /// It sleeps until the kernel wakes it.
    Wait,
}

/// How much of each received frame is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checking {
    /// Every byte.
    #[default]
    Whole,
    /// Headers and stamp; damage of the payload goes unseen.
    HeadersAndStamp,
}

/// One receiver of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiverParams {
    /// The port it receives from.
    pub port: String,
    /// The sender whose frames it expects, by its place in `senders`.
    pub of: usize,
    /// How it waits.
    #[serde(default)]
    pub waiting: Waiting,
    /// How much it checks.
    #[serde(default)]
    pub checking: Checking,
}

/// The drained barrier at the end of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainParams {
    /// Nothing must have arrived for so long.
    #[serde(default = "ten_ms_ns")]
    pub quiet_ns: u64,
    /// Wait no longer than this.
    #[serde(default = "one_second_ns")]
    pub timeout_ns: u64,
}

impl Default for DrainParams {
    fn default() -> Self {
        Self { quiet_ns: ten_ms_ns(), timeout_ns: one_second_ns() }
    }
}

/// Of `traffic.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficRun {
    /// The set of ports.
    pub id: String,
    /// How long frames are sent.
    pub duration_ns: u64,
    /// Who sends.
    pub senders: Vec<SenderParams>,
    /// Who receives.
    #[serde(default)]
    pub receivers: Vec<ReceiverParams>,
    /// When the trial is over.
    #[serde(default)]
    pub drain: DrainParams,
}

/// Why frames were late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// The thread did not run, or was busy elsewhere.
    NotAsked,
    /// The interface had no room.
    NoRoom,
}

/// One time during which a thread did not do its work in time, joined with what the kernel says of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// What a thread used in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[serde(deny_unknown_fields)]
pub struct SenderReport {
    /// Its port.
    pub port: String,
    /// Its tag.
    pub tag: u16,
    /// When its first frame was due [ns].
    pub begin_ns: u64,
    /// When it ended [ns].
    pub end_ns: u64,
    /// Frames that the rate asks for.
    pub intended_frames: u64,
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
    /// By how much the schedule was shifted in all [ns].
    pub slipped_ns: u64,
    /// Time between one frame and the next; 0 within a burst.
    pub gap_ns: Histogram,
    /// Time between a frame's turn and its sending.
    pub lateness_ns: Histogram,
    /// Bursts: how many frames left together, how often.
    pub bursts: Vec<(u32, u64)>,
    /// The first stalls, oldest first.
    pub stalls: Vec<Stall>,
    /// How many there were.
    pub stall_count: u64,
    /// What its thread used.
    pub thread: ThreadUse,
}

/// One flow's balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// When it began [ns].
    pub begin_ns: u64,
    /// When it ended [ns].
    pub end_ns: u64,
    /// When the first frame of the sender arrived.
    pub first_ns: Option<u64>,
    /// When the last frame of the sender arrived.
    pub last_ns: Option<u64>,
    /// First copies that arrived whole.
    pub received_frames: u64,
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
    /// The flows in short.
    pub flows: FlowSummary,
    /// The socket's counters.
    pub socket: SocketCounts,
    /// When the thread did not look in time, oldest first.
    pub stalls: Vec<Stall>,
    /// How many there were.
    pub stall_count: u64,
    /// What its thread used.
    pub thread: ThreadUse,
}

/// Threads of the trial that were kept on one CPU together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCpu {
    /// The CPU.
    pub cpu: usize,
    /// The threads: the port's name, a dot, `send` or `receive`.
    pub threads: Vec<String>,
}

/// Result of `traffic.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficRan {
    /// Before the first thread was started [ns].
    pub begin_ns: u64,
    /// After the last had ended [ns].
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

fn one() -> u32 {
    1
}

fn sixty_four() -> u8 {
    64
}

fn hundred_us_ns() -> u64 {
    100_000
}

fn ten_ms_ns() -> u64 {
    10_000_000
}

fn one_second_ns() -> u64 {
    1_000_000_000
}
