//! What a host is. Finding out is the agent's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One network interface of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// The kernel driver, where the kernel names one.
    pub driver: Option<String>,
    /// The largest packet it carries (bytes).
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether each feature is active, by the names `ethtool -k` prints; empty where nothing tells.
    #[serde(default)]
    pub offloads: BTreeMap<String, bool>,
    /// The NUMA node that its device is at; `null` where there is no device, or one node.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// The version of its driver.
    #[serde(default)]
    pub driver_version: Option<String>,
    /// The version of the firmware of its device.
    #[serde(default)]
    pub firmware: Option<String>,
    /// Interrupt coalescing, by the names and with the values that `ethtool -c` prints; empty where nothing tells.
    #[serde(default)]
    pub coalescing: BTreeMap<String, String>,
    /// Pause frames, by the words that `ethtool -A` takes: `autoneg`, `rx`, `tx`; empty where nothing tells.
    #[serde(default)]
    pub pause: BTreeMap<String, bool>,
    /// The daemon that manages it.
    #[serde(default)]
    pub manager: Option<String>,
}

/// How the processors of a host are set; CPUs are lists as the kernel writes them, such as `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessorFacts {
    /// The CPUs that are online.
    pub online: Option<String>,
    /// Whether a core runs several threads; `null` where the kernel does not tell.
    pub smt: Option<bool>,
    /// The CPUs of each core, in the order of their first.
    pub cores: Vec<String>,
    /// The CPUs of each NUMA node.
    pub nodes: BTreeMap<String, String>,
    /// What sets the frequency, such as `intel_pstate`; `null` where nothing does.
    pub driver: Option<String>,
    /// Governor to the CPUs that have it.
    pub governors: BTreeMap<String, String>,
    /// Governors that can be set.
    pub available_governors: Vec<String>,
    /// Whether cores may run above their nominal frequency; `null` where the kernel does not tell.
    pub turbo: Option<bool>,
    /// What puts idle CPUs to sleep, such as `intel_idle`; `null` where nothing does.
    pub idle_driver: Option<String>,
    /// The states that an idle CPU may sleep in, each with the time that leaving it takes.
    pub idle_states: Vec<IdleState>,
}

/// A state that an idle CPU may sleep in (a C-state).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// How long leaving it takes (ns).
    pub exit_latency_ns: u64,
}

/// What the host is; `null` where the host does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The host's name.
    pub hostname: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's architecture.
    pub architecture: String,
    /// The distribution.
    pub os: Option<String>,
    /// The processor.
    pub cpu_model: Option<String>,
    /// The revision of the processor's microcode.
    #[serde(default)]
    pub microcode: Option<String>,
    /// The machine's firmware: vendor, version, date.
    #[serde(default)]
    pub firmware: Option<String>,
    /// How many CPUs are online.
    pub cpus: usize,
    /// The memory the kernel manages (bytes).
    pub memory_bytes: u64,
    /// Where the kernel takes time from.
    pub clocksource: Option<String>,
    /// The hypervisor the host runs on, or `none`.
    pub virtualization: Option<String>,
    /// The load of the last minute (1/1000).
    pub load_1min_milli: u64,
    /// The network interfaces.
    pub interfaces: Vec<InterfaceFacts>,
    /// The version line of each asked program; `null` where it is not installed.
    pub programs: BTreeMap<String, Option<String>>,
    /// Whether the kernel can make each thing; `null` where that could not be tried.
    pub features: BTreeMap<String, Option<bool>>,
    /// How the processors are set.
    #[serde(default)]
    pub processors: ProcessorFacts,
    /// The daemons that run of those that change what is measured: they move interrupts, or set interfaces.
    #[serde(default)]
    pub daemons: Vec<String>,
    /// The value of each asked setting; `null` where it cannot be read.
    pub settings: BTreeMap<String, Option<String>>,
}
