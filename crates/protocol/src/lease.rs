//! Leases: the resources of a kernel that an agent may change while other agents change others.

use serde::{Deserialize, Serialize};

/// A leasable resource of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// The resource's name, `KIND:WHICH`: `port:eth1`, `cpu:3`, `disk:8:16`.
    pub name: String,
    /// Whether other agents may share the resource.
    #[serde(default)]
    pub shared: bool,
}

/// Parameters of `lease.take`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseTake {
    /// The lab's name, which other users are shown.
    pub lab: String,
    /// All resources that the lab needs.
    pub resources: Vec<Resource>,
    /// Time for which a holder must have been stopped (SIGSTOP) before it is killed (ms).
    #[serde(default = "twenty_seconds_ms")]
    pub stopped_ms: u64,
}

const fn twenty_seconds_ms() -> u64 {
    20_000
}

/// Result of `lease.take`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Leased {
    /// Number of the lease, greater than that of every earlier lease on these resources.
    pub number: u64,
    /// Agents that were killed because they were stopped.
    pub ended: Vec<u32>,
    /// Number of changes of dead holders that were undone first.
    pub undone: u64,
}

/// An agent that holds a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// The agent's process number.
    pub pid: u32,
    /// The agent's lab.
    pub lab: String,
    /// The leased resources; in a rejected request, only those in conflict.
    pub resources: Vec<Resource>,
    /// Whether the agent is stopped (SIGSTOP).
    pub stopped: bool,
}
