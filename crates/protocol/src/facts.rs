//! What a host is. Finding out is the agent's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One network interface of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// The kernel driver, where the kernel names one.
    pub driver: Option<String>,
    /// The largest packet it carries [bytes].
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether each feature is active, by the names `ethtool -k` prints; empty where nothing tells.
    #[serde(default)]
    pub offloads: BTreeMap<String, bool>,
}

/// What the host is; `null` where the host does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How many CPUs are online.
    pub cpus: usize,
    /// The memory the kernel manages [bytes].
    pub memory_bytes: u64,
    /// Where the kernel takes time from.
    pub clocksource: Option<String>,
    /// The hypervisor the host runs on, or `none`.
    pub virtualization: Option<String>,
    /// The load of the last minute [1/1000].
    pub load_1min_milli: u64,
    /// The network interfaces.
    pub interfaces: Vec<InterfaceFacts>,
    /// The version line of each asked program; `null` where it is not installed.
    pub programs: BTreeMap<String, Option<String>>,
    /// Whether the kernel can make each thing; `null` where that could not be tried.
    pub features: BTreeMap<String, Option<bool>>,
    /// The value of each asked setting; `null` where it cannot be read.
    pub settings: BTreeMap<String, Option<String>>,
}
