//! Reports of disk programs. `contract/disk-v1.md` defines them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use crate::device::Obstacle;
use crate::ping::Answer;
use crate::request::Cache;

/// The report of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Phases in the order of their execution.
    pub phases: Vec<Phase>,
    /// State of the page cache, after a request that concerns only the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Residency>,
    /// State of the stamped blocks, after a request to verify them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// State of the server behind a disk, after a request to check it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Block devices, after a request to examine them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Examined>,
}

/// Facts about a block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// Path of the device as requested.
    pub path: PathBuf,
    /// Kernel's name of the device.
    pub name: String,
    /// Kernel's names of the disks below the device.
    pub disks: BTreeSet<String>,
    /// Serial numbers, WWNs, and the UUIDs of a partition or logical volume; the backing file of a loop device.
    pub identities: Vec<String>,
    /// Disk sequence number; none on kernels before 5.15.
    pub sequence: Option<u64>,
    /// Size in bytes.
    pub bytes: u64,
    /// Reasons against writing to the device.
    pub obstacles: Vec<Obstacle>,
}

/// One phase: a column of the program's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Name of the phase, such as `write` or `seeks`.
    pub name: &'static str,
    /// Size of one read or write in bytes; 0 if the phase moves no data.
    pub block_bytes: u64,
    /// Bytes moved; each byte counts once, by the program's definition.
    pub bytes: u64,
    /// Number of reads, writes, seeks or files.
    pub operations: u64,
    /// Start time by the clock of this kernel, in ns.
    pub begin_ns: u64,
    /// Duration by the program's definition, in ns.
    pub duration_ns: u64,
    /// Durations of the steps of the phase.
    pub steps: Steps,
    /// Longest time of one operation, if each operation was timed, in ns.
    pub slowest_ns: Option<u64>,
    /// CPU time of this process in ns.
    pub cpu_ns: u64,
    /// Storage I/O of this process, if the kernel counts it.
    pub io: Option<ProcessIo>,
    /// State of the page cache at the start of a phase that reads.
    pub cache: Option<Residency>,
}

/// Share of a file in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// No pages are cached.
    Cold,
    /// All pages are cached.
    Warm,
    /// Some pages are cached.
    Partly,
    /// The kernel does not report it.
    Unknown,
}

/// Page cache use of a file at the time of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// Requested state.
    pub wanted: Cache,
    /// Measured state.
    pub state: CacheState,
    /// System call that reported the state, `cachestat` or `mincore`; empty if neither did.
    pub how: &'static str,
    /// Bytes of the file in the page cache.
    pub resident_bytes: u64,
    /// Bytes of the file in the page cache that are not yet on the disk; `None` if the kernel does not report
    /// it.
    pub dirty_bytes: Option<u64>,
    /// Size of the file or device in bytes.
    pub of_bytes: u64,
}

/// Times of the steps of a phase; `duration_ns` also contains the time between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Steps {
    /// Time to open the file, in ns.
    pub open_ns: u64,
    /// Time to read or write, in ns.
    pub transfer_ns: u64,
    /// Time of fsync, in ns.
    pub flush_ns: u64,
    /// Time to close the file, in ns.
    pub close_ns: u64,
}

/// Counters of /proc/self/io over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProcessIo {
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes that were made dirty in the page cache or written directly to storage.
    pub written_bytes: u64,
}

/// Result of the verification of stamped blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Number of blocks that an acknowledged flush covered.
    pub acknowledged: u64,
    /// Number of acknowledged blocks that have the stamp of their last acknowledged batch or of a later one.
    pub kept: u64,
    /// Number of acknowledged blocks that have an older stamp of this run: the storage lost the last write.
    pub stale: u64,
    /// Number of acknowledged blocks that have the stamp of a different block: the write went to the wrong place.
    pub misplaced: u64,
    /// Number of acknowledged blocks that have no complete stamp of this run.
    pub lost: u64,
    /// Block numbers of the first acknowledged blocks that were not kept, at most 16.
    pub first_bad: Vec<u64>,
}
