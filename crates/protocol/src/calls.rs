//! The parameters of methods. Unknown fields are refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::files::PassedFile;
use crate::observations::Sampler;
use crate::undo::Undo;

/// No parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Of `command.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandRun {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The namespace it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Variables added to the agent's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    #[serde(default)]
    pub stdin: String,
    /// When it is killed (ms).
    #[serde(default = "one_minute_ms")]
    pub timeout_ms: u64,
    /// How much of each output is kept (bytes).
    #[serde(default = "one_mebibyte")]
    pub capture_bytes: usize,
    /// How the change it makes is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// The name of that undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_key: Option<String>,
}

/// The transport a listening program is bound on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ListenTransport {
    /// TCP, in state LISTEN.
    Tcp,
    /// UDP, bound.
    Udp,
}

/// When a started program counts as ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Ready {
    /// When a port is bound in its namespace.
    Listening {
        /// On which transport.
        protocol: ListenTransport,
        /// Which port.
        port: u16,
    },
    /// When its output has a text.
    Output {
        /// The text.
        contains: String,
    },
}

/// Of `process.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessStart {
    /// The controller's name for the process.
    pub id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The namespace it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Variables added to the agent's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// The CPUs it may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<usize>>,
    /// How much of each output is kept (bytes).
    #[serde(default = "one_mebibyte")]
    pub capture_bytes: usize,
    /// When the reply is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// How long that may take (ms).
    #[serde(default = "ten_seconds_ms")]
    pub timeout_ms: u64,
    /// What is opened for the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PassedFile>,
    /// The user of its own that it runs as; it runs as the agent's where there is none, or the agent is not root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_user: Option<OwnUser>,
    /// What it may reach, and nothing else; it is not started where that cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<Confined>,
}

/// What a confined program may reach beside the libraries it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Confined {
    /// Paths of block devices; it gets nodes for these.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Paths of folders, which become its own.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Paths of files, which become its own and are only read.
    #[serde(default)]
    pub files: Vec<String>,
    /// The folder of a control group that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// What a program that runs as a user of its own has to do with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnUser {
    /// Paths of files, folders and devices that it sees, whatever closed folder they are in.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Likewise, and they become its own; of a device it gets a node.
    #[serde(default)]
    pub writes: Vec<String>,
}

/// Of `process.wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessWait {
    /// The process.
    pub id: String,
    /// How long to wait (ms).
    #[serde(default = "one_minute_ms")]
    pub timeout_ms: u64,
}

/// A signal a process can be stopped with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)] // see signal(7)
pub enum StopSignal {
    #[default]
    Term,
    Int,
    Hup,
    Quit,
    Usr1,
    Usr2,
    Kill,
}

/// Of `process.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessStop {
    /// The process.
    pub id: String,
    /// The first signal.
    #[serde(default)]
    pub signal: StopSignal,
    /// How long after it KILL follows (ms).
    #[serde(default = "one_second_ms")]
    pub grace_ms: u64,
}

/// Of `netns.create` and `netns.delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NetnsName {
    /// The namespace.
    pub name: String,
}

/// Of `folder.create` and `folder.delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FolderName {
    /// The folder.
    pub name: String,
}

/// Of `setting.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingRead {
    /// The file below `/proc/sys` or `/sys`.
    pub path: String,
    /// The namespace it is read in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
}

/// Of `setting.write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingWrite {
    /// The file below `/proc/sys` or `/sys`.
    pub path: String,
    /// The namespace it is written in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The new value.
    pub value: String,
}

/// Of `sample.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SampleRead {
    /// What to read.
    pub samplers: Vec<Sampler>,
    /// Where to read what each namespace has of its own; `null` is the agent's own namespace.
    #[serde(default)]
    pub netns: Vec<Option<String>>,
}

/// Of `sample.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SampleStart {
    /// The controller's name for the series.
    pub series: String,
    /// How often to read (ms).
    pub period_ms: u64,
    /// What to read.
    pub samplers: Vec<Sampler>,
    /// Where to read what each namespace has of its own.
    #[serde(default)]
    pub netns: Vec<Option<String>>,
    /// How many readings are kept.
    #[serde(default = "ten_thousand")]
    pub keep: usize,
}

/// Of `sample.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SampleStop {
    /// The series.
    pub series: String,
}

/// Of `facts.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FactsRead {
    /// Programs whose version is wanted.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Settings whose value is wanted.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Whether what the kernel can make is wanted.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub features: bool,
}

/// Of `journal.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalList {
    /// An id from `predecessors`, or `self`.
    pub journal: String,
}

/// Of `journal.undo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalUndo {
    /// An id from `predecessors`, or `self`.
    pub journal: String,
    /// The entries to undo; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
}

fn yes() -> bool {
    true
}

fn one_second_ms() -> u64 {
    1_000
}

fn ten_seconds_ms() -> u64 {
    10_000
}

fn one_minute_ms() -> u64 {
    60_000
}

fn one_mebibyte() -> usize {
    1 << 20
}

fn ten_thousand() -> usize {
    10_000
}
