//! Ways to undo a change. The agent executes them.

use serde::{Deserialize, Serialize};

/// A way to undo one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Undo {
    /// Run a program.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The namespace in which the program runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
    },
    /// Restore a kernel setting.
    Write {
        /// The file, below `/proc/sys` or `/sys`.
        path: String,
        /// The original value.
        value: String,
        /// The namespace in which the file is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
    },
    /// Remove a network namespace.
    Netns {
        /// The namespace's name.
        name: String,
    },
    /// Remove a scratch folder of the agent.
    Folder {
        /// The folder's name below the state folder.
        name: String,
    },
    /// Kill a process group, if its leader is still the started process.
    Process {
        /// Process number of the leader, which is also that of the group.
        pid: u32,
        /// Start time of the process, from `/proc/PID/stat` (clock ticks).
        start_ticks: u64,
    },
}

impl Undo {
    /// Return the namespace in which the undo acts, if any.
    pub fn inside(&self) -> Option<&str> {
        match self {
            Self::Command { netns, .. } | Self::Write { netns, .. } => netns.as_deref(),
            Self::Netns { .. } | Self::Folder { .. } | Self::Process { .. } => None,
        }
    }
}
