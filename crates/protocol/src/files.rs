//! Files that the agent opens for a program before it starts the program.

use serde::{Deserialize, Serialize};

/// One file of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PassedFile {
    /// Number of the file descriptor that the program gets for this file.
    pub fd: i32,
    /// The file.
    pub open: Opening,
}

/// A kind of file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Opening {
    /// A tap interface, or an additional queue of one.
    Tap {
        /// The namespace of the tap interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
        /// The interface.
        name: String,
        /// Whether frames have a virtio header.
        #[serde(default)]
        vnet_header: bool,
        /// Whether the interface supports several queues.
        #[serde(default)]
        multi_queue: bool,
    },
    /// The character device of a macvtap interface, or an additional queue of it.
    Macvtap {
        /// The namespace of the interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
        /// The interface.
        interface: String,
    },
    /// A device below `/dev`.
    Device {
        /// The path of the device.
        path: String,
    },
    /// A block device that the user released for writing and that nothing else uses, opened with `O_EXCL` and `O_DIRECT`.
    Claimed {
        /// The path of the device.
        path: String,
        /// The serial number or WWN of the device.
        serial: String,
    },
    /// An existing block device that a lab has recorded, opened only for reading, or for writing with `O_EXCL`.
    Existing {
        /// The path of the record below `/run`.
        record: String,
        /// Whether the program writes.
        writes: bool,
    },
}
