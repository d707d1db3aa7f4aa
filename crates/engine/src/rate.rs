//! Rates as exact fractions, and the exact gaps at these rates.

use iolab_frame::{SizeMix, LINE_OVERHEAD_BYTES};

use crate::error::EngineError;
use crate::time::Nanos;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const LARGEST: u64 = 1 << 62;

/// The unit that a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Frames.
    Frames,
    /// Bits on layer 1: frame with FCS, preamble and minimum inter-frame gap.
    Layer1Bits,
    /// Bits on layer 2: frame with FCS.
    Layer2Bits,
}

/// A rate per second, exactly `numerator / denominator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    unit: Unit,
    numerator: u64,
    denominator: u64,
}

impl Rate {
    /// Create a rate of `numerator / denominator` frames per second.
    pub fn frames_per_second(numerator: u64, denominator: u64) -> Result<Self, EngineError> {
        Self::new(Unit::Frames, numerator, denominator)
    }

    /// Create a rate in bits per second on layer 1, with preamble and minimum inter-frame gap.
    pub fn layer1_bps(bps: u64) -> Result<Self, EngineError> {
        Self::new(Unit::Layer1Bits, bps, 1)
    }

    /// Create a rate in bits per second on layer 2: frames with FCS, without preamble and gap.
    pub fn layer2_bps(bps: u64) -> Result<Self, EngineError> {
        Self::new(Unit::Layer2Bits, bps, 1)
    }

    /// Create a rate of `numerator / denominator` percent of a line of `line_bps`, on layer 1.
    pub fn percent_of_line(numerator: u64, denominator: u64, line_bps: u64) -> Result<Self, EngineError> {
        let refused = EngineError::Rate { numerator, denominator };
        let product = numerator.checked_mul(line_bps).ok_or_else(|| refused.clone())?;
        Self::new(Unit::Layer1Bits, product, denominator.checked_mul(100).ok_or(refused)?)
    }

    /// Return the rate of one sender if `of` senders share this rate; the `rest_unit` of the gaps is the same.
    pub(crate) fn shared(self, of: u32) -> Result<Self, EngineError> {
        match self.unit {
            _ if of == 1 => Ok(self),
            Unit::Frames => {
                Self::new(self.unit, self.numerator, self.denominator.saturating_mul(u64::from(of)))
            }
            Unit::Layer1Bits | Unit::Layer2Bits => Err(EngineError::SharedBits { of }),
        }
    }

    fn new(unit: Unit, numerator: u64, denominator: u64) -> Result<Self, EngineError> {
        if numerator == 0
            || denominator == 0
            || numerator >= LARGEST
            || denominator >= LARGEST / NANOS_PER_SECOND
        {
            return Err(EngineError::Rate { numerator, denominator });
        }
        Ok(Self { unit, numerator, denominator })
    }

    /// Refuse a rate above the capacity of a line of `line_bps` with frames of `sizes`.
    pub fn check_line(&self, sizes: &SizeMix, line_bps: u64) -> Result<(), EngineError> {
        let seen_bps = self.layer1_bps_of(sizes);
        if seen_bps > u128::from(line_bps) {
            let seen_bps = u64::try_from(seen_bps).unwrap_or(u64::MAX);
            return Err(EngineError::AboveLine { seen_bps, line_bps });
        }
        Ok(())
    }

    /// Return the number of frames of `sizes` that are due within `span` of the start, the first at the start.
    pub fn frames_within(&self, sizes: &SizeMix, span: Nanos) -> u64 {
        let (frames, cost) = self.round_of(sizes);
        let time = u128::from(span.0) * u128::from(self.numerator);
        let frame = u128::from(self.denominator) * u128::from(NANOS_PER_SECOND) * u128::from(cost);
        // Count whole rounds first: otherwise the product could exceed 128 bits.
        let rest = (time % frame).saturating_mul(u128::from(frames)).div_ceil(frame);
        let whole = (time / frame).saturating_mul(u128::from(frames));
        u64::try_from(whole.saturating_add(rest)).unwrap_or(u64::MAX)
    }

    /// Return the gap after a frame of `frame_bytes` (with FCS) at this rate.
    pub(crate) fn gap(&self, frame_bytes: impl Into<u32>) -> Gap {
        let time = u128::from(self.cost(frame_bytes.into()))
            * u128::from(self.denominator)
            * u128::from(NANOS_PER_SECOND);
        let numerator = u128::from(self.numerator);
        Gap {
            whole_ns: u64::try_from(time / numerator).unwrap_or(u64::MAX),
            rest: u64::try_from(time % numerator).unwrap_or(0),
        }
    }

    /// Return the mean gap between frames of `sizes`, truncated to nanoseconds.
    pub fn mean_gap(&self, sizes: &SizeMix) -> Nanos {
        let (frames, cost) = self.round_of(sizes);
        let time = u128::from(cost) * u128::from(self.denominator) * u128::from(NANOS_PER_SECOND);
        let round = u128::from(self.numerator) * u128::from(frames);
        Nanos(u64::try_from(time / round).unwrap_or(u64::MAX))
    }

    /// Return the time for `frames` frames at a rate that counts frames, truncated to nanoseconds.
    pub(crate) fn span_of(&self, frames: u64) -> Nanos {
        let time = u128::from(frames) * u128::from(self.denominator) * u128::from(NANOS_PER_SECOND);
        Nanos(u64::try_from(time / u128::from(self.numerator)).unwrap_or(u64::MAX))
    }

    /// Return the denominator of the fractional part of gaps.
    pub(crate) const fn rest_unit(&self) -> u64 {
        self.numerator
    }

    /// Return the number of frames in a round of `sizes`, and their cost in the unit of the rate.
    fn round_of(&self, sizes: &SizeMix) -> (u64, u64) {
        sizes.shares().iter().fold((0, 0), |(frames, cost), share| {
            let weight = u64::from(share.weight);
            (frames + weight, cost + weight * self.cost(share.frame_bytes.into()))
        })
    }

    fn layer1_bps_of(&self, sizes: &SizeMix) -> u128 {
        let (_, cost) = self.round_of(sizes);
        let (_, bits) = Self { unit: Unit::Layer1Bits, ..*self }.round_of(sizes);
        let round = u128::from(self.denominator) * u128::from(cost);
        (u128::from(self.numerator) * u128::from(bits)).div_ceil(round)
    }

    fn cost(&self, frame_bytes: u32) -> u64 {
        match self.unit {
            Unit::Frames => 1,
            Unit::Layer1Bits => (u64::from(frame_bytes) + u64::from(LINE_OVERHEAD_BYTES)) * 8,
            Unit::Layer2Bits => u64::from(frame_bytes) * 8,
        }
    }
}

/// A time span of `whole_ns + rest / rest_unit` nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Whole nanoseconds.
    pub whole_ns: u64,
    /// Fractional part, in units of 1 / `rest_unit` ns.
    pub rest: u64,
}

/// A time that accumulates exact gaps without rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExactTime {
    /// Time truncated to nanoseconds.
    pub whole: Nanos,
    rest: u64,
    unit: u64,
}

impl ExactTime {
    /// Create a time at `start` for gaps of a rate with the given `rest_unit`.
    pub const fn new(start: Nanos, unit: u64) -> Self {
        Self { whole: start, rest: 0, unit }
    }

    /// Advance by `gap`.
    #[inline]
    pub const fn advance(&mut self, gap: Gap) {
        self.rest += gap.rest;
        let carry = if self.rest >= self.unit {
            self.rest -= self.unit;
            1
        } else {
            0
        };
        self.whole = self.whole.plus(Nanos(gap.whole_ns.saturating_add(carry)));
    }

    /// Advance by whole nanoseconds.
    #[inline]
    pub const fn skip(&mut self, span: Nanos) {
        self.whole = self.whole.plus(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(frame_bytes: u16) -> SizeMix {
        SizeMix::single(frame_bytes).expect("a size")
    }

    fn after(rate: Rate, frames: u64) -> u64 {
        let mut time = ExactTime::new(Nanos::ZERO, rate.rest_unit());
        (0..frames).for_each(|_| time.advance(rate.gap(64u16)));
        time.whole.0
    }

    #[test]
    fn one_second_of_frames_takes_one_second_at_any_rate() {
        for frames in [1, 3, 7, 1_488_095, 999_983] {
            assert_eq!(after(Rate::frames_per_second(frames, 1).expect("a rate"), frames), 1_000_000_000);
        }
        assert_eq!(after(Rate::frames_per_second(1, 3).expect("a rate"), 5), 15_000_000_000);
    }

    #[test]
    fn full_gigabit_line_has_the_frame_rate_of_rfc_2544_appendix_b() {
        let rate = Rate::percent_of_line(100, 1, 1_000_000_000).expect("a rate");
        assert_eq!(rate.gap(64u16).whole_ns, 672);
        let second = |size| rate.frames_within(&single(size), Nanos::from_secs(1));
        assert_eq!((second(64), second(1518)), (1_488_096, 81_275));
        assert_eq!(
            Rate::layer2_bps(512_000).expect("a rate").frames_within(&single(64), Nanos::from_secs(1)),
            1000
        );
    }

    #[test]
    fn rate_above_the_line_is_refused_and_the_full_line_is_accepted() {
        let full = Rate::percent_of_line(100, 1, 1_000_000_000).expect("a rate");
        assert_eq!(full.check_line(&SizeMix::simple_imix(), 1_000_000_000), Ok(()));
        let above = Rate::frames_per_second(1_488_096, 1).expect("a rate");
        let error = above.check_line(&single(64), 1_000_000_000).expect_err("above the line");
        assert_eq!(error, EngineError::AboveLine { seen_bps: 1_000_000_512, line_bps: 1_000_000_000 });
    }

    #[test]
    fn zero_rate_is_refused() {
        for rate in [Rate::layer1_bps(0), Rate::frames_per_second(1, 0), Rate::frames_per_second(u64::MAX, 1)]
        {
            assert!(matches!(rate, Err(EngineError::Rate { .. })));
        }
        assert!(Rate::percent_of_line(u64::MAX, 1, 2).is_err());
    }
}
