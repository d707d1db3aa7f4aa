//! What `traffic.run` is asked: who sends what how fast, who receives it, when it is over.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A range of values: flow `f` has `first + step * (f / every mod count)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Range<A> {
    /// The value of flow 0.
    pub first: A,
    /// After how many flows the values repeat.
    #[serde(default = "one")]
    pub count: u32,
    /// The distance between neighbours.
    #[serde(default = "one")]
    pub step: u32,
    /// How many flows after each other have the same value.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub every: u32,
}

/// The flows of a sender; addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// How many, 1 to 1048576.
    #[serde(default = "one")]
    pub count: u32,
    /// Source addresses.
    pub source_address: Range<IpAddr>,
    /// Destination addresses.
    pub destination_address: Range<IpAddr>,
    /// Source ports; identifiers of echo requests.
    pub source_port: Range<u16>,
    /// Destination ports.
    pub destination_port: Range<u16>,
}

/// What carries the payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// Segments of TCP with ACK alone, which all have the same sequence number.
    Tcp,
    /// Echo requests of ICMP or `ICMPv6`.
    Icmp,
}

/// What stands around the packets of flows: its ends are of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tunnel {
    /// An Ethernet frame in UDP (RFC 7348).
    Vxlan {
        /// Where it begins.
        source: IpAddr,
        /// Where it ends.
        destination: IpAddr,
        /// The segment, 24 bits.
        #[serde(default)]
        vni: u32,
    },
    /// A packet behind four bytes (RFC 2784).
    Gre {
        /// Where it begins.
        source: IpAddr,
        /// Where it ends.
        destination: IpAddr,
    },
}

/// What payloads are filled with behind the stamp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Payload {
    /// 0, 1, 2 ...
    #[default]
    Incrementing,
    /// Zeros.
    Zeros,
    /// Bits that are all one.
    Ones,
    /// Random bytes, the same in all frames.
    Random {
        /// What they come from.
        seed: u64,
    },
    /// Bytes over and over.
    Bytes {
        /// They, 1 to 9216, as pairs of hexadecimal digits.
        hex: String,
    },
}

/// In which order sizes or flows come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Frames that were recorded elsewhere, and given to the agent by `traffic.record`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Replayed {
    /// The name of the recording.
    pub recording: String,
    /// Whether their distances are as they were recorded, stretched to the rate; otherwise they are equal.
    #[serde(default)]
    pub as_recorded: bool,
}

/// A piece of a recording, of `traffic.record`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRecord {
    /// The set of ports that it will be sent through.
    pub id: String,
    /// The controller's name for the recording.
    pub recording: String,
    /// Whether it is the first piece; what was there under that name is forgotten.
    pub first: bool,
    /// Whether it is the last one.
    pub last: bool,
    /// At most 1 MiB of it, as pairs of hexadecimal digits.
    pub hex: String,
}

/// Result of `traffic.record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRecorded {
    /// Bytes of it that are there.
    pub bytes: u64,
    /// Its frames; 0 until the last piece came.
    pub frames: u64,
    /// Of these: those without room for a stamp.
    pub unstamped_frames: u64,
    /// Flows of the others.
    pub flows: u32,
}

/// What a sender's frames look like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameParams {
    /// Sizes with FCS (bytes) and their weights.
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
    /// What carries the payload.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transport: Transport,
    /// What stands around the packets; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// What payloads are filled with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload: Payload,
    /// Whether all frames may go without a stamp where the smallest has no room for one: they are counted, and no more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub may_go_unstamped: bool,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameRate {
    /// How many frames.
    pub frames: u64,
    /// In how long (ns).
    pub per_ns: u64,
}

/// What happens to frames that were due while the sender could not send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Frames that are sent in place of `frames`, of which the MAC addresses are theirs; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replayed>,
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
    /// The line that gap frames keep full between frames; absent: frames are spaced by the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_frames: Option<GapLine>,
}

/// A line that is always full: PAUSE frames (IEEE 802.3, annex 31B) fill the gaps, to the byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GapLine {
    /// Its rate, preamble and gaps included (bit/s).
    pub line_bps: u64,
}

/// How a thread waits for frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
