//! sigma(rho): for each rate of a grid the minimum token bucket to which the traffic conforms (Cruz's burstiness
//! constraint). The bucket depth is the buffer that a switch needs to forward the traffic at that rate.

use serde::Serialize;

use crate::error::EngineError;
use crate::time::Nanos;

/// Fractions of a byte in the levels, so that rates in bit/s and times in ns multiply exactly.
pub(super) const PARTS_PER_BYTE: u64 = 8_000_000_000;

/// One bucket per rate, all with the same traffic.
#[derive(Debug, Clone)]
pub struct BucketCurve {
    last: Nanos,
    levels: Box<[Level]>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    rate_bps: u64,
    parts: u64,
    highest_parts: u64,
}

/// The minimum bucket depth at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CurvePoint {
    /// rho: drain rate of the bucket (bit/s).
    pub rate_bps: u64,
    /// sigma: minimum depth to which the traffic conforms, rounded up (bytes).
    pub depth_bytes: u64,
    /// Bytes in the bucket at the end: above zero if the traffic exceeded the rate at the end (bytes).
    pub left_bytes: u64,
}

impl BucketCurve {
    /// Create buckets with the drain rates `rates_bps`. Each frame costs one step per rate; depths are limited to 2.3
    /// GB.
    pub fn new(rates_bps: &[u64]) -> Result<Self, EngineError> {
        if let Some(&seen) = rates_bps.iter().find(|&&rate| rate == 0) {
            let allowed = "a bucket drains at 1 bit/s or more";
            return Err(EngineError::Setting { what: "rate of a token bucket [bit/s]", seen, allowed });
        }
        let levels = rates_bps.iter().map(|&rate_bps| Level { rate_bps, parts: 0, highest_parts: 0 });
        Ok(Self { last: Nanos::ZERO, levels: levels.collect() })
    }

    /// Add `bytes` at time `at`. `bytes` must be counted on the layer of interest: for layer 1, with preamble and
    /// inter-frame gap.
    #[inline]
    pub fn push(&mut self, at: Nanos, bytes: u64) {
        let elapsed = at.since(self.last);
        self.last = self.last.max(at);
        let more = bytes.saturating_mul(PARTS_PER_BYTE);
        for level in &mut self.levels {
            let drained = level.rate_bps.saturating_mul(elapsed.0);
            level.parts = level.parts.saturating_sub(drained).saturating_add(more);
            level.highest_parts = level.highest_parts.max(level.parts);
        }
    }

    /// Return the curve so far, in the order of the rates.
    pub fn points(&self) -> impl Iterator<Item = CurvePoint> + '_ {
        self.levels.iter().map(|level| CurvePoint {
            rate_bps: level.rate_bps,
            depth_bytes: level.highest_parts.div_ceil(PARTS_PER_BYTE),
            left_bytes: level.parts.div_ceil(PARTS_PER_BYTE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn depths(curve: &BucketCurve) -> Vec<u64> {
        curve.points().map(|point| point.depth_bytes).collect()
    }

    #[test]
    fn evenly_spaced_frames_need_a_bucket_of_one_frame_at_their_rate() {
        // 1250 B every 10 us are 1 Gbit/s.
        let mut curve = BucketCurve::new(&[500_000_000, 1_000_000_000, 2_000_000_000]).expect("rates");
        (1..=1_000).for_each(|i| curve.push(Nanos::from_micros(10 * i), 1_250));
        assert_eq!(depths(&curve), [1_250 + 999 * 625, 1_250, 1_250]);
    }

    #[test]
    fn train_needs_a_bucket_of_its_length_at_any_rate() {
        let mut curve = BucketCurve::new(&[1, 1_000_000_000]).expect("rates");
        (0..131).for_each(|_| curve.push(Nanos(5), 1_538));
        assert_eq!(depths(&curve), [131 * 1_538; 2]);
    }

    #[test]
    fn bucket_depth_is_the_maximum_excess_over_any_two_frames() {
        let mut random = Random::new(4);
        let mut at = 0;
        let frames: Vec<(u64, u32)> = (0..300)
            .map(|_| {
                at += u64::from(random.below(20_000));
                (at, 64 + random.below(1_455))
            })
            .collect();
        let rate_bps = 400_000_000;
        let mut curve = BucketCurve::new(&[rate_bps]).expect("a rate");
        frames.iter().for_each(|&(at, bytes)| curve.push(Nanos(at), u64::from(bytes)));
        let excess = |first: usize, last: usize| {
            let bytes: u64 = frames[first..=last].iter().map(|&(_, bytes)| u64::from(bytes)).sum();
            (bytes * PARTS_PER_BYTE).saturating_sub(rate_bps * (frames[last].0 - frames[first].0))
        };
        let pairs = (0..frames.len()).flat_map(|first| (first..frames.len()).map(move |last| (first, last)));
        let largest = pairs.map(|(first, last)| excess(first, last)).max().expect("frames");
        assert_eq!(depths(&curve), [largest.div_ceil(PARTS_PER_BYTE)]);
    }
}
