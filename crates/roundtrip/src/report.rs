//! What was seen. `contract/roundtrip-v1.md` defines it.

use iolab_engine::Histogram;
use serde::{Deserialize, Serialize};

use crate::Slice;

/// The outcome of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// Of transactions.
    Transactions(TransactionsReport),
    /// Of probes.
    Probes(ProbesReport),
    /// A server has nothing to tell.
    Served,
}

/// Transactions, without the warm-up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransactionsReport {
    /// When the reported time began, by `CLOCK_MONOTONIC`. (ns)
    pub begin_ns: u64,
    /// How long it was: from its beginning to the last response. (ns)
    pub duration_ns: u64,
    /// Transactions that ended; the histogram has as many values.
    pub transactions: u64,
    /// UDP: requests without a response within their time.
    pub lost: u64,
    /// UDP: responses that came after their time.
    pub late: u64,
    /// With an interval: requests that were meant for the reported time and had not left at its end.
    pub unsent: u64,
    /// From the intended time where there is an interval, else from the beginning of a request, to the whole response. (ns)
    pub latency_ns: Histogram,
    /// Until a connection was there, of those that were opened in the reported time. (ns)
    pub connect_ns: Histogram,
    /// Length of a slice. (ns)
    pub slice_ns: u64,
    /// Over time.
    pub slices: Vec<Slice>,
}

/// Echoes, without the warm-up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbesReport {
    /// When the reported time began, by `CLOCK_MONOTONIC`. (ns)
    pub begin_ns: u64,
    /// Requests that left.
    pub sent: u64,
    /// Requests that were left out because this end was held up.
    pub unsent: u64,
    /// Requests that this end's kernel did not take.
    pub refused: u64,
    /// Requests that were answered, each once.
    pub received: u64,
    /// Answers to what had been answered.
    pub duplicate: u64,
    /// Answers that came after that of a later request.
    pub reordered: u64,
    /// From the sending of a request to its answer's arrival at this end's kernel. (ns)
    pub rtt_ns: Histogram,
    /// How late requests left. (ns)
    pub lateness_ns: Histogram,
    /// Whether the kernel said when answers arrived; else it is when the program read them.
    pub stamped: bool,
    /// Length of a slice. (ns)
    pub slice_ns: u64,
    /// Over time.
    pub slices: Vec<Slice>,
}
