//! Messages of relays: connections from an agent to a peer behind it. The agent does not interpret the relayed text.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The peer of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Place {
    /// A unix stream socket to connect to.
    Socket {
        /// Absolute path of the socket.
        path: String,
    },
    /// A terminal, used in raw mode.
    Terminal {
        /// Absolute path of the terminal.
        path: String,
    },
}

/// Parameters of `relay.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayOpen {
    /// The controller's name for the relay.
    pub id: String,
    /// The peer.
    pub at: Place,
    /// Maximum time until the peer is connected (ms).
    #[serde(default = "ten_seconds_ms")]
    pub timeout_ms: u64,
}

/// Result of `relay.open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayOpened {
    /// Time of the request (ns).
    pub begin_ns: u64,
    /// Time at which the peer was connected (ns).
    pub end_ns: u64,
}

/// Parameters of `relay.send`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelaySend {
    /// The relay.
    pub id: String,
    /// A JSON object.
    pub message: Message,
    /// Maximum wait for buffer space (ms).
    #[serde(default = "ten_seconds_ms")]
    pub timeout_ms: u64,
}

/// Parameters of `relay.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayClose {
    /// The relay.
    pub id: String,
}

/// Parameters of the notification `relay.received`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The relay.
    pub id: String,
    /// The received message.
    pub message: Message,
}

/// Parameters of the notification `relay.noise`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// The relay.
    pub id: String,
    /// The start of the line.
    pub text: String,
    /// Number of noise lines that were skipped before this line.
    pub dropped: u64,
}

/// Parameters of the notification `relay.ended`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The relay.
    pub id: String,
    /// The reason, for people.
    pub reason: String,
    /// Number of noise lines that were skipped since the last reported line.
    pub dropped: u64,
}

/// A JSON object as written, on one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
pub struct Message(Box<RawValue>);

impl Message {
    /// Return the object in `line`; `None` if `line` is not exactly one object.
    pub fn read(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let value: &RawValue = serde_json::from_str(text).ok()?;
        if !value.get().starts_with('{') {
            return None;
        }
        // In JSON text, a bare carriage return is white space, which some readers treat as the end of a line.
        let raw = if value.get().contains('\r') {
            RawValue::from_string(value.get().replace('\r', " ")).ok()?
        } else {
            value.to_owned()
        };
        Some(Self(raw))
    }

    /// Return the text, which contains no line feed or carriage return.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Return whether the message can be sent: an object on one line.
    pub fn is_object_on_a_line(&self) -> bool {
        self.text().starts_with('{') && !self.text().contains(['\n', '\r'])
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Message {}

fn ten_seconds_ms() -> u64 {
    10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_read_as_written() {
        for (line, text) in [
            ("{}", "{}"),
            (" {\"a\" : 1e999}\r", "{\"a\" : 1e999}"),
            ("{\"a\":\r1}", "{\"a\": 1}"),
            ("{\"a\":\"\\r\\ud800\"}", "{\"a\":\"\\r\\ud800\"}"),
        ] {
            assert_eq!(Message::read(line.as_bytes()).unwrap().text(), text);
        }
    }

    #[test]
    fn input_that_is_not_an_object_is_not_a_message() {
        let lines: [&[u8]; 8] =
            [b"", b"3", b"[{}]", b"{}{}", b"{", b"{\"a\":\"\xff\"}", b"[ 2.1] x", b"{\"a\":\"\r\"}"];
        for line in lines {
            assert_eq!(Message::read(line), None, "{line:?}");
        }
    }

    #[test]
    fn nesting_of_any_depth_is_relayed() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(Message::read(deep.as_bytes()).unwrap().text(), deep);
    }
}
