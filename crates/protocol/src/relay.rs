//! Messages of relays: connections of an agent to somebody behind it. What is relayed is text nobody looks into here.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Where the other side of a relay is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Place {
    /// A unix stream socket to connect to.
    Socket {
        /// Its absolute path.
        path: String,
    },
    /// A terminal, used in raw mode.
    Terminal {
        /// Its absolute path.
        path: String,
    },
}

/// Of `relay.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayOpen {
    /// The controller's name for the relay.
    pub id: String,
    /// The other side.
    pub at: Place,
    /// How long it may take until the other side is there (ms).
    #[serde(default = "ten_seconds_ms")]
    pub timeout_ms: u64,
}

/// The result of `relay.open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayOpened {
    /// When it was asked for (ns).
    pub begin_ns: u64,
    /// When the other side was there (ns).
    pub end_ns: u64,
}

/// Of `relay.send`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelaySend {
    /// The relay.
    pub id: String,
    /// A JSON object.
    pub message: Message,
    /// How long it may wait for room (ms).
    #[serde(default = "ten_seconds_ms")]
    pub timeout_ms: u64,
}

/// Of `relay.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayClose {
    /// The relay.
    pub id: String,
}

/// Of `relay.received`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The relay.
    pub id: String,
    /// What came.
    pub message: Message,
}

/// Of `relay.noise`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// The relay.
    pub id: String,
    /// The beginning of the line.
    pub text: String,
    /// How many lines of noise were left out before this one.
    pub dropped: u64,
}

/// Of `relay.ended`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The relay.
    pub id: String,
    /// Why it ended, for people.
    pub reason: String,
    /// How many lines of noise were left out since the last one.
    pub dropped: u64,
}

/// A JSON object as it was written, on one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
pub struct Message(Box<RawValue>);

impl Message {
    /// The object in `line`; `None` when there is none, or something besides it.
    pub fn read(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let value: &RawValue = serde_json::from_str(text).ok()?;
        if !value.get().starts_with('{') {
            return None;
        }
        // Inside a JSON text a bare carriage return is white space, which some readers take for the end of a line.
        let raw = if value.get().contains('\r') {
            RawValue::from_string(value.get().replace('\r', " ")).ok()?
        } else {
            value.to_owned()
        };
        Some(Self(raw))
    }

    /// Its text; no line feed or carriage return is in it.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Whether it can be sent: an object on one line.
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
    fn an_object_is_read_as_it_was_written() {
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
    fn what_is_no_object_is_no_message() {
        let lines: [&[u8]; 8] =
            [b"", b"3", b"[{}]", b"{}{}", b"{", b"{\"a\":\"\xff\"}", b"[ 2.1] x", b"{\"a\":\"\r\"}"];
        for line in lines {
            assert_eq!(Message::read(line), None, "{line:?}");
        }
    }

    #[test]
    fn nesting_of_any_depth_is_passed_on() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(Message::read(deep.as_bytes()).unwrap().text(), deep);
    }
}
