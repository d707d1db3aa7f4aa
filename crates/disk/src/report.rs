//! What a disk program found. `contract/disk-v1.md` defines it.

use serde::Serialize;

use crate::ping::Answer;
use crate::request::Cache;

/// Everything that one request gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order in which they were done.
    pub phases: Vec<Phase>,
    /// The page cache, where it was asked for by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Residency>,
    /// The stamped blocks, where they were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// The server behind a disk, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// One column of a program's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// What was done: `write`, `seeks`.
    pub name: &'static str,
    /// Of one read or write; 0: no data was moved. (bytes)
    pub block_bytes: u64,
    /// Moved, each counted once as the program's definition counts it. (bytes)
    pub bytes: u64,
    /// Reads, writes, seeks or files.
    pub operations: u64,
    /// When it began, by the clock of this kernel. (ns)
    pub begin_ns: u64,
    /// What the program's definition takes for its time. (ns)
    pub duration_ns: u64,
    /// Of it.
    pub steps: Steps,
    /// The operation that took longest, where each was timed. (ns)
    pub slowest_ns: Option<u64>,
    /// Used by this process. (ns)
    pub cpu_ns: u64,
    /// What this process moved from and to storage, where the kernel counts it.
    pub io: Option<ProcessIo>,
    /// The page cache when it began, where the phase reads.
    pub cache: Option<Residency>,
}

/// What the page cache holds of a file, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// No page.
    Cold,
    /// Every page.
    Warm,
    /// Some pages.
    Partly,
    /// The kernel does not say.
    Unknown,
}

/// What the page cache held of a file when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// What was wanted.
    pub wanted: Cache,
    /// What was seen.
    pub state: CacheState,
    /// Who said so: `cachestat`, `mincore`; empty where nobody could.
    pub how: &'static str,
    /// In the cache. (bytes)
    pub resident_bytes: u64,
    /// Of it, what the disk does not have yet. None: the kernel does not say. (bytes)
    pub dirty_bytes: Option<u64>,
    /// Of the file or device. (bytes)
    pub of_bytes: u64,
}

/// Where the time of a phase went; what is left out of them is the rest of `duration_ns`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Steps {
    /// Opening the file. (ns)
    pub open_ns: u64,
    /// Reading or writing. (ns)
    pub transfer_ns: u64,
    /// fsync. (ns)
    pub flush_ns: u64,
    /// Closing. (ns)
    pub close_ns: u64,
}

/// Counters of /proc/self/io over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProcessIo {
    /// Fetched from storage. (bytes)
    pub read_bytes: u64,
    /// Made dirty in the page cache, or sent to storage past it. (bytes)
    pub written_bytes: u64,
}

/// Which of the stamped blocks are there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Blocks that an acknowledged flush covered.
    pub acknowledged: u64,
    /// Of them, those that carry the stamp of that flush or of a later one.
    pub kept: u64,
    /// Of them, those with an older stamp of this run: the store forgot the last write.
    pub stale: u64,
    /// Of them, those with the stamp of another block: it went to the wrong place.
    pub misplaced: u64,
    /// Of them, those without a whole stamp of this run.
    pub lost: u64,
    /// The first blocks that were not kept, at most 16.
    pub first_bad: Vec<u64>,
}
