//! Time slices of round trips: the number of completed round trips and their latency in each slice.

use serde::{Deserialize, Serialize};

/// One slice of the reported time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Number of round trips that completed in the slice.
    pub count: u64,
    /// Sum of the round-trip times, in ns.
    pub sum_ns: u64,
    /// Maximum round-trip time, in ns.
    pub max_ns: u64,
}

/// The slices of one report, from the start of the reported time.
#[derive(Debug, Clone)]
pub struct Slices {
    each_ns: u64,
    own: Vec<Slice>,
}

impl Slices {
    /// Create slices of `slice_ns` over a duration. If there would be more than [`MOST`] slices, they are
    /// longer.
    pub fn new(duration_ns: u64, slice_ns: u64) -> Self {
        let each_ns = slice_ns.max(duration_ns.div_ceil(MOST)).max(1);
        let count = usize::try_from(duration_ns.div_ceil(each_ns)).unwrap_or(0);
        Self { each_ns, own: vec![Slice::default(); count.max(1)] }
    }

    /// Count a round trip of `took_ns` that completed `at_ns` after the start of the reported time.
    pub fn record(&mut self, at_ns: u64, took_ns: u64) {
        let last = self.own.len() - 1;
        let at = usize::try_from(at_ns / self.each_ns).unwrap_or(last).min(last);
        let slice = &mut self.own[at];
        slice.count += 1;
        slice.sum_ns = slice.sum_ns.saturating_add(took_ns);
        slice.max_ns = slice.max_ns.max(took_ns);
    }

    /// Add the counts of slices with the same duration.
    pub fn merge(&mut self, other: &Self) {
        for (slice, more) in self.own.iter_mut().zip(&other.own) {
            slice.count += more.count;
            slice.sum_ns = slice.sum_ns.saturating_add(more.sum_ns);
            slice.max_ns = slice.max_ns.max(more.max_ns);
        }
    }

    /// Return the length of a slice in ns, and all slices.
    pub fn into_parts(self) -> (u64, Vec<Slice>) {
        (self.each_ns, self.own)
    }
}

/// Maximum number of slices in a report, so that the agent can store the whole report as program output.
const MOST: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_trip_is_counted_in_the_slice_in_which_it_ended() {
        let mut slices = Slices::new(1000, 100);
        slices.record(99, 5);
        slices.record(100, 7);
        slices.record(105, 3);
        slices.record(5000, 1);
        let (each_ns, own) = slices.into_parts();
        assert_eq!((each_ns, own.len()), (100, 10));
        assert_eq!(own[0], Slice { count: 1, sum_ns: 5, max_ns: 5 });
        assert_eq!(own[1], Slice { count: 2, sum_ns: 10, max_ns: 7 });
        assert_eq!(own[9].count, 1);
    }

    #[test]
    fn long_duration_has_longer_slices() {
        let (each_ns, own) = Slices::new(MOST * 1000, 1).into_parts();
        assert_eq!((each_ns, own.len() as u64), (1000, MOST));
    }

    #[test]
    fn merging_slices_adds_their_counts() {
        let (mut one, mut other) = (Slices::new(10, 10), Slices::new(10, 10));
        one.record(1, 4);
        other.record(2, 6);
        one.merge(&other);
        assert_eq!(one.into_parts().1, [Slice { count: 2, sum_ns: 10, max_ns: 6 }]);
    }
}
