//! A log-linear histogram of integers (like HDR histograms): exact up to 255, then 128 equal buckets per power of
//! two, so that a bucket is at most 1/128 (0.8 %) of its values wide. Recording is O(1) and does not allocate.

use serde::{Deserialize, Serialize};

const SUB_BITS: u32 = 7;
/// Values from this limit on are counted without a bucket: 137 s in nanoseconds.
const LIMIT: u64 = 1 << 37;
const BUCKETS: usize = ((37 - 1 - SUB_BITS as usize) << SUB_BITS) + (2 << SUB_BITS);

/// A histogram of values from 0 to 2^37 (137 s in nanoseconds).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    above: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// One bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Minimum value of the bucket.
    pub low: u64,
    /// Maximum value of the bucket.
    pub high: u64,
    /// Number of recorded values.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Create an empty histogram (32 KiB).
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), count: 0, above: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Record one `value`.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Record `value`, `times` times.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.count += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match self.counts.get_mut(index(value)) {
            Some(count) if value < LIMIT => *count += times,
            _ => self.above += times,
        }
    }

    /// Add the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.above += other.above;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Reset all counts.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.above, self.sum, self.min, self.max) = (0, 0, 0, u64::MAX, 0);
    }

    /// Return the number of recorded values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Return the number of values of 2^37 or more, which are in no bucket.
    pub const fn above(&self) -> u64 {
        self.above
    }

    /// Return the sum of the values; it saturates at 2^64 - 1.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Return the exact minimum value.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Return the exact maximum value.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Return the quantile at `parts_per_million`: the upper bound of its bucket, but at most the maximum recorded
    /// value. 500 000 is the median.
    pub fn quantile(&self, parts_per_million: u32) -> Option<u64> {
        let rank = u128::from(self.count) * u128::from(parts_per_million.min(1_000_000));
        let rank = u64::try_from(rank.div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1);
        let mut seen = 0;
        for bucket in self.buckets() {
            seen += bucket.count;
            if seen >= rank {
                return Some(bucket.high.min(self.max));
            }
        }
        self.max()
    }

    /// Return the nonempty buckets, lowest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, &count)| count > 0);
        filled.map(|(index, &count)| Bucket { low: low(index), high: low(index + 1) - 1, count })
    }
}

#[inline]
fn index(value: u64) -> usize {
    // The index of a value below 2^37 fits in any usize; callers refuse larger values.
    let shift = (u64::BITS - 1 - (value | (1 << SUB_BITS)).leading_zeros()) - SUB_BITS;
    usize::try_from((u64::from(shift) << SUB_BITS) + (value >> shift)).unwrap_or(usize::MAX)
}

fn low(index: usize) -> u64 {
    let shift = (index >> SUB_BITS).saturating_sub(1);
    ((index - (shift << SUB_BITS)) as u64) << shift
}

/// The serialized form of a histogram: its nonempty buckets by minimum value.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    count: u64,
    above: u64,
    sum: u64,
    min: Option<u64>,
    max: Option<u64>,
    /// Pairs of a bucket's minimum value and count; a bucket that starts at 2^k or above (k >= 8) is 2^(k-7) wide,
    /// other buckets are 1 wide.
    buckets: Vec<(u64, u64)>,
}

impl From<Histogram> for Stored {
    fn from(histogram: Histogram) -> Self {
        Self {
            count: histogram.count,
            above: histogram.above,
            sum: histogram.sum,
            min: histogram.min(),
            max: histogram.max(),
            buckets: histogram.buckets().map(|bucket| (bucket.low, bucket.count)).collect(),
        }
    }
}

impl TryFrom<Stored> for Histogram {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let mut histogram = Self::new();
        let mut count = stored.above;
        for (value, more) in stored.buckets {
            let place = histogram
                .counts
                .get_mut(index(value))
                .filter(|_| value < LIMIT && low(index(value)) == value);
            *place.ok_or_else(|| format!("histogram: no bucket begins at {value}"))? += more;
            count = count.checked_add(more).ok_or("histogram: counts above 2^64")?;
        }
        if count != stored.count {
            return Err(format!("histogram: {} values stored, its buckets hold {count}", stored.count));
        }
        histogram.count = stored.count;
        histogram.above = stored.above;
        histogram.sum = stored.sum;
        histogram.min = stored.min.unwrap_or(u64::MAX);
        histogram.max = stored.max.unwrap_or(0);
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn histogram_buckets_are_contiguous_and_narrow() {
        for at in 0..BUCKETS {
            assert_eq!((index(low(at)), index(low(at + 1) - 1)), (at, at));
            assert!((low(at + 1) - low(at)) * 128 <= low(at).max(128), "bucket {at}");
        }
        assert_eq!(low(BUCKETS), LIMIT);
    }

    #[test]
    fn quantiles_are_within_1_percent_of_the_sorted_values() {
        let mut random = Random::new(3);
        let mut histogram = Histogram::new();
        let mut values: Vec<u64> =
            (0..20_000).map(|_| random.next_u64() >> (27 + random.below(37))).collect();
        values.iter().for_each(|&value| histogram.record(value));
        values.sort_unstable();
        for (parts, at) in [(1, 0), (10_000, 199), (500_000, 9_999), (999_000, 19_979), (1_000_000, 19_999)] {
            let (seen, exact) = (histogram.quantile(parts).expect("values"), values[at]);
            assert!(seen >= exact && seen - exact <= exact / 100, "{parts}: {seen} for {exact}");
        }
        assert_eq!(histogram.sum(), values.iter().sum::<u64>());
        assert_eq!((histogram.min(), histogram.max()), (values.first().copied(), values.last().copied()));
    }

    #[test]
    fn merged_histogram_equals_the_histogram_of_all_values() {
        let (mut left, mut right, mut all) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..5_000u64 {
            let side = if value % 3 == 0 { &mut left } else { &mut right };
            side.record(value * value * value * 3);
            all.record(value * value * value * 3);
        }
        left.merge(&right);
        assert_eq!(left, all);
        assert!(all.above() > 0, "some were above the limit");
    }

    #[test]
    fn histogram_is_serialized_sparsely_and_read_back() {
        let mut histogram = Histogram::new();
        [0, 5, 5, 1_000_000, 1 << 40].into_iter().for_each(|value| histogram.record(value));
        let text = serde_json::to_string(&histogram).expect("JSON");
        assert_eq!(
            text,
            "{\"count\":5,\"above\":1,\"sum\":1099512627786,\"min\":0,\"max\":1099511627776,\
             \"buckets\":[[0,1],[5,2],[999424,1]]}"
        );
        assert_eq!(serde_json::from_str::<Histogram>(&text).expect("a histogram"), histogram);
        assert!(serde_json::from_str::<Histogram>(&text.replace("999424", "999425")).is_err());
        assert!(serde_json::from_str::<Histogram>(&text.replace("\"count\":5", "\"count\":6")).is_err());
    }
}
