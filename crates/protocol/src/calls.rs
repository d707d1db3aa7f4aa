//! The parameters of methods. Unknown fields are rejected.

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

/// Parameters of `command.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandRun {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The namespace in which the program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Variables added to the agent's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The program's standard input.
    #[serde(default)]
    pub stdin: String,
    /// Time limit, after which the program is killed (ms).
    #[serde(default = "one_minute_ms")]
    pub timeout_ms: u64,
    /// Maximum number of bytes of each output that are kept.
    #[serde(default = "one_mebibyte")]
    pub capture_bytes: usize,
    /// How to undo the program's change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// Name of the undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_key: Option<String>,
}

/// The transport protocol of a listening program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ListenTransport {
    /// TCP, in state LISTEN.
    Tcp,
    /// UDP, bound.
    Udp,
}

/// The condition under which a started program is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Ready {
    /// A port is bound in the program's namespace.
    Listening {
        /// The transport protocol.
        protocol: ListenTransport,
        /// The port number.
        port: u16,
    },
    /// The output contains a text.
    Output {
        /// The text.
        contains: String,
    },
}

/// Parameters of `process.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessStart {
    /// The controller's name for the process.
    pub id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The namespace in which the program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Variables added to the agent's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The program's standard input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// The CPUs on which the program may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<usize>>,
    /// Maximum number of bytes of each output that are kept.
    #[serde(default = "one_mebibyte")]
    pub capture_bytes: usize,
    /// The ready condition: the agent replies when it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Time limit for the ready condition (ms).
    #[serde(default = "ten_seconds_ms")]
    pub timeout_ms: u64,
    /// Files that the agent opens for the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PassedFile>,
    /// The files and devices of a program that runs as a dedicated user; the program runs as the agent's user if the
    /// agent is not root, or the host has no dedicated user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_user: Option<OwnUser>,
    /// The files and devices that the program may access; the program is not started if the kernel cannot enforce this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<Confined>,
}

/// The files and devices that a confined program may access, besides its libraries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Confined {
    /// Paths of block devices, for which the program gets device nodes.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Block devices among the passed files, for which the program gets device nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<OpenedDevice>,
    /// Paths of folders, whose owner is changed to the program's user.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Paths of read-only files, whose owner is changed to the program's user.
    #[serde(default)]
    pub files: Vec<String>,
    /// Folder of a control group that the program joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// A device node of a confined program for a device that the agent has opened. If the descriptor cannot write, the
/// program cannot write through the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenedDevice {
    /// Number of the descriptor in the program.
    pub fd: i32,
    /// Path of the node.
    pub path: String,
}

/// The files and devices of a program that runs as a dedicated user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnUser {
    /// Paths of files, folders and devices that the program sees, even below a folder that its user cannot enter.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Paths of files, folders and devices that the program may also write. The owner is changed to the program's user;
    /// for a device, the program gets a separate device node instead.
    #[serde(default)]
    pub writes: Vec<String>,
}

/// Parameters of `process.wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessWait {
    /// The process.
    pub id: String,
    /// Maximum wait (ms).
    #[serde(default = "one_minute_ms")]
    pub timeout_ms: u64,
}

/// A signal that stops a process.
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

/// Parameters of `process.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessStop {
    /// The process.
    pub id: String,
    /// The first signal.
    #[serde(default)]
    pub signal: StopSignal,
    /// Delay of SIGKILL after the first signal (ms).
    #[serde(default = "one_second_ms")]
    pub grace_ms: u64,
}

/// Parameters of `netns.create` and `netns.delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NetnsName {
    /// The namespace.
    pub name: String,
}

/// Parameters of `folder.create` and `folder.delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FolderName {
    /// The folder.
    pub name: String,
}

/// Parameters of `setting.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingRead {
    /// The file, below `/proc/sys` or `/sys`.
    pub path: String,
    /// The namespace in which the file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
}

/// Parameters of `setting.write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingWrite {
    /// The file, below `/proc/sys` or `/sys`.
    pub path: String,
    /// The namespace in which the file is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The new value.
    pub value: String,
}

/// Parameters of `sample.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SampleRead {
    /// The samplers to read.
    pub samplers: Vec<Sampler>,
    /// Namespaces whose counters are read; `null` is the agent's namespace.
    #[serde(default)]
    pub netns: Vec<Option<String>>,
}

/// Parameters of `sample.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SampleStart {
    /// The controller's name for the series.
    pub series: String,
    /// Interval between readings (ms).
    pub period_ms: u64,
    /// The samplers to read.
    pub samplers: Vec<Sampler>,
    /// Namespaces whose counters are read.
    #[serde(default)]
    pub netns: Vec<Option<String>>,
    /// Maximum number of readings that are kept.
    #[serde(default = "ten_thousand")]
    pub keep: usize,
}

/// Parameters of `sample.stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SampleStop {
    /// The series.
    pub series: String,
}

/// Parameters of `facts.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FactsRead {
    /// Programs whose versions are requested.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Settings whose values are requested.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Whether to test which objects the kernel can create.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub features: bool,
}

/// Parameters of `journal.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalList {
    /// A journal from `predecessors`, or `self`.
    pub journal: String,
}

/// Parameters of `journal.undo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JournalUndo {
    /// A journal from `predecessors`, or `self`.
    pub journal: String,
    /// The entries to undo; absent: all entries.
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
