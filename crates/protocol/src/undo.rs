//! How a change is taken back. Doing it is the agent's business.

use serde::{Deserialize, Serialize};

/// One way to take back one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Undo {
    /// Run a program.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The namespace it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
    },
    /// Write a kernel setting back.
    Write {
        /// The file below `/proc/sys` or `/sys`.
        path: String,
        /// The original value.
        value: String,
        /// The namespace it is written in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        netns: Option<String>,
    },
    /// Remove a network namespace.
    Netns {
        /// Its name.
        name: String,
    },
    /// Remove a scratch folder of the agent.
    Folder {
        /// Its name below the state folder.
        name: String,
    },
    /// Kill a process group, if its leader is still the process that was started.
    Process {
        /// The leader, which is also the group.
        pid: u32,
        /// When the kernel started it, from `/proc/PID/stat` (clock ticks).
        start_ticks: u64,
    },
}

impl Undo {
    /// The namespace the undo acts in, if it acts inside one.
    pub fn inside(&self) -> Option<&str> {
        match self {
            Self::Command { netns, .. } | Self::Write { netns, .. } => netns.as_deref(),
            Self::Netns { .. } | Self::Folder { .. } | Self::Process { .. } => None,
        }
    }
}
