//! Leases: which resources of a kernel an agent may change while other agents change others.

use serde::{Deserialize, Serialize};

/// A resource of a kernel that is leased.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Its name, `KIND:WHICH`: `port:eth1`, `cpu:3`, `disk:8:16`.
    pub name: String,
    /// Whether others may share it.
    #[serde(default)]
    pub shared: bool,
}

/// Of `lease.take`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseTake {
    /// The lab, in words that another user understands.
    pub lab: String,
    /// All that it needs.
    pub resources: Vec<Resource>,
    /// How long a holder must have been stopped (SIGSTOP) before it is ended (ms).
    #[serde(default = "twenty_seconds_ms")]
    pub stopped_ms: u64,
}

const fn twenty_seconds_ms() -> u64 {
    20_000
}

/// A lease that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Leased {
    /// Higher than that of every lease of these resources before.
    pub number: u64,
    /// Agents that were ended because they were stopped.
    pub ended: Vec<u32>,
    /// How many changes of dead holders were undone first.
    pub undone: u64,
}

/// An agent that holds a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its lab.
    pub lab: String,
    /// What it holds; in a refusal only what is in the way.
    pub resources: Vec<Resource>,
    /// Whether it is stopped (SIGSTOP).
    pub stopped: bool,
}
