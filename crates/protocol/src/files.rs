//! Files that the agent opens for a program it starts. Opening them is the agent's business.

use serde::{Deserialize, Serialize};

/// One file for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PassedFile {
    /// The descriptor number the program finds it under.
    pub fd: i32,
    /// What is opened.
    pub open: Opening,
}

/// What is opened for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Opening {
    /// A tap interface, or one more queue of it.
    Tap {
        /// The namespace it is in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
        /// The interface.
        name: String,
        /// Whether frames carry a virtio header.
        #[serde(default)]
        vnet_header: bool,
        /// Whether it may have several queues.
        #[serde(default)]
        multi_queue: bool,
    },
    /// The character device of a macvtap interface, or one more queue of it.
    Macvtap {
        /// The namespace the interface is in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
        /// The interface.
        interface: String,
    },
    /// A device below `/dev`.
    Device {
        /// Its path.
        path: String,
    },
    /// A block device that the user gives up, and that nothing uses: opened alone, past the page cache.
    Claimed {
        /// Its path.
        path: String,
        /// Its serial number or WWN.
        serial: String,
    },
}
