//! Counters of the running kernel, one module for each kind. Each module has a pure `parse` and a `read` that
//! accesses `/proc` or a netlink socket; the clock is an argument.
//!
//! Counters of a network namespace are read in the namespace of the calling thread. A `Reader` keeps files
//! and sockets open between readings.

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

/// A failure to read counters.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// A kernel file could not be read.
    #[error("reading {path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A request on a netlink socket failed.
    #[error("{doing}: {errno}")]
    Netlink {
        /// The operation that failed.
        doing: &'static str,
        /// Error of the operating system.
        errno: nix::errno::Errno,
    },
    /// The content does not have the documented format.
    #[error("reading {what}: expected {expected}, saw {seen:?}")]
    Format {
        /// Name of the source.
        what: &'static str,
        /// Expected content.
        expected: &'static str,
        /// Actual content.
        seen: String,
    },
}

impl SampleError {
    pub(crate) fn format(what: &'static str, expected: &'static str, seen: impl Into<String>) -> Self {
        Self::Format { what, expected, seen: seen.into() }
    }

    /// Return the error number of the operating system, if any.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } => source.raw_os_error(),
            Self::Netlink { errno, .. } => Some(*errno as i32),
            Self::Format { .. } => None,
        }
    }
}

/// Read the text of a kernel file.
fn read_text(path: &str) -> Result<String, SampleError> {
    let bytes = std::fs::read(path).map_err(|source| SampleError::File { path: path.into(), source })?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
