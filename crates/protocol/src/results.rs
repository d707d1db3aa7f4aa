//! The results of all methods.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::observations::Observation;
use crate::undo::Undo;

/// An empty result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Done {}

/// Result of `agent.ping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Pong {
    /// Time on the agent's clock (ns).
    pub now_ns: u64,
}

/// The end of a program: one of the two fields is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ending {
    /// Exit status, if the program exited.
    pub exit_status: Option<i32>,
    /// The signal that killed the program.
    pub signal: Option<i32>,
}

impl Display for Ending {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self.exit_status {
            Some(status) => write!(to, "status {status}"),
            None => write!(to, "signal {}", self.signal.unwrap_or(0)),
        }
    }
}

/// Output of a program: its first bytes, and the number of bytes that were not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Number of bytes of standard output that were not kept.
    pub stdout_dropped_bytes: u64,
    /// Number of bytes of standard error that were not kept.
    pub stderr_dropped_bytes: u64,
}

/// Result of `command.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandEnded {
    /// The end of the program.
    #[serde(flatten)]
    pub ending: Ending,
    /// Whether the program was killed at its time limit.
    pub timed_out: bool,
    /// The program's output.
    #[serde(flatten)]
    pub output: Output,
    /// Start of the program (ns).
    pub begin_ns: u64,
    /// Time at which the program's end was observed (ns).
    pub end_ns: u64,
}

/// The restrictions of a confined program that depend on the kernel and the user namespace, as the kernel granted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Walls {
    /// The program's user; none if the user namespace has no other user.
    pub user: Option<u32>,
    /// The version of the Landlock ABI that restricts the program.
    pub landlock_abi: Option<u32>,
    /// Whether a seccomp filter restricts its system calls.
    pub seccomp: bool,
}

/// Result of `process.start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessStarted {
    /// Process number, which is also that of its process group.
    pub pid: u32,
    /// Start of the program (ns).
    pub begin_ns: u64,
    /// Time at which the program was ready (ns).
    pub ready_ns: u64,
    /// The restrictions of a confined program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walls: Option<Walls>,
}

/// Result of `process.wait` and `process.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessEnded {
    /// The end of the program.
    #[serde(flatten)]
    pub ending: Ending,
    /// The program's output.
    #[serde(flatten)]
    pub output: Output,
    /// Start of the program (ns).
    pub begin_ns: u64,
    /// Time at which the program's end was observed (ns).
    pub end_ns: u64,
    /// CPU time in user mode, including that of reaped children (ns).
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, including that of reaped children (ns).
    pub cpu_system_ns: u64,
}

/// Result of `folder.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FolderMade {
    /// The folder's path.
    pub path: String,
}

/// Result of `setting.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingValue {
    /// The value without its newline.
    pub value: String,
}

/// Result of `setting.write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingOriginal {
    /// The value before the first write.
    pub original: String,
}

/// A failed sampler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SamplerFailure {
    /// The sampler.
    pub sampler: String,
    /// The namespace.
    pub netns: Option<String>,
    /// The error.
    pub reason: String,
}

/// Result of `sample.read`: one observation per sampler and namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The observations, in the order of the request.
    pub observations: Vec<Observation>,
    /// Failed samplers, only in a series; a single reading fails completely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<SamplerFailure>,
}

/// Result of `sample.stop`. A reading is a [`Reading`], or its text, which is passed on without decoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(bound = "", rename = "Series"))]
#[serde(deny_unknown_fields)]
pub struct Series<R> {
    /// Number of the oldest readings that were discarded.
    pub dropped: u64,
    /// The readings, oldest first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Reading>"))]
    pub readings: Vec<R>,
}

/// A change in a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalEntry {
    /// The change's number in the journal.
    pub sequence: u64,
    /// The change's name.
    pub undo_key: String,
    /// How to undo the change.
    pub undo: Undo,
}

/// Result of `journal.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalEntries {
    /// The changes that are not undone, oldest first.
    pub entries: Vec<JournalEntry>,
}

/// A change that could not be undone; it stays in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoFailure {
    /// The change.
    #[serde(flatten)]
    pub entry: JournalEntry,
    /// The error.
    pub reason: String,
}

/// Result of `journal.undo` and `agent.exit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoReport {
    /// Number of changes that were undone.
    pub undone: u64,
    /// The changes that could not be undone.
    pub failed: Vec<UndoFailure>,
}
