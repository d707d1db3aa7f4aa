//! Counters of the running kernel, one folder for each kind. Each folder has a pure `parse` and a `read` that
//! touches `/proc` or a netlink socket; the clock is an argument.
//!
//! What belongs to a network namespace is read in the namespace of the calling thread.

pub mod cpu;
pub mod drops;
pub mod interfaces;
mod links;
mod netlink;
pub mod qdiscs;
pub mod sockets;
pub mod softirq;
pub mod softnet;
pub mod threads;

use std::path::PathBuf;

use iolab_protocol::observations::{Counters, Observation, Sampler};

pub use threads::Supervised;

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// A file of the kernel could not be read.
    #[error("reading {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel did not answer on a netlink socket.
    #[error("{doing}: {errno}")]
    Netlink {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        errno: nix::errno::Errno,
    },
    /// What was read is not what the kernel documents.
    #[error("reading {what}: expected {expected}, saw {seen:?}")]
    Format {
        /// What was read.
        what: &'static str,
        /// What it should have been.
        expected: &'static str,
        /// What it was.
        seen: String,
    },
}

impl SampleError {
    pub(crate) fn format(what: &'static str, expected: &'static str, seen: impl Into<String>) -> Self {
        Self::Format { what, expected, seen: seen.into() }
    }

    /// The operating system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } => source.raw_os_error(),
            Self::Netlink { errno, .. } => Some(*errno as i32),
            Self::Format { .. } => None,
        }
    }
}

/// Read one sampler in the calling thread's namespace, which is called `netns`.
///
/// # Errors
/// When the kernel refuses or answers in a form that is not documented.
pub fn observe(
    sampler: Sampler,
    netns: Option<&str>,
    supervised: &[Supervised],
    clock: impl Fn() -> u64,
) -> Result<Observation, SampleError> {
    let begin_ns = clock();
    let counters = match sampler {
        Sampler::Cpu => Counters::Cpu { cpus: cpu::read()? },
        Sampler::Threads => Counters::Threads { threads: threads::read(supervised) },
        Sampler::Softirq => Counters::Softirq { kinds: softirq::read()? },
        Sampler::Softnet => Counters::Softnet { cpus: softnet::read()? },
        Sampler::Interfaces => Counters::Interfaces { interfaces: interfaces::read()? },
        Sampler::Drops => Counters::Drops { drops: drops::read(iolab_sys::driver_statistics)? },
        Sampler::Sockets => Counters::Sockets { sockets: sockets::read()? },
        Sampler::Qdiscs => Counters::Qdiscs { qdiscs: qdiscs::read()? },
    };
    Ok(Observation { netns: netns.map(str::to_owned), begin_ns, end_ns: clock(), counters })
}

/// The text of a file of the kernel.
fn read_text(path: &str) -> Result<String, SampleError> {
    let bytes = std::fs::read(path).map_err(|source| SampleError::File { path: path.into(), source })?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
