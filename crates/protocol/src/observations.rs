//! Kernel counters as the samplers read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The samplers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Sampler {
    /// CPU time by class, per CPU.
    Cpu,
    /// Threads of the supervised processes.
    Threads,
    /// Soft interrupts per CPU.
    Softirq,
    /// The receive path per CPU (`softnet_stat`).
    Softnet,
    /// Network interfaces.
    Interfaces,
    /// Queueing disciplines.
    Qdiscs,
    /// Frame drops, by place.
    Drops,
    /// Established TCP connections.
    Sockets,
    /// Settings in effect: of a namespace's stack and of its interfaces.
    Settings,
    /// Processor settings in effect.
    Processors,
}

impl Sampler {
    /// Return the name in the wire format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Threads => "threads",
            Self::Softirq => "softirq",
            Self::Softnet => "softnet",
            Self::Interfaces => "interfaces",
            Self::Qdiscs => "qdiscs",
            Self::Drops => "drops",
            Self::Sockets => "sockets",
            Self::Settings => "settings",
            Self::Processors => "processors",
        }
    }

    /// Return whether each network namespace has separate counters.
    pub fn is_per_netns(self) -> bool {
        matches!(self, Self::Interfaces | Self::Qdiscs | Self::Drops | Self::Sockets | Self::Settings)
    }
}

/// CPU time of one CPU by class, since boot (ns); the kernel counts in ticks of 10 ms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuTimes {
    /// CPU number.
    pub cpu: u32,
    /// User mode.
    pub user_ns: u64,
    /// User mode, nice.
    pub nice_ns: u64,
    /// Kernel mode.
    pub system_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Idle with I/O outstanding.
    pub iowait_ns: u64,
    /// Hardware interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Steal: time taken by the hypervisor.
    pub steal_ns: u64,
    /// Guest; also counted as user mode.
    pub guest_ns: u64,
    /// Guest, nice; also counted as user mode, nice.
    pub guest_nice_ns: u64,
}

/// A thread of a supervised process or of its descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThreadTimes {
    /// The controller's name for the supervised process to which the thread belongs; `null` for kernel threads.
    pub process: Option<String>,
    /// Process number; for a kernel thread, its own number.
    pub pid: u32,
    /// Thread number.
    pub tid: u32,
    /// Thread name.
    pub name: String,
    /// Time on a CPU (ns).
    pub run_ns: u64,
    /// Time in the run queue without a CPU (ns).
    pub wait_ns: u64,
    /// Time in user mode, in ticks of 10 ms (ns).
    pub user_ns: u64,
    /// Time in the kernel, in ticks of 10 ms (ns).
    pub system_ns: u64,
    /// The CPU on which the thread ran last.
    pub last_cpu: u32,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// Thread state as in `proc_pid_stat(5)`, such as `R`, `S` or `T`; empty from older agents.
    #[serde(default)]
    pub state: String,
    /// The allowed CPUs, as a list such as `0-3,6`; empty from older agents.
    #[serde(default)]
    pub allowed_cpus: String,
}

/// Number of runs of one kind of soft interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SoftirqCounts {
    /// The kernel's name of the soft interrupt.
    pub kind: String,
    /// Counts per CPU, in CPU order.
    pub per_cpu: Vec<u64>,
}

/// The receive path of one CPU; the kernel's counters have 32 bits and wrap around.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SoftnetCounts {
    /// CPU number.
    pub cpu: u32,
    /// Frames processed.
    pub processed: u64,
    /// Frames dropped because the backlog was full.
    pub dropped: u64,
    /// Number of times the budget was exhausted (`time_squeeze`).
    pub time_squeeze: u64,
    /// Number of frames in the backlog.
    pub backlog: u64,
}

/// The counters of a network interface since its creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterfaceCounters {
    /// The interface.
    pub name: String,
    /// Received (bytes).
    pub rx_bytes: u64,
    /// Received (packets).
    pub rx_packets: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Dropped on reception.
    pub rx_dropped: u64,
    /// Sent (bytes).
    pub tx_bytes: u64,
    /// Sent (packets).
    pub tx_packets: u64,
    /// Send errors.
    pub tx_errors: u64,
    /// Dropped on sending.
    pub tx_dropped: u64,
    /// Number of carrier changes; `null` if the kernel does not count them.
    #[serde(default)]
    pub carrier_changes: Option<u64>,
}

/// The counters of a queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct QdiscCounters {
    /// The interface of the queueing discipline.
    pub interface: String,
    /// Its kind, such as `htb`.
    pub kind: String,
    /// Its handle in tc's format, such as `8001:`.
    pub handle: String,
    /// `root`, or the parent in tc's format.
    pub parent: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Number of times a packet was delayed by the rate (overlimits).
    pub overlimits: u64,
    /// Number of times the driver returned a packet (requeues).
    pub requeues: u64,
    /// Backlog (bytes).
    pub backlog_bytes: u64,
    /// Backlog (packets).
    pub qlen: u64,
}

/// The drop counters of one place since its creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DropCounters {
    /// Kind of place: `interface`, `driver` (driver statistics of an interface), `protocol` or `reason` (both of the
    /// whole kernel).
    pub place: String,
    /// Name of the interface or protocol.
    pub name: String,
    /// Drop counters by the kernel's names.
    pub counters: BTreeMap<String, u64>,
}

/// The settings in effect at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingValues {
    /// Kind of place: `stack` (of the namespace), `interface` or `processors`.
    pub place: String,
    /// Interface name, or a CPU list; empty if there is only one such place.
    pub name: String,
    /// Values of the settings, by name.
    pub values: BTreeMap<String, String>,
}

/// An established TCP connection, with the values of `struct tcp_info` and of its socket's memory; 0: not reported by
/// the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketCounters {
    /// Local port.
    pub local_port: u16,
    /// Remote port.
    pub remote_port: u16,
    /// Congestion control algorithm, such as `cubic`.
    pub congestion: String,
    /// Smoothed round-trip time (ns).
    pub rtt_ns: u64,
    /// Minimum round-trip time (ns).
    pub least_rtt_ns: u64,
    /// Congestion window (bytes).
    pub window_bytes: u64,
    /// Data in flight: unacknowledged and not considered lost, in full segments (bytes).
    #[serde(default)]
    pub in_flight_bytes: u64,
    /// Time in which the connection had data to send (ns).
    pub busy_ns: u64,
    /// Part of `busy_ns` in which the receiver's window limited the sender (ns).
    pub receiver_limited_ns: u64,
    /// Part of `busy_ns` in which the send buffer limited the sender (ns).
    pub buffer_limited_ns: u64,
    /// Bytes sent, including retransmissions.
    pub sent_bytes: u64,
    /// Bytes retransmitted.
    pub resent_bytes: u64,
    /// The last window that the receiver advertised (bytes).
    pub receiver_window_bytes: u64,
    /// Limit of the receive buffer (bytes).
    pub receive_buffer_bytes: u64,
    /// Limit of the send buffer (bytes).
    pub send_buffer_bytes: u64,
    /// Number of received segments that the socket dropped.
    pub dropped: u64,
}

/// Counters of one sampler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "sampler", rename_all = "lowercase")]
#[allow(missing_docs)] // each holds a list of the struct named in its type
pub enum Counters {
    Cpu { cpus: Vec<CpuTimes> },
    Threads { threads: Vec<ThreadTimes> },
    Softirq { kinds: Vec<SoftirqCounts> },
    Softnet { cpus: Vec<SoftnetCounts> },
    Interfaces { interfaces: Vec<InterfaceCounters> },
    Qdiscs { qdiscs: Vec<QdiscCounters> },
    Drops { drops: Vec<DropCounters> },
    Sockets { sockets: Vec<SocketCounters> },
    Settings { settings: Vec<SettingValues> },
    Processors { settings: Vec<SettingValues> },
}

/// Counters of one sampler, with their namespace and the time of the reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The namespace; `null`: the host, or the agent's namespace.
    pub netns: Option<String>,
    /// Time before the reading (ns).
    pub begin_ns: u64,
    /// Time after the reading (ns).
    pub end_ns: u64,
    /// The counters.
    #[serde(flatten)]
    pub counters: Counters,
}
