//! What door, opener and agent say to each other.

use serde::{Deserialize, Serialize};

/// What the opener is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Whether it is there, and allowed to work for this user.
    Ready,
    /// The device of a macvtap in the network namespace that comes as an open file.
    Open {
        /// The macvtap's name there.
        interface: String,
    },
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Reply {
    /// It would work.
    Ready,
    /// The device comes as an open file.
    Opened,
    /// It would not, or could not.
    Refused {
        /// What was seen and what is allowed.
        why: String,
    },
}
