//! One timed phase, with the steps that all programs share.

use crate::report::Residency;
use std::fs::{self, File};
use std::io;

use nix::sys::resource::{getrusage, UsageWho};

use crate::report::{Phase, ProcessIo, Steps};
use crate::Clock;

/// Amount of data and number of operations of a phase.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moved {
    /// Bytes read or written.
    pub bytes: u64,
    /// Number of reads, writes, seeks or files.
    pub operations: u64,
    /// Longest time of one operation, if each operation was timed, in ns.
    pub slowest_ns: Option<u64>,
}

/// A phase in progress.
pub struct Watch<'a> {
    clock: Clock<'a>,
    name: &'static str,
    block_bytes: u64,
    cache: Option<Residency>,
    begin_ns: u64,
    last_ns: u64,
    cpu_ns: u64,
    io: Option<ProcessIo>,
    steps: Steps,
}

impl<'a> Watch<'a> {
    /// Start a phase.
    pub fn begin(clock: Clock<'a>, name: &'static str, block_bytes: u64, cache: Option<Residency>) -> Self {
        let (cpu_ns, io) = (cpu_ns(), process_io());
        let now = clock();
        Self {
            clock,
            name,
            block_bytes,
            cache,
            begin_ns: now,
            last_ns: now,
            cpu_ns,
            io,
            steps: Steps::default(),
        }
    }

    fn lap(&mut self) -> u64 {
        let now = (self.clock)();
        let passed = now.saturating_sub(self.last_ns);
        self.last_ns = now;
        passed
    }

    /// Record the end of the step that opens the file.
    pub fn opened(&mut self) {
        self.steps.open_ns += self.lap();
    }

    /// Record the end of the step that reads or writes.
    pub fn transferred(&mut self) {
        self.steps.transfer_ns += self.lap();
    }

    /// Flush the file, and record the end of this step.
    pub fn flush(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        self.flushed();
        Ok(())
    }

    /// Record the end of the flush step.
    pub fn flushed(&mut self) {
        self.steps.flush_ns += self.lap();
    }

    /// Close the file, and record the end of this step.
    pub fn close(&mut self, file: File) {
        drop(file);
        self.steps.close_ns += self.lap();
    }

    /// Finish the phase; its duration extends to the end of its last step.
    pub fn end(self, moved: Moved) -> Phase {
        let io = match (self.io, process_io()) {
            (Some(before), Some(after)) => Some(ProcessIo {
                read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
                written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
            }),
            _ => None,
        };
        Phase {
            name: self.name,
            block_bytes: self.block_bytes,
            bytes: moved.bytes,
            operations: moved.operations,
            begin_ns: self.begin_ns,
            duration_ns: self.last_ns.saturating_sub(self.begin_ns),
            steps: self.steps,
            slowest_ns: moved.slowest_ns,
            cpu_ns: cpu_ns().saturating_sub(self.cpu_ns),
            io,
            cache: self.cache,
        }
    }
}

fn cpu_ns() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        let ns = |time: nix::sys::time::TimeVal| {
            u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000
                + u64::try_from(time.tv_usec()).unwrap_or(0) * 1000
        };
        ns(usage.user_time()) + ns(usage.system_time())
    })
}

fn process_io() -> Option<ProcessIo> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let counter = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(ProcessIo { read_bytes: counter("read_bytes:")?, written_bytes: counter("write_bytes:")? })
}
