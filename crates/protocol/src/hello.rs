//! The first line that an agent writes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lease::Holder;
use crate::relay::{Ended, Noise, Received};

/// The journal of an agent that died before it had undone its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Predecessor {
    /// The journal's identifier.
    pub journal: String,
    /// The dead agent's process number.
    pub pid: u32,
    /// Start of the dead agent (ns, on its monotonic clock).
    pub started_ns: u64,
    /// Number of changes that are not undone.
    pub entries: usize,
    /// The lab of the dead agent; empty: the agent had no lease.
    #[serde(default)]
    pub lab: String,
}

/// The agent's identity, its abilities, and the state of its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Protocol version, `major.minor`.
    pub protocol: String,
    /// Agent version.
    pub version: String,
    /// Digest of the agent's binary.
    pub build: String,
    /// Process number of the agent.
    pub pid: u32,
    /// The agent's user, as seen from outside its namespaces.
    pub uid: u32,
    /// Whether the agent created its own user, network and mount namespaces.
    pub rootless: bool,
    /// Folder of the agent's lock and journals.
    pub state_dir: String,
    /// The features that the agent can use on this host now.
    pub capabilities: Vec<String>,
    /// The reasons why the agent cannot use other features, one sentence each.
    #[serde(default)]
    pub limits: Vec<String>,
    /// The agent that uses this host exclusively.
    pub busy_pid: Option<u32>,
    /// All agents with leases on this host.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// Journals of dead agents.
    #[serde(default)]
    pub predecessors: Vec<Predecessor>,
}

/// A message without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "method", content = "params")]
pub enum Notification {
    /// The first line.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// A message arrived over a relay.
    #[serde(rename = "relay.received")]
    RelayReceived(Received),
    /// A line that is not a message arrived over a relay.
    #[serde(rename = "relay.noise")]
    RelayNoise(Noise),
    /// A relay was closed.
    #[serde(rename = "relay.ended")]
    RelayEnded(Ended),
}

/// A notification in its wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotificationLine {
    jsonrpc: String,
    /// The message.
    #[serde(flatten)]
    pub notification: Notification,
}

impl From<Notification> for NotificationLine {
    fn from(notification: Notification) -> Self {
        Self { jsonrpc: "2.0".to_owned(), notification }
    }
}

/// A relayed message can only be read from text, so the parameters are decoded after the method is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    jsonrpc: String,
    method: String,
    params: Box<RawValue>,
}

impl<'de> Deserialize<'de> for NotificationLine {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn read<'a, T: Deserialize<'a>>(
            params: &'a RawValue,
            kind: fn(T) -> Notification,
        ) -> serde_json::Result<Notification> {
            serde_json::from_str(params.get()).map(kind)
        }
        let Envelope { jsonrpc, method, params } = Envelope::deserialize(deserializer)?;
        let notification = match method.as_str() {
            "hello" => read(&params, Notification::Hello),
            "relay.received" => read(&params, Notification::RelayReceived),
            "relay.noise" => read(&params, Notification::RelayNoise),
            "relay.ended" => read(&params, Notification::RelayEnded),
            other => return Err(serde::de::Error::custom(format!("there is no notification '{other}'"))),
        };
        Ok(Self { jsonrpc, notification: notification.map_err(serde::de::Error::custom)? })
    }
}
