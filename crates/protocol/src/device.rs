//! The parameters and results of `device.*`: devices under test that consist of one XDP program, or of a forwarding
//! thread.

use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;

const fn one() -> u64 {
    1
}

/// How a device forwards the frames that its impairments do not drop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DeviceAction {
    /// Frames are sent from a different interface in the same namespace.
    Forward {
        /// The outgoing interface.
        interface: String,
        /// A new source address, valid only together with a new destination address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_mac: Option<String>,
        /// A new destination address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destination_mac: Option<String>,
    },
    /// Frames are returned to their sender, with exchanged MAC addresses.
    Reflect,
    /// Frames are counted and dropped.
    Drop,
    /// Frames are passed to the host's stack.
    Pass,
}

/// The mode in which the XDP program is attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceMode {
    /// In the driver (native); if the driver does not support it, in the stack (generic).
    #[default]
    Auto,
    /// In the driver (native).
    Native,
    /// In the stack (generic).
    Generic,
}

/// Parameters of `device.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceStart {
    /// The controller's name for the device.
    pub id: String,
    /// The namespace of the device's interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The interface on which frames arrive.
    pub interface: String,
    /// The impairments of the device; empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impairments: Vec<Impairment>,
    /// Seed of the random draws.
    #[serde(default = "one")]
    pub seed: u64,
    /// How the device forwards frames.
    pub action: DeviceAction,
    /// The mode in which the program is attached.
    #[serde(default)]
    pub mode: DeviceMode,
    /// The CPU of a user-space device; absent: any CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The real-time priority (`SCHED_FIFO`) of a user-space device, 1 to 99; absent: the agent's scheduling policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// Result of `device.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceStarted {
    /// Mode of the device: `native`, `generic` or `user`.
    pub mode: String,
    /// The reason why the mode is not native.
    pub fallbacks: Vec<String>,
    /// Number of BPF instructions; 0 in user space.
    pub instructions: u32,
    /// Time at which the device was ready (ns).
    pub begin_ns: u64,
}

/// Parameters of `device.read` and `device.stop`.
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
    /// Number of frames that the device sent.
    pub passed_frames: u64,
    /// Number of frames that the device dropped.
    pub dropped_frames: u64,
    /// Time before the counters were read (ns).
    pub begin_ns: u64,
    /// Time after the counters were read (ns).
    pub end_ns: u64,
}
