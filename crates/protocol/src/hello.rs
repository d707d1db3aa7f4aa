//! The first line an agent writes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lease::Holder;
use crate::relay::{Ended, Noise, Received};

/// The journal of an agent that died before it had undone its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Predecessor {
    /// The journal's id.
    pub journal: String,
    /// The dead agent.
    pub pid: u32,
    /// When it began (ns, its monotonic clock).
    pub started_ns: u64,
    /// How many changes are not undone.
    pub entries: usize,
}

/// Who the agent is, what it can do, what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    #[serde(default)]
    pub limits: Vec<String>,
    /// The agent that works on this host alone.
    pub busy_pid: Option<u32>,
    /// All agents that hold leases here.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// Journals of dead agents.
    #[serde(default)]
    pub predecessors: Vec<Predecessor>,
}

/// A message that wants no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "method", content = "params")]
pub enum Notification {
    /// The first line.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// A message came over a relay.
    #[serde(rename = "relay.received")]
    RelayReceived(Received),
    /// Something else came over a relay.
    #[serde(rename = "relay.noise")]
    RelayNoise(Noise),
    /// A relay is no more.
    #[serde(rename = "relay.ended")]
    RelayEnded(Ended),
}

/// A notification as it goes over the wire.
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

/// A relayed message is read from text only, so the parameters are read when the method is known.
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
