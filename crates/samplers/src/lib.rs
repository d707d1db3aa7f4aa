//! Counters of the running kernel, one folder for each kind. Each folder has a pure `parse` and a `read` that
//! touches `/proc` or a netlink socket; the clock is an argument.
//!
//! What belongs to a network namespace is read in the namespace of the calling thread. What is read again and again keeps
//! its files and sockets open in a `Reader`.

pub mod cpu;
pub mod drops;
pub mod interfaces;
mod kernel_file;
mod links;
mod netlink;
pub mod qdiscs;
mod reader;
#[cfg(test)]
mod robustness;
pub mod settings;
pub mod sockets;
pub mod softirq;
pub mod softnet;
pub mod threads;

use std::path::PathBuf;

pub use reader::Reader;
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

/// The text of a file of the kernel.
fn read_text(path: &str) -> Result<String, SampleError> {
    let bytes = std::fs::read(path).map_err(|source| SampleError::File { path: path.into(), source })?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
