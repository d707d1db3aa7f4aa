//! Counters of the kernel as they were read. Reading them is the samplers' business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The samplers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Sampler {
    /// Time per CPU by class.
    Cpu,
    /// Threads of the supervised processes.
    Threads,
    /// Soft interrupts per CPU.
    Softirq,
    /// The receive path per CPU.
    Softnet,
    /// Network interfaces.
    Interfaces,
    /// Queueing disciplines.
    Qdiscs,
    /// Frames dropped anywhere on their way, by place.
    Drops,
    /// Established TCP connections.
    Sockets,
    /// What is set: of a namespace's stack and of its interfaces.
    Settings,
    /// What is set of the processors.
    Processors,
}

impl Sampler {
    /// The name on the wire.
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

    /// Whether each network namespace has counters of its own.
    pub fn is_per_netns(self) -> bool {
        matches!(self, Self::Interfaces | Self::Qdiscs | Self::Drops | Self::Sockets | Self::Settings)
    }
}

/// The time of one CPU by class since boot (ns); the kernel counts in ticks of 10 ms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuTimes {
    /// Number of the CPU.
    pub cpu: u32,
    /// User mode.
    pub user_ns: u64,
    /// User mode, niced.
    pub nice_ns: u64,
    /// Kernel.
    pub system_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Idle with I/O outstanding.
    pub iowait_ns: u64,
    /// Interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
    /// Running guests; also counted in user mode.
    pub guest_ns: u64,
    /// Running niced guests; also counted in niced user mode.
    pub guest_nice_ns: u64,
}

/// One thread of a supervised process or of its descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThreadTimes {
    /// The supervised process it belongs to or works for, as the controller named it; `null` for the kernel's own threads.
    pub process: Option<String>,
    /// Its process; of a thread of the kernel, itself.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Time on a CPU (ns).
    pub run_ns: u64,
    /// Time runnable but waiting for a CPU (ns).
    pub wait_ns: u64,
    /// Time in user mode, in ticks of 10 ms (ns).
    pub user_ns: u64,
    /// Time in the kernel, in ticks of 10 ms (ns).
    pub system_ns: u64,
    /// The CPU it ran on last.
    pub last_cpu: u32,
    /// How often it gave up the CPU.
    pub voluntary_switches: u64,
    /// How often the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Its state as `proc_pid_stat(5)` has it, such as `R`, `S` or `T`; empty from older agents.
    #[serde(default)]
    pub state: String,
    /// The CPUs that it may run on, as a list such as `0-3,6`; empty from older agents.
    #[serde(default)]
    pub allowed_cpus: String,
}

/// How often one kind of soft interrupt ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SoftirqCounts {
    /// The kernel's name of the kind.
    pub kind: String,
    /// Counts in the order of the CPUs.
    pub per_cpu: Vec<u64>,
}

/// The receive path of one CPU; the kernel's counters are 32 bits wide and wrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SoftnetCounts {
    /// The CPU.
    pub cpu: u32,
    /// Frames processed.
    pub processed: u64,
    /// Frames dropped because the backlog was full.
    pub dropped: u64,
    /// How often the budget ended before the work.
    pub time_squeeze: u64,
    /// Frames waiting now.
    pub backlog: u64,
}

/// The counters of one network interface since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterfaceCounters {
    /// Interface.
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
    /// How often its carrier came or went; `null` where the kernel does not count it.
    #[serde(default)]
    pub carrier_changes: Option<u64>,
}

/// The counters of one queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct QdiscCounters {
    /// The interface it is on.
    pub interface: String,
    /// What it is, such as `htb`.
    pub kind: String,
    /// Its handle as tc prints it, such as `8001:`.
    pub handle: String,
    /// `root`, or its parent as tc prints it.
    pub parent: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// How often a packet had to wait for the rate.
    pub overlimits: u64,
    /// How often the driver gave a packet back.
    pub requeues: u64,
    /// Bytes waiting now.
    pub backlog_bytes: u64,
    /// Packets waiting now.
    pub qlen: u64,
}

/// What one place dropped since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DropCounters {
    /// Where: `interface`, `driver` (an interface's own statistics), `protocol` or `reason` (of the whole kernel).
    pub place: String,
    /// Which one: an interface's or a protocol's name.
    pub name: String,
    /// The kernel's names of the counters that tell of drops, and their values.
    pub counters: BTreeMap<String, u64>,
}

/// What is in effect at one place, as the kernel shows it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingValues {
    /// Where: `stack` (of the namespace), `interface` or `processors`.
    pub place: String,
    /// Which one: an interface's name, a list of CPUs; empty where there is one only.
    pub name: String,
    /// What is set, and to what.
    pub values: BTreeMap<String, String>,
}

/// One established TCP connection, as `struct tcp_info` and its socket's memory tell; 0 is what the kernel does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketCounters {
    /// Port of this end.
    pub local_port: u16,
    /// Port of the other end.
    pub remote_port: u16,
    /// What controls its congestion, such as `cubic`.
    pub congestion: String,
    /// Smoothed round-trip time (ns).
    pub rtt_ns: u64,
    /// The least one seen (ns).
    pub least_rtt_ns: u64,
    /// Congestion window (bytes).
    pub window_bytes: u64,
    /// Sent and neither acknowledged nor taken for lost, in full segments (bytes).
    #[serde(default)]
    pub in_flight_bytes: u64,
    /// Time in which it had something to send (ns).
    pub busy_ns: u64,
    /// Of that, the time in which the receiver's window kept it from sending (ns).
    pub receiver_limited_ns: u64,
    /// Of that, the time in which its own send buffer was too small (ns).
    pub buffer_limited_ns: u64,
    /// Bytes sent, those sent again included.
    pub sent_bytes: u64,
    /// Bytes sent again.
    pub resent_bytes: u64,
    /// The window that the receiver last told (bytes).
    pub receiver_window_bytes: u64,
    /// Bound of the receive buffer (bytes).
    pub receive_buffer_bytes: u64,
    /// Bound of the send buffer (bytes).
    pub send_buffer_bytes: u64,
    /// Segments that the socket dropped on receipt.
    pub dropped: u64,
}

/// What one sampler read.
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

/// What one sampler read, where, and within which time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The namespace; `null` for the host's counters and the agent's own namespace.
    pub netns: Option<String>,
    /// Before the reading began (ns).
    pub begin_ns: u64,
    /// After the reading ended (ns).
    pub end_ns: u64,
    /// The counters.
    #[serde(flatten)]
    pub counters: Counters,
}
