//! Facts about a host, as the agent determines them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A network interface of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// The kernel driver, if the kernel reports one.
    pub driver: Option<String>,
    /// The MTU (bytes).
    pub mtu: u32,
    /// Whether the interface is up.
    pub up: bool,
    /// Whether each offload feature is active, by its name in `ethtool -k`; empty if the kernel does not report them.
    #[serde(default)]
    pub offloads: BTreeMap<String, bool>,
    /// The NUMA node of the interface's device; `null` if there is no device, or only one node.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// The driver version.
    #[serde(default)]
    pub driver_version: Option<String>,
    /// The firmware version of the device.
    #[serde(default)]
    pub firmware: Option<String>,
    /// Interrupt coalescing settings, by their names in `ethtool -c`; empty if the kernel does not report them.
    #[serde(default)]
    pub coalescing: BTreeMap<String, String>,
    /// Pause frame settings, by the parameter names of `ethtool -A`: `autoneg`, `rx`, `tx`; empty if the kernel does
    /// not report them.
    #[serde(default)]
    pub pause: BTreeMap<String, bool>,
    /// The daemon that manages the interface.
    #[serde(default)]
    pub manager: Option<String>,
}

/// The processor settings of a host; CPU lists have the kernel's format, such as `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessorFacts {
    /// The online CPUs.
    pub online: Option<String>,
    /// Whether a core runs several threads (SMT); `null` if the kernel does not report it.
    pub smt: Option<bool>,
    /// The CPUs of each core, sorted by the first CPU.
    pub cores: Vec<String>,
    /// The CPUs of each NUMA node.
    pub nodes: BTreeMap<String, String>,
    /// The frequency scaling driver, such as `intel_pstate`; `null` if there is none.
    pub driver: Option<String>,
    /// The CPUs of each frequency governor.
    pub governors: BTreeMap<String, String>,
    /// The available frequency governors.
    pub available_governors: Vec<String>,
    /// Whether cores may exceed their nominal frequency (turbo); `null` if the kernel does not report it.
    pub turbo: Option<bool>,
    /// The idle driver, such as `intel_idle`; `null` if there is none.
    pub idle_driver: Option<String>,
    /// The enabled idle states (C-states) with their exit latencies.
    pub idle_states: Vec<IdleState>,
}

/// An idle state of a CPU (C-state).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// The state's name, such as `C6`.
    pub name: String,
    /// The exit latency (ns).
    pub exit_latency_ns: u64,
}

/// Facts about the host; `null`: unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The host name.
    pub hostname: String,
    /// The kernel release.
    pub kernel: String,
    /// The processor architecture.
    pub architecture: String,
    /// The Linux distribution.
    pub os: Option<String>,
    /// The processor model.
    pub cpu_model: Option<String>,
    /// The microcode revision.
    #[serde(default)]
    pub microcode: Option<String>,
    /// The machine's firmware: vendor, version, date.
    #[serde(default)]
    pub firmware: Option<String>,
    /// Number of online CPUs.
    pub cpus: usize,
    /// Memory managed by the kernel (bytes).
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// The hypervisor of the host, or `none`.
    pub virtualization: Option<String>,
    /// The load average of the last minute (1/1000).
    pub load_1min_milli: u64,
    /// The network interfaces.
    pub interfaces: Vec<InterfaceFacts>,
    /// The version line of each requested program; `null` if the program is not installed.
    pub programs: BTreeMap<String, Option<String>>,
    /// Whether the kernel can create each object; `null` if this could not be tested.
    pub features: BTreeMap<String, Option<bool>>,
    /// The processor settings.
    #[serde(default)]
    pub processors: ProcessorFacts,
    /// Running daemons that affect measurements, because they move interrupts or configure interfaces.
    #[serde(default)]
    pub daemons: Vec<String>,
    /// The value of each requested setting; `null` if it cannot be read.
    pub settings: BTreeMap<String, Option<String>>,
}
