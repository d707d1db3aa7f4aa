//! Error codes and the error object of a reply. What went wrong is written by whoever saw it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lease::Holder;

/// Why a request was not done; the number is what goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "i64", try_from = "i64")]
pub enum ErrorCode {
    /// The line is no JSON.
    Parse,
    /// The JSON is no request, or the line is too long.
    Request,
    /// No such method.
    Method,
    /// The parameters do not fit the method.
    Params,
    /// The agent itself failed; a defect.
    Internal,
    /// The operating system refused.
    Refused,
    /// A deadline passed.
    Deadline,
    /// Another agent works here, or a dead one left changes behind.
    Busy,
    /// No such process, journal or series, or a namespace the agent did not make.
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

/// A number that is not among the codes on the page.
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

/// What can be told about an error besides its message; absent fields are not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorData {
    /// What was seen instead of what is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Value>,
    /// The operating system's error number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The file or program that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first output of a program that did not become ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The exit status of a program that ended before it was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// The signal that ended a program before it was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The deadline that passed (ms).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The agent that works on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_pid: Option<u32>,
    /// Agents that hold what is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<Holder>>,
    /// Journals that are to be undone first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journals: Option<Vec<String>>,
    /// The process, journal, series or own namespace that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The XDP program that an interface carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_id: Option<u32>,
    /// How many are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The `error` of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[error("{message}")]
pub struct ErrorObject {
    /// Which kind of error.
    pub code: ErrorCode,
    /// What was being done and what was seen.
    pub message: String,
    /// The same for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<ErrorData>>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data.
    #[must_use]
    pub fn with(self, data: ErrorData) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// The parameters are refused because of the value `seen`.
    pub fn params(message: impl Into<String>, seen: impl Into<Value>) -> Self {
        let data = ErrorData { seen: Some(seen.into()), ..ErrorData::default() };
        Self::new(ErrorCode::Params, message).with(data)
    }

    /// The operating system refused `path` with `errno`.
    pub fn refused(message: impl Into<String>, errno: Option<i32>, path: impl Into<String>) -> Self {
        let data = ErrorData { errno, path: Some(path.into()), ..ErrorData::default() };
        Self::new(ErrorCode::Refused, message).with(data)
    }

    /// The deadline of `timeout_ms` passed.
    pub fn deadline(message: impl Into<String>, timeout_ms: u64) -> Self {
        let data = ErrorData { timeout_ms: Some(timeout_ms), ..ErrorData::default() };
        Self::new(ErrorCode::Deadline, message).with(data)
    }

    /// There is no process, journal, series or namespace of the agent's own `id`.
    pub fn unknown(message: impl Into<String>, id: impl Into<String>) -> Self {
        let data = ErrorData { id: Some(id.into()), ..ErrorData::default() };
        Self::new(ErrorCode::Unknown, message).with(data)
    }
}
