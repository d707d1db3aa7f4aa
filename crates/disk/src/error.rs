//! Errors of disk programs.

use std::io;
use std::path::Path;

/// A failure of a disk program, with the operation and its object.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A system call failed.
    #[error("{doing} {path}: {said}")]
    System {
        /// Name of the operation.
        doing: &'static str,
        /// File, folder or device of the operation.
        path: String,
        /// Error of the operating system.
        said: io::Error,
    },
    /// The request is not permitted or not valid.
    #[error("{0}")]
    Refused(String),
}

impl DiskError {
    /// Return a function that adds the operation `doing` and its object `path` to an I/O error.
    pub fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |said| Self::System { doing, path: path.display().to_string(), said }
    }

    /// Create an error for a request that is not permitted, with the reason.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}
