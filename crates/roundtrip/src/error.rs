//! Errors of this crate, each with the operation that failed.

use std::io;

/// A failure to measure or serve round trips.
#[derive(Debug, thiserror::Error)]
pub enum RoundTripError {
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed, and its object.
        doing: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The other end closed the connection.
    #[error("{doing}: the other end closed the connection")]
    Closed {
        /// The operation that failed.
        doing: String,
    },
    /// The request is invalid.
    #[error("reading the request: {seen}; allowed: {allowed}")]
    Asked {
        /// The invalid value.
        seen: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

impl RoundTripError {
    /// Create an error from the operation that failed and the error of the operating system.
    pub fn system(doing: impl Into<String>, source: io::Error) -> Self {
        Self::System { doing: doing.into(), source }
    }
}
