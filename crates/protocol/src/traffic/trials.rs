//! The parameters of `traffic.run`: senders with their frames and rates, receivers, and the end of the trial.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// VLAN identifier, 0 to 4094.
    pub id: u16,
    /// Priority (PCP), 0 to 7.
    #[serde(default)]
    pub priority: u8,
    /// Drop eligible indicator (DEI).
    #[serde(default)]
    pub drop_eligible: bool,
}

/// A range of values: flow `f` has the value `first + step * (f / every mod count)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Range<A> {
    /// Value of flow 0.
    pub first: A,
    /// Number of different values, after which the values repeat.
    #[serde(default = "one")]
    pub count: u32,
    /// Difference between consecutive values.
    #[serde(default = "one")]
    pub step: u32,
    /// Number of consecutive flows with the same value.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub every: u32,
}

/// The flows of a sender; all addresses belong to one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Number of flows, 1 to 1048576.
    #[serde(default = "one")]
    pub count: u32,
    /// Source addresses.
    pub source_address: Range<IpAddr>,
    /// Destination addresses.
    pub destination_address: Range<IpAddr>,
    /// Source ports; for echo requests, identifiers.
    pub source_port: Range<u16>,
    /// Destination ports.
    pub destination_port: Range<u16>,
}

/// The protocol of the flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP segments with only the ACK flag, all with the same sequence number.
    Tcp,
    /// Echo requests of ICMP or `ICMPv6`.
    Icmp,
}

/// The tunnel of the flows' packets; both tunnel addresses belong to one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tunnel {
    /// VXLAN: an Ethernet frame in UDP (RFC 7348).
    Vxlan {
        /// Source address of the tunnel.
        source: IpAddr,
        /// Destination address of the tunnel.
        destination: IpAddr,
        /// VXLAN network identifier (24 bits).
        #[serde(default)]
        vni: u32,
    },
    /// GRE: a packet after a header of four bytes (RFC 2784).
    Gre {
        /// Source address of the tunnel.
        source: IpAddr,
        /// Destination address of the tunnel.
        destination: IpAddr,
    },
}

/// The payload after the stamp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Payload {
    /// Ascending bytes: 0, 1, 2, ...
    #[default]
    Incrementing,
    /// Zeros.
    Zeros,
    /// Bytes 0xff.
    Ones,
    /// Random bytes, the same in all frames.
    Random {
        /// Seed of the random bytes.
        seed: u64,
    },
    /// A repeated byte pattern.
    Bytes {
        /// The pattern, 1 to 9216 bytes, as hexadecimal digits.
        hex: String,
    },
}

/// The order of frame sizes or flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Round robin.
    #[default]
    Turns,
    /// A random draw for every frame.
    Seeded {
        /// Seed of the draws.
        seed: u64,
    },
}

/// Recorded frames, which `traffic.record` transferred to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Replayed {
    /// Name of the recording.
    pub recording: String,
    /// Whether the gaps between frames are as recorded, scaled to the rate; otherwise they are equal.
    #[serde(default)]
    pub as_recorded: bool,
}

/// Parameters of `traffic.record`: one piece of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRecord {
    /// The set of ports that will send the recording.
    pub id: String,
    /// The controller's name for the recording.
    pub recording: String,
    /// Whether this is the first piece, which discards an earlier recording of that name.
    pub first: bool,
    /// Whether this is the last piece.
    pub last: bool,
    /// At most 1 MiB of the recording, as hexadecimal digits.
    pub hex: String,
}

/// Result of `traffic.record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRecorded {
    /// Bytes received so far.
    pub bytes: u64,
    /// Number of frames; 0 before the last piece.
    pub frames: u64,
    /// Number of frames without room for a stamp.
    pub unstamped_frames: u64,
    /// Number of flows of the frames with room for a stamp.
    pub flows: u32,
}

/// The frames of a sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameParams {
    /// Frame sizes with FCS (bytes), and their weights.
    pub sizes: Vec<(u16, u16)>,
    /// Source MAC address; absent: that of the port's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_mac: Option<String>,
    /// Destination MAC address.
    pub destination_mac: String,
    /// VLAN tags, outermost first.
    #[serde(default)]
    pub vlans: Vec<Vlan>,
    /// Addresses and ports.
    pub flows: Flows,
    /// The protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transport: Transport,
    /// The tunnel; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// The payload.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload: Payload,
    /// Whether frames may be sent without a stamp, and only be counted, if the smallest frame has no room for a stamp.
    #[serde(default, skip_serializing_if = "is_default")]
    pub may_go_unstamped: bool,
    /// DSCP and ECN (the whole byte).
    #[serde(default)]
    pub traffic_class: u8,
    /// TTL or hop limit.
    #[serde(default = "sixty_four")]
    pub hop_limit: u8,
    /// The order of frame sizes.
    #[serde(default)]
    pub size_order: Order,
    /// The order of flows.
    #[serde(default)]
    pub flow_order: Order,
}

/// A rate: `frames` per `per_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameRate {
    /// Number of frames.
    pub frames: u64,
    /// Interval (ns).
    pub per_ns: u64,
}

/// Treatment of frames that became due while the sender could not send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StallRule {
    /// The frames are not sent.
    #[default]
    Slip,
    /// A limited number of frames is sent late, at no more than twice the rate.
    CatchUp {
        /// Maximum number of late frames after one stall.
        max_frames: u32,
    },
}

/// A sender of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SenderParams {
    /// The sending port.
    pub port: String,
    /// Tag that identifies the sender's frames, different in each trial and direction.
    pub tag: u16,
    /// The frames.
    pub frames: FrameParams,
    /// The rate.
    pub rate: FrameRate,
    /// Recorded frames to send instead of `frames`, which then defines only the MAC addresses; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replayed>,
    /// Maximum burst size, 1 to 64 (frames).
    #[serde(default = "one")]
    pub max_burst: u32,
    /// Treatment of frames after a stall.
    #[serde(default)]
    pub stall: StallRule,
    /// Minimum lateness of a reported stall.
    #[serde(default = "hundred_us_ns")]
    pub stall_threshold_ns: u64,
    /// Maximum number of frames, in addition to the duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_frames: Option<u64>,
    /// The line whose gaps are filled with gap frames; absent: frames are paced by the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_frames: Option<GapLine>,
}

/// A fully used line: PAUSE frames (IEEE 802.3, annex 31B) fill the gaps, byte by byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GapLine {
    /// Line rate, including preamble and inter-frame gap (bit/s).
    pub line_bps: u64,
}

/// The waiting mode of a receiving thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// `wait` if the threads and the device under test do not have one CPU each, otherwise `busy`.
    #[default]
    Auto,
    /// Busy polling.
    Busy,
    /// Sleeping until the kernel wakes the thread.
    Wait,
}

/// The extent of the check of received frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Checking {
    /// Every byte.
    #[default]
    Whole,
    /// Headers and stamp; payload corruption is not detected.
    HeadersAndStamp,
}

/// A receiver of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiverParams {
    /// The receiving port.
    pub port: String,
    /// The expected sender, as an index in `senders`.
    pub of: usize,
    /// The waiting mode.
    #[serde(default)]
    pub waiting: Waiting,
    /// The extent of the check.
    #[serde(default)]
    pub checking: Checking,
}

/// The end of a trial: the wait for frames in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainParams {
    /// Time without an arriving frame after which the trial ends.
    #[serde(default = "ten_ms_ns")]
    pub quiet_ns: u64,
    /// Maximum wait.
    #[serde(default = "one_second_ns")]
    pub timeout_ns: u64,
}

impl Default for DrainParams {
    fn default() -> Self {
        Self { quiet_ns: ten_ms_ns(), timeout_ns: one_second_ns() }
    }
}

/// Parameters of `traffic.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficRun {
    /// The set of ports.
    pub id: String,
    /// Duration of sending.
    pub duration_ns: u64,
    /// The senders.
    pub senders: Vec<SenderParams>,
    /// The receivers.
    #[serde(default)]
    pub receivers: Vec<ReceiverParams>,
    /// The wait at the end of the trial.
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
