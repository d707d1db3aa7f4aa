//! The parameters and results of `traffic.open` and `traffic.close`: ports and their I/O paths.

use serde::{Deserialize, Serialize};

/// The I/O path of frames between the agent and an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathChoice {
    /// The fastest path that works, with the reasons why faster paths do not work.
    #[default]
    Auto,
    /// `AF_XDP` only.
    AfXdp,
    /// `AF_PACKET`.
    AfPacket,
    /// Live frames of a BPF program for sending, and `AF_XDP` for receiving; no other path.
    BpfLive,
}

/// The directions for which a port is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Halves {
    /// Sending and receiving.
    #[default]
    Both,
    /// Sending only.
    Send,
    /// Receiving only.
    Receive,
}

/// A port of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PortParams {
    /// The controller's name for the port, unique in its set.
    pub name: String,
    /// The namespace of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface.
    pub interface: String,
    /// The I/O path.
    #[serde(default)]
    pub path: PathChoice,
    /// The directions.
    #[serde(default)]
    pub halves: Halves,
    /// The CPU of the sending thread; absent: any CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_cpu: Option<usize>,
    /// CPUs of additional sending threads, each with a separate transmit queue; together with `send_cpu`, they share
    /// the port's load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_send_cpus: Vec<usize>,
    /// The CPU of the receiving thread; absent: any CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_cpu: Option<usize>,
    /// The real-time priority (`SCHED_FIFO`) of the sending thread, 1 to 99; absent: the agent's scheduling policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_priority: Option<u8>,
    /// The real-time priority of the receiving thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_priority: Option<u8>,
    /// Maximum frame size, with FCS (bytes); absent: 1522 (1518 and a VLAN tag), or the limit of the MTU if that is
    /// less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u16>,
    /// Replace an attached XDP program, and restore it on close.
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `traffic.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficOpen {
    /// The controller's name for the set of ports.
    pub id: String,
    /// The ports.
    pub ports: Vec<PortParams>,
}

/// The I/O path of one direction of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PathUsed {
    /// Mechanism and mode, such as `AF_XDP native copy`.
    pub name: String,
    /// The reasons why better paths are not used, one sentence per path.
    pub fallbacks: Vec<String>,
}

/// An open port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PortOpened {
    /// The port's name.
    pub name: String,
    /// MAC address of the interface.
    pub mac: String,
    /// MTU of the interface.
    pub mtu_bytes: u32,
    /// Maximum frame size, with FCS.
    pub frame_bytes: u16,
    /// Number of receive queues that the interface uses.
    pub queues: u32,
    /// Number of transmit queues that the interface uses.
    #[serde(default = "one")]
    pub send_queues: u32,
    /// The I/O path for sending, if the port sends.
    pub send: Option<PathUsed>,
    /// The I/O path for receiving, if the port receives.
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
    /// The ports, in the order of the request.
    pub ports: Vec<PortOpened>,
    /// Time before the first port was opened (ns).
    pub begin_ns: u64,
    /// Time after the last port was opened (ns).
    pub end_ns: u64,
}

/// Parameters of `traffic.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficClose {
    /// The set of ports.
    pub id: String,
}
