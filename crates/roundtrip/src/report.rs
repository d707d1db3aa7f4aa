//! Reports of round trips. `contract/roundtrip-v1.md` defines them.

use iolab_engine::Histogram;
use serde::{Deserialize, Serialize};

use crate::Slice;

/// The report of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// The report of transactions.
    Transactions(TransactionsReport),
    /// The report of probes.
    Probes(ProbesReport),
    /// The empty report of a server.
    Served,
}

/// Transactions, without the warm-up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransactionsReport {
    /// Start of the reported time by `CLOCK_MONOTONIC`, in ns.
    pub begin_ns: u64,
    /// Duration from the start of the reported time to the last response, at least the requested duration, in
    /// ns.
    pub duration_ns: u64,
    /// Number of completed transactions, which is also the number of values in the latency histogram.
    pub transactions: u64,
    /// UDP: number of requests without a response before the timeout.
    pub lost: u64,
    /// UDP: number of responses that arrived after the timeout.
    pub late: u64,
    /// Number of requests that were due in the reported time and had not been sent at its end; 0 without an
    /// interval.
    pub unsent: u64,
    /// Latency up to the complete response, in ns. The latency starts at the intended send time, or without an interval
    /// at the actual send time.
    pub latency_ns: Histogram,
    /// Time to establish each connection that was opened in the reported time, in ns.
    pub connect_ns: Histogram,
    /// Length of a time slice, in ns.
    pub slice_ns: u64,
    /// Round trips in each time slice.
    pub slices: Vec<Slice>,
}

/// Echoes, without the warm-up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbesReport {
    /// Start of the reported time by `CLOCK_MONOTONIC`, in ns.
    pub begin_ns: u64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of requests that were skipped because the sender stalled.
    pub unsent: u64,
    /// Number of requests that the sender's kernel refused.
    pub refused: u64,
    /// Number of answered requests; each request counts once.
    pub received: u64,
    /// Number of additional replies to requests that were already answered.
    pub duplicate: u64,
    /// Number of replies that arrived after the reply to a later request.
    pub reordered: u64,
    /// Round-trip time from sending a request until its reply arrives at the sender's kernel, in ns.
    pub rtt_ns: Histogram,
    /// Delay of the actual send time after the intended send time, in ns.
    pub lateness_ns: Histogram,
    /// Whether all arrival times are kernel timestamps; otherwise some are the times at which the program
    /// read the reply.
    pub stamped: bool,
    /// Length of a time slice, in ns.
    pub slice_ns: u64,
    /// Round trips in each time slice.
    pub slices: Vec<Slice>,
}
