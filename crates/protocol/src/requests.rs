//! Read one line as a request, or say exactly why it is none. Never panics, whatever the bytes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::calls::{Call, METHODS};
use crate::errors::{ErrorCode, ErrorData, ErrorObject};

/// One call under an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Request {
    jsonrpc: String,
    /// The controller's number for it.
    pub id: i64,
    /// What is asked.
    #[serde(flatten)]
    pub call: Call,
}

/// Why a line is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The id, where it could be read.
    pub id: Option<i64>,
    /// What is wrong.
    pub error: ErrorObject,
}

impl Request {
    /// A request for `call`.
    pub fn new(id: i64, call: Call) -> Self {
        Self { jsonrpc: "2.0".to_owned(), id, call }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    id: i64,
    #[serde(borrow)]
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Numbered {
    id: Option<i64>,
}

/// Read one line without its newline.
///
/// # Errors
/// A [`Refusal`] with the reply's error and, where it could be read, its id.
pub fn parse_request(line: &[u8]) -> Result<Request, Refusal> {
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|error| refuse_line(line, &error))?;
    let id = envelope.id;
    let refuse = |code, message: String, seen: &str| Refusal {
        id: Some(id),
        error: ErrorObject::new(code, message)
            .with(ErrorData { seen: Some(shorten(seen).into()), ..ErrorData::default() }),
    };
    if envelope.jsonrpc != "2.0" {
        let message = "reading a request: 'jsonrpc' must be \"2.0\"".to_owned();
        return Err(refuse(ErrorCode::Request, message, envelope.jsonrpc));
    }
    let params = envelope.params.map_or("{}", RawValue::get);
    match Call::parse(&envelope.method, params) {
        Some(_) if !params.starts_with('{') => {
            let message = format!("reading the parameters of {}: they must be an object", envelope.method);
            Err(refuse(ErrorCode::Params, message, params))
        }
        Some(Ok(call)) => Ok(Request::new(id, call)),
        Some(Err(error)) => {
            let message = format!("reading the parameters of {}: {error}", envelope.method);
            Err(refuse(ErrorCode::Params, message, params))
        }
        None => {
            let message = format!("no such method; there are {}", METHODS.join(", "));
            Err(refuse(ErrorCode::Method, message, &envelope.method))
        }
    }
}

fn refuse_line(line: &[u8], error: &serde_json::Error) -> Refusal {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SEEN_BYTES)]);
    let data = ErrorData { seen: Some(shorten(&text).into()), ..ErrorData::default() };
    let refusal =
        |id, code, message: String| Refusal { id, error: ErrorObject::new(code, message).with(data) };
    if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
        return refusal(None, ErrorCode::Parse, format!("reading a line as JSON: {error}"));
    }
    let id = serde_json::from_slice::<Numbered>(line).ok().and_then(|numbered| numbered.id);
    refusal(id, ErrorCode::Request, format!("reading a request with jsonrpc, id, method and params: {error}"))
}

fn shorten(text: &str) -> String {
    let mut end = text.len().min(SEEN_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let dots = if end < text.len() { "..." } else { "" };
    format!("{}{dots}", &text[..end])
}

/// As much of a bad line as helps to find it.
const SEEN_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Nothing;

    fn code(line: &str) -> (Option<i64>, ErrorCode) {
        let refusal = parse_request(line.as_bytes()).unwrap_err();
        (refusal.id, refusal.error.code)
    }

    #[test]
    fn a_request_is_read() {
        let request = parse_request(br#"{"jsonrpc":"2.0","id":1,"method":"agent.ping","params":{}}"#);
        assert_eq!(request, Ok(Request::new(1, Call::AgentPing(Nothing {}))));
    }

    #[test]
    fn what_is_no_json_is_a_parse_error() {
        for line in ["", "{", "hello", "{\"id\":1", "[1,2", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":\"x\",}"] {
            assert_eq!(code(line), (None, ErrorCode::Parse), "{line:?}");
        }
    }

    #[test]
    fn json_that_is_no_request_is_refused_with_its_id() {
        assert_eq!(code("[]"), (None, ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"2.0","method":"agent.ping"}"#), (None, ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1.5,"method":"agent.ping"}"#), (None, ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":7,"method":3}"#), (Some(7), ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":7,"method":"agent.ping"}"#), (Some(7), ErrorCode::Request));
        let unknown_field = r#"{"jsonrpc":"2.0","id":7,"method":"agent.ping","extra":1}"#;
        assert_eq!(code(unknown_field), (Some(7), ErrorCode::Request));
    }

    #[test]
    fn methods_and_parameters_are_checked() {
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":7,"method":"agent.sing"}"#), (Some(7), ErrorCode::Method));
        for params in ["{\"x\":1}", "[]", "3", "\"\""] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"agent.ping","params":{params}}}"#);
            assert_eq!(code(&line), (Some(7), ErrorCode::Params), "{params}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_exhaust_the_stack() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"agent.ping","params":{{"x":{}{}}}}}"#,
            "[".repeat(1_000_000),
            "]".repeat(1_000_000)
        );
        assert_eq!(parse_request(deep.as_bytes()).unwrap_err().error.code, ErrorCode::Params);
    }
}
