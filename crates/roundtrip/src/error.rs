//! What can go wrong, each with what was being done.

use std::io;

/// Why round trips could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RoundTripError {
    /// The system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was being done, and to what.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The other end closed the connection.
    #[error("{doing}: the other end closed the connection")]
    Closed {
        /// What was being done.
        doing: String,
    },
    /// What was asked for makes no sense.
    #[error("reading the request: {seen}; allowed: {allowed}")]
    Asked {
        /// What was asked.
        seen: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl RoundTripError {
    /// Say what was being done when the system refused.
    pub fn system(doing: impl Into<String>, source: io::Error) -> Self {
        Self::System { doing: doing.into(), source }
    }
}
