//! A histogram in its wire format: raw counts, from which the controller can compute any quantile of merged histograms.

use serde::{Deserialize, Serialize};

/// Counts of integers, exact up to 255, and within 1/128 above.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Minimum, exact.
    pub min: Option<u64>,
    /// Maximum, exact.
    pub max: Option<u64>,
    /// Number of values of 2^37 or more, which are in no bucket.
    pub above: u64,
    /// Lower bound and count of each bucket that is not empty, in ascending order; a bucket at or above 2^k (k >= 8) is
    /// 2^(k-7) wide, other buckets are 1 wide.
    pub buckets: Vec<(u64, u64)>,
}
