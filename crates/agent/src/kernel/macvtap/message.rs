//! Messages between the agent, the process outside the namespace and the opener.

use serde::{Deserialize, Serialize};

/// A request to the opener.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Check that the opener exists and is permitted to work for this user.
    Ready,
    /// Open the device of a macvtap in the network namespace that is attached as an open file.
    Open {
        /// Name of the macvtap in the namespace.
        interface: String,
    },
}

/// A reply of the opener.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Reply {
    /// The opener is ready.
    Ready,
    /// The device is attached as an open file.
    Opened,
    /// The request was refused or failed.
    Refused {
        /// The actual value and the allowed values.
        why: String,
    },
}
