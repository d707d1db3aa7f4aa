//! Of `traffic.open` and `traffic.close`: ports and the ways to them.

use serde::{Deserialize, Serialize};

/// Which way frames take between the agent and an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathChoice {
    /// The fastest that works, with the reasons against the others.
    #[default]
    Auto,
    /// `AF_XDP` or nothing.
    AfXdp,
    /// `AF_PACKET`.
    AfPacket,
    /// Sending by live frames of a BPF program, receiving by `AF_XDP`; or nothing.
    BpfLive,
}

/// Which halves of a port are opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The CPUs of further sending threads, each with a transmit queue of its own: with `send_cpu` they share what the port
    /// sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_send_cpus: Vec<usize>,
    /// The CPU of the receiving thread; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_cpu: Option<usize>,
    /// The real-time priority (`SCHED_FIFO`) of the sending thread, 1 to 99; absent means that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_priority: Option<u8>,
    /// The real-time priority of the receiving thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_priority: Option<u8>,
    /// The largest frame that will be sent or received, with FCS (bytes); absent means 1522 (1518 and a tag), or what
    /// the MTU allows if that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u16>,
    /// Replace an XDP program that is attached, and put it back on close.
    #[serde(default)]
    pub force: bool,
}

/// Of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficOpen {
    /// The controller's name for the set of ports.
    pub id: String,
    /// The ports.
    pub ports: Vec<PortParams>,
}

/// The way frames take through one half of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PathUsed {
    /// Mechanism and mode in words, such as `AF_XDP native copy`.
    pub name: String,
    /// Why a better way was not taken, one sentence for each way tried.
    pub fallbacks: Vec<String>,
}

/// One port that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// How many transmit queues its interface uses.
    #[serde(default = "one")]
    pub send_queues: u32,
    /// The way out, when it sends.
    pub send: Option<PathUsed>,
    /// The way in, when it receives.
    pub receive: Option<PathUsed>,
}

fn one() -> u32 {
    1
}

/// Result of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficOpened {
    /// The ports in the order asked for.
    pub ports: Vec<PortOpened>,
    /// Before the first was opened (ns).
    pub begin_ns: u64,
    /// After the last was opened (ns).
    pub end_ns: u64,
}

/// Of `traffic.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficClose {
    /// The set of ports.
    pub id: String,
}
