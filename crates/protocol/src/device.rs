//! The parameters and results of `device.*`: systems under test made of one XDP program, or of
//! a thread that forwards.

use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;

const fn one() -> u64 {
    1
}

/// What a device does with frames that it lets through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DeviceAction {
    /// They leave by another interface of the same namespace.
    Forward {
        /// That interface.
        interface: String,
        /// A new source address, given with the next or not at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_mac: Option<String>,
        /// A new destination address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destination_mac: Option<String>,
    },
    /// They go back where they came from, MAC addresses exchanged.
    Reflect,
    /// They are counted and dropped.
    Drop,
    /// They go to the host.
    Pass,
}

/// Where the program is put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceMode {
    /// In the driver, or else in the stack.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the stack.
    Generic,
}

/// Of `device.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceStart {
    /// The controller's name for it.
    pub id: String,
    /// The namespace of its interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface where frames come in.
    pub interface: String,
    /// What it does to frames on their way; nothing when it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impairments: Vec<Impairment>,
    /// What chance is drawn from.
    #[serde(default = "one")]
    pub seed: u64,
    /// What it does with them.
    pub action: DeviceAction,
    /// Where the program is put.
    #[serde(default)]
    pub mode: DeviceMode,
    /// The CPU of a device in user space; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The real-time priority (`SCHED_FIFO`) of a device in user space, 1 to 99; absent means that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// Result of `device.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceStarted {
    /// `native`, `generic` or `user`.
    pub mode: String,
    /// Why it is not native.
    pub fallbacks: Vec<String>,
    /// How many instructions the program has; 0 in user space.
    pub instructions: u32,
    /// When it was in place (ns).
    pub begin_ns: u64,
}

/// Of `device.read` and `device.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceName {
    /// The device.
    pub id: String,
}

/// Result of `device.read` and `device.stop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceCounts {
    /// Frames that left it.
    pub passed_frames: u64,
    /// Frames that it lost.
    pub dropped_frames: u64,
    /// Before the counters were read (ns).
    pub begin_ns: u64,
    /// After the counters were read (ns).
    pub end_ns: u64,
}
