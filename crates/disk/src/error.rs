//! Why a disk program did not run, or did not run to its end.

use std::io;
use std::path::Path;

/// What was being done, what was seen, what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The system said no.
    #[error("{doing} {path}: {said}")]
    System {
        /// in words
        doing: &'static str,
        /// the file, folder or device
        path: String,
        /// what it said
        said: io::Error,
    },
    /// It would write where it may not, or cannot mean what it says.
    #[error("{0}")]
    Refused(String),
}

impl DiskError {
    /// The system's answer to `doing` something with `path`.
    pub fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |said| Self::System { doing, path: path.display().to_string(), said }
    }

    /// A refusal, with its reason.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}
