//! The first line an agent writes.

use serde::{Deserialize, Serialize};

/// The journal of an agent that died before it had undone its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predecessor {
    /// The journal's id.
    pub journal: String,
    /// The dead agent.
    pub pid: u32,
    /// When it began [ns, its monotonic clock].
    pub started_ns: u64,
    /// How many changes are not undone.
    pub entries: usize,
}

/// Who the agent is, what it can do, what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The protocol's version, `major.minor`.
    pub protocol: String,
    /// The agent's version.
    pub version: String,
    /// The digest of the agent's binary.
    pub build: String,
    /// The agent's process.
    pub pid: u32,
    /// The user it works for, as seen outside its namespaces.
    pub uid: u32,
    /// Whether it made its own user, network and mount namespaces.
    pub rootless: bool,
    /// Where its lock and journals are.
    pub state_dir: String,
    /// What it can do on this host now.
    pub capabilities: Vec<String>,
    /// Why it cannot do the rest, one sentence each.
    pub limits: Vec<String>,
    /// The agent that works on this host already.
    pub busy_pid: Option<u32>,
    /// Journals of dead agents.
    pub predecessors: Vec<Predecessor>,
}

/// A message that wants no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "lowercase")]
pub enum Notification {
    /// The first line.
    Hello(Hello),
}

/// A notification as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationLine {
    jsonrpc: String,
    /// What is told.
    #[serde(flatten)]
    pub notification: Notification,
}

impl From<Notification> for NotificationLine {
    fn from(notification: Notification) -> Self {
        Self { jsonrpc: "2.0".to_owned(), notification }
    }
}
