//! Error codes, and the error object of a reply. The code that detects an error writes its message.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lease::Holder;

/// The reason why a request was not executed; its number is sent to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "i64", try_from = "i64")]
pub enum ErrorCode {
    /// The line is not JSON.
    Parse,
    /// The JSON is not a request, or the line is too long.
    Request,
    /// The method does not exist.
    Method,
    /// The parameters do not match the method.
    Params,
    /// The agent has a defect.
    Internal,
    /// The operating system rejected the operation.
    Refused,
    /// A deadline expired.
    Deadline,
    /// Other agents use the host, or a dead agent left changes behind.
    Busy,
    /// The process, journal or series does not exist, or this agent did not create the namespace.
    Unknown,
}

impl From<ErrorCode> for i64 {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::Parse => -32700,
            ErrorCode::Request => -32600,
            ErrorCode::Method => -32601,
            ErrorCode::Params => -32602,
            ErrorCode::Internal => -32603,
            ErrorCode::Refused => -32001,
            ErrorCode::Deadline => -32002,
            ErrorCode::Busy => -32003,
            ErrorCode::Unknown => -32004,
        }
    }
}

/// A number that is not an error code.
#[derive(Debug, thiserror::Error)]
#[error("error code {0} is not one of the protocol's")]
pub struct UnknownCode(i64);

impl TryFrom<i64> for ErrorCode {
    type Error = UnknownCode;

    fn try_from(number: i64) -> Result<Self, UnknownCode> {
        Ok(match number {
            -32700 => Self::Parse,
            -32600 => Self::Request,
            -32601 => Self::Method,
            -32602 => Self::Params,
            -32603 => Self::Internal,
            -32001 => Self::Refused,
            -32002 => Self::Deadline,
            -32003 => Self::Busy,
            -32004 => Self::Unknown,
            other => return Err(UnknownCode(other)),
        })
    }
}

/// Data of an error besides its message; absent fields are not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorData {
    /// The rejected value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Value>,
    /// The operating system's error number (errno).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The file or program that the operating system rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first output of a program that did not become ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The exit status of a program that exited before it was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// The signal that killed a program before it was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The deadline that expired (ms).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The agent that uses this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_pid: Option<u32>,
    /// Agents that hold requested resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<Holder>>,
    /// Journals that must be undone first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journals: Option<Vec<String>>,
    /// The process, journal, series or namespace that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The XDP program that is attached to an interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_id: Option<u32>,
    /// The maximum number allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The `error` of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[error("{message}")]
pub struct ErrorObject {
    /// The error code.
    pub code: ErrorCode,
    /// The operation and the problem, for people.
    pub message: String,
    /// The error's data, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<ErrorData>>,
}

impl ErrorObject {
    /// Create an error without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Return the error with this data.
    #[must_use]
    pub fn with(self, data: ErrorData) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// Create the error for the rejected parameter value `seen`.
    pub fn params(message: impl Into<String>, seen: impl Into<Value>) -> Self {
        let data = ErrorData { seen: Some(seen.into()), ..ErrorData::default() };
        Self::new(ErrorCode::Params, message).with(data)
    }

    /// Create the error for a `path` that the operating system rejected with `errno`.
    pub fn refused(message: impl Into<String>, errno: Option<i32>, path: impl Into<String>) -> Self {
        let data = ErrorData { errno, path: Some(path.into()), ..ErrorData::default() };
        Self::new(ErrorCode::Refused, message).with(data)
    }

    /// Create the error for an expired deadline of `timeout_ms`.
    pub fn deadline(message: impl Into<String>, timeout_ms: u64) -> Self {
        let data = ErrorData { timeout_ms: Some(timeout_ms), ..ErrorData::default() };
        Self::new(ErrorCode::Deadline, message).with(data)
    }

    /// Create the error for a process, journal, series or namespace `id` that does not exist.
    pub fn unknown(message: impl Into<String>, id: impl Into<String>) -> Self {
        let data = ErrorData { id: Some(id.into()), ..ErrorData::default() };
        Self::new(ErrorCode::Unknown, message).with(data)
    }
}
