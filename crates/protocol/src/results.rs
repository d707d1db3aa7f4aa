//! The result of each method.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::observations::Observation;
use crate::undo::Undo;

/// Nothing to tell but that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Done {}

/// Of `agent.ping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Pong {
    /// The agent's clock (ns).
    pub now_ns: u64,
}

/// How a program ended: one of the two is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ending {
    /// Its exit status, when it exited.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
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

/// What a program wrote: the first bytes, and how many more there were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Bytes of standard output that were not kept.
    pub stdout_dropped_bytes: u64,
    /// Bytes of standard error that were not kept.
    pub stderr_dropped_bytes: u64,
}

/// Of `command.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandEnded {
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// What it wrote.
    #[serde(flatten)]
    pub output: Output,
    /// When it was started (ns).
    pub begin_ns: u64,
    /// When its end was seen (ns).
    pub end_ns: u64,
}

/// The walls around a confined program that not every kernel and user namespace has, as the kernel granted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Walls {
    /// The user that it became; none where a user namespace has no other.
    pub user: Option<u32>,
    /// The version of Landlock's interface that limits it.
    pub landlock_abi: Option<u32>,
    /// Whether a seccomp filter limits its system calls.
    pub seccomp: bool,
}

/// Of `process.start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessStarted {
    /// The process, also its group.
    pub pid: u32,
    /// When it was started (ns).
    pub begin_ns: u64,
    /// When it was seen ready (ns).
    pub ready_ns: u64,
    /// What a confined program is limited by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walls: Option<Walls>,
}

/// Of `process.wait` and `process.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessEnded {
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// What it wrote.
    #[serde(flatten)]
    pub output: Output,
    /// When it was started (ns).
    pub begin_ns: u64,
    /// When its end was seen (ns).
    pub end_ns: u64,
    /// CPU time in user mode, with the children it waited for (ns).
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, with the children it waited for (ns).
    pub cpu_system_ns: u64,
}

/// Of `folder.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FolderMade {
    /// Where it is.
    pub path: String,
}

/// Of `setting.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingValue {
    /// The value without its newline.
    pub value: String,
}

/// Of `setting.write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingOriginal {
    /// The value before the first write.
    pub original: String,
}

/// A sampler that could not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SamplerFailure {
    /// Which one.
    pub sampler: String,
    /// In which namespace.
    pub netns: Option<String>,
    /// What was seen.
    pub reason: String,
}

/// Of `sample.read`: one observation for each sampler and namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// What was read, in the order asked for.
    pub observations: Vec<Observation>,
    /// What could not be read; only in a series, a single reading fails as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<SamplerFailure>,
}

/// Of `sample.stop`. A reading is a [`Reading`], or its text where nobody looks into it any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(bound = "", rename = "Series"))]
#[serde(deny_unknown_fields)]
pub struct Series<R> {
    /// How many of the oldest readings were given up.
    pub dropped: u64,
    /// The readings, oldest first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Reading>"))]
    pub readings: Vec<R>,
}

/// One change in a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalEntry {
    /// Its place in the journal.
    pub sequence: u64,
    /// Its name.
    pub undo_key: String,
    /// How it is taken back.
    pub undo: Undo,
}

/// Of `journal.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalEntries {
    /// What is not undone, in the order of doing.
    pub entries: Vec<JournalEntry>,
}

/// A change that could not be taken back; it stays in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoFailure {
    /// The change.
    #[serde(flatten)]
    pub entry: JournalEntry,
    /// What was seen.
    pub reason: String,
}

/// Of `journal.undo` and `agent.exit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoReport {
    /// How many changes were taken back.
    pub undone: u64,
    /// Those that could not be.
    pub failed: Vec<UndoFailure>,
}
