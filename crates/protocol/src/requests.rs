//! Decode one line as a request, or return the exact reason why it is invalid. Never panics, whatever the bytes are.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::errors::{ErrorCode, ErrorData, ErrorObject};

/// A call with an identifier; its parameters are not decoded yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<'a> {
    jsonrpc: &'a str,
    /// The controller's request number.
    pub id: i64,
    /// The method.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

/// The reason why a line is not a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The identifier, if it could be read.
    pub id: Option<i64>,
    /// The error.
    pub error: ErrorObject,
}

impl Request<'_> {
    /// Decode the parameters as the type of the method.
    ///
    /// # Errors
    /// A [`Refusal`] if the parameters are not an object of that type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let params = self.params.map_or("{}", RawValue::get);
        let refuse = |why: &str| {
            let message = format!("reading the parameters of {}: {why}", self.method);
            self.refuse(ErrorCode::Params, message, params)
        };
        if !params.starts_with('{') {
            return Err(refuse("they must be an object"));
        }
        serde_json::from_str(params).map_err(|error| refuse(&error.to_string()))
    }

    /// Create the refusal of a method that is not in `known`.
    pub fn refuse_method(&self, known: &[&str]) -> Refusal {
        let message = format!("no such method; there are {}", known.join(", "));
        self.refuse(ErrorCode::Method, message, &self.method)
    }

    fn refuse(&self, code: ErrorCode, message: String, seen: &str) -> Refusal {
        let data = ErrorData { seen: Some(shorten(seen).into()), ..ErrorData::default() };
        Refusal { id: Some(self.id), error: ErrorObject::new(code, message).with(data) }
    }
}

#[derive(Deserialize)]
struct Numbered {
    id: Option<i64>,
}

/// Decode one line without its newline; the caller interprets its method and parameters.
///
/// # Errors
/// A [`Refusal`] with the error of the reply and, if it could be read, the identifier.
pub fn parse_request(line: &[u8]) -> Result<Request<'_>, Refusal> {
    let request: Request<'_> = serde_json::from_slice(line).map_err(|error| refuse_line(line, &error))?;
    if request.jsonrpc != "2.0" {
        let message = "reading a request: 'jsonrpc' must be \"2.0\"".to_owned();
        return Err(request.refuse(ErrorCode::Request, message, request.jsonrpc));
    }
    Ok(request)
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

/// Number of bytes of an invalid line that its error quotes, enough to find the line.
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
    fn request_is_parsed() {
        let request =
            parse_request(br#"{"jsonrpc":"2.0","id":1,"method":"agent.ping","params":{}}"#).unwrap();
        assert_eq!((request.id, &*request.method, request.read()), (1, "agent.ping", Ok(Nothing {})));
    }

    #[test]
    fn invalid_json_is_a_parse_error() {
        for line in ["", "{", "hello", "{\"id\":1", "[1,2", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":\"x\",}"] {
            assert_eq!(code(line), (None, ErrorCode::Parse), "{line:?}");
        }
    }

    #[test]
    fn json_that_is_not_a_request_is_refused_with_its_id() {
        assert_eq!(code("[]"), (None, ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"2.0","method":"agent.ping"}"#), (None, ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1.5,"method":"agent.ping"}"#), (None, ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":7,"method":3}"#), (Some(7), ErrorCode::Request));
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":7,"method":"agent.ping"}"#), (Some(7), ErrorCode::Request));
        let unknown_field = r#"{"jsonrpc":"2.0","id":7,"method":"agent.ping","extra":1}"#;
        assert_eq!(code(unknown_field), (Some(7), ErrorCode::Request));
    }

    #[test]
    fn parameters_are_validated() {
        let code = |params: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"agent.ping"{params}}}"#);
            parse_request(line.as_bytes()).unwrap().read::<Nothing>().map_err(|refusal| refusal.error.code)
        };
        for params in ["{\"x\":1}", "[]", "3", "\"\""] {
            assert_eq!(code(&format!(",\"params\":{params}")), Err(ErrorCode::Params), "{params}");
        }
        assert_eq!(code(""), Ok(Nothing {}));
        let deep = format!(r#","params":{{"x":{}{}}}"#, "[".repeat(100), "]".repeat(100));
        assert_eq!(code(&deep), Err(ErrorCode::Params));
    }

    #[test]
    fn deep_nesting_is_refused_without_exhausting_the_stack() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"agent.ping","params":{{"x":{}{}}}}}"#,
            "[".repeat(1_000_000),
            "]".repeat(1_000_000)
        );
        let read = parse_request(deep.as_bytes()).and_then(|request| request.read::<Nothing>());
        assert!(read.is_err());
    }
}
