//! A histogram as it goes over the wire: raw counts, so that the controller merges and asks for any quantile.

use serde::{Deserialize, Serialize};

/// Counts of whole numbers, exact up to 255 and within 1/128 above.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// How many values there were.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest, exact.
    pub min: Option<u64>,
    /// The largest, exact.
    pub max: Option<u64>,
    /// How many were 2^37 or more; they are in no bucket.
    pub above: u64,
    /// Smallest value and count of each bucket that is not empty, in rising order; a bucket from 2^k on (k >= 8) is
    /// 2^(k-7) wide, others 1.
    pub buckets: Vec<(u64, u64)>,
}
