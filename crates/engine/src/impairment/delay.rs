//! Delay: constant, or random per frame.

use super::chance::{checked, FrameDraws};
use super::{normal, Impairment, Onward, Passing};
use crate::error::EngineError;
use crate::random::below;
use crate::time::Nanos;

/// The distribution of delays around the base delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jitter {
    /// No jitter.
    None,
    /// Uniform jitter between minus and plus this value.
    Uniform(Nanos),
    /// Normally distributed jitter with this standard deviation.
    Normal(Nanos),
    /// Jitter drawn from these samples with equal probability; samples are added to the base delay.
    Samples(Box<[Nanos]>),
}

/// Whether frames may overtake each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// No overtaking: a frame waits for all frames that arrived earlier.
    Kept,
    /// Overtaking: a frame with a shorter delay overtakes other frames.
    Free,
}

/// Delays frames; negative delays count as zero.
///
/// Delays may be correlated: with the probability `correlation`, a frame has the delay of the previous frame, otherwise
/// a new delay is drawn. The distribution does not change, and the autocorrelation at lag k is the k-th power of
/// `correlation`.
#[derive(Debug, Clone)]
pub struct Delay {
    base: Nanos,
    jitter: Jitter,
    correlation: u32,
    order: Order,
    draws: FrameDraws,
    deviation_ns: Option<i64>,
    last: Nanos,
}

impl Delay {
    /// Create a constant delay.
    pub fn constant(base: Nanos) -> Self {
        let (jitter, draws) = (Jitter::None, FrameDraws::new(0));
        Self {
            base,
            jitter,
            correlation: 0,
            order: Order::Kept,
            draws,
            deviation_ns: None,
            last: Nanos::ZERO,
        }
    }

    /// Create a random delay from `seed`, with a correlation in units of 1 / `PARTS`.
    ///
    /// # Errors
    /// Fails if the correlation is above 1, the jitter is above 4 s, or the list of samples is empty.
    pub fn drawn(
        base: Nanos,
        jitter: Jitter,
        correlation: u32,
        order: Order,
        seed: u64,
    ) -> Result<Self, EngineError> {
        checked(correlation)?;
        let (what, seen, allowed) = match &jitter {
            Jitter::Uniform(most) | Jitter::Normal(most) => {
                ("jitter [ns]", most.0, "at most 4 294 967 295 ns")
            }
            Jitter::Samples(samples) => ("number of samples of a delay", samples.len() as u64, "1 or more"),
            Jitter::None => ("", 1, ""),
        };
        let fits = if matches!(jitter, Jitter::Samples(_)) { seen > 0 } else { u32::try_from(seen).is_ok() };
        if !fits {
            return Err(EngineError::Setting { what, seen, allowed });
        }
        Ok(Self { jitter, correlation, order, draws: FrameDraws::new(seed), ..Self::constant(base) })
    }

    fn draw_ns(&self, drawn: u64) -> i64 {
        let small = |span: Nanos| u32::try_from(span.0).unwrap_or(u32::MAX);
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        match &self.jitter {
            Jitter::None => 0,
            Jitter::Uniform(most) => {
                // One of 2 * most + 1 values, scaled from a 64-bit random number.
                let values = 2 * u128::from(most.0) + 1;
                let drawn = (u128::from(drawn) * values) >> 64;
                i64::try_from(drawn).unwrap_or(i64::MAX) - signed(most.0)
            }
            Jitter::Normal(deviation) => normal::from_drawn(drawn, small(*deviation)),
            Jitter::Samples(samples) => {
                let place = below(drawn, u32::try_from(samples.len()).unwrap_or(u32::MAX));
                signed(samples[place as usize].0)
            }
        }
    }

    fn deviation_ns(&self, frame: &Passing) -> i64 {
        match self.deviation_ns {
            Some(before) if self.correlation > 0 && self.draws.says(frame, 1, self.correlation) => before,
            _ => self.draw_ns(self.draws.of(frame, 0)),
        }
    }
}

impl Impairment for Delay {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        if self.jitter == Jitter::None {
            return onward.pass(frame.later(self.base));
        }
        let deviation_ns = if frame.spared { 0 } else { self.deviation_ns(&frame) };
        if !frame.spared {
            self.deviation_ns = Some(deviation_ns);
        }
        let mut at = frame.at.plus(Nanos(self.base.0.saturating_add_signed(deviation_ns)));
        if self.order == Order::Kept {
            at = at.max(self.last);
            self.last = at;
        }
        onward.pass(frame.at(at));
    }

    fn keeps_order(&self) -> bool {
        self.order == Order::Kept || self.jitter == Jitter::None
    }

    fn restart_draws(&mut self, seed: u64) {
        (self.draws, self.deviation_ns) = (FrameDraws::new(seed), None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::passed;
    use super::*;
    use crate::impairment::PARTS;

    const MS: Nanos = Nanos::from_millis(1);

    /// Return the delays of frames that arrive ten delays apart.
    fn delays_ns(delay: &mut Delay, frames: u64) -> Vec<u64> {
        let at = |id: u64| Nanos(id * 100_000_000);
        let frames = passed(delay, (0..frames).map(|id| Passing::new(id, 64, at(id))));
        frames.iter().map(|frame| frame.at.0 - at(frame.id).0).collect()
    }

    fn drawn(jitter: Jitter, correlation: u32, order: Order) -> Delay {
        Delay::drawn(Nanos::from_millis(10), jitter, correlation, order, 5).unwrap()
    }

    #[test]
    fn constant_delay_is_exact() {
        assert_eq!(delays_ns(&mut Delay::constant(Nanos(77)), 3), [77; 3]);
    }

    /// The Kolmogorov-Smirnov distance to the uniform distribution stays below its 0.1 % bound, 1.95 / sqrt(n).
    #[test]
    fn uniform_jitter_has_a_uniform_distribution() {
        let mut delays = delays_ns(&mut drawn(Jitter::Uniform(MS), 0, Order::Free), 100_000);
        delays.sort_unstable();
        let (least, n) = (9e6, delays.len() as f64);
        let distance = delays
            .iter()
            .enumerate()
            .map(|(place, delay)| ((*delay as f64 - least) / 2e6 - place as f64 / n).abs());
        assert!(distance.fold(0.0, f64::max) < 1.95 / n.sqrt());
        assert!(delays[0] >= 9_000_000 && delays[delays.len() - 1] <= 11_000_000);
    }

    #[test]
    fn jitter_samples_are_drawn_with_equal_probability() {
        let samples = Jitter::Samples([1, 5, 90].map(Nanos).into());
        let delays = delays_ns(&mut drawn(samples, 0, Order::Free), 30_000);
        for sample in [1, 5, 90] {
            let count = delays.iter().filter(|delay| **delay == 10_000_000 + sample).count();
            assert!((9_500..10_500).contains(&count), "{sample}: {count}");
        }
    }

    #[test]
    fn correlated_delays_keep_their_distribution_and_correlation() {
        let delays = delays_ns(&mut drawn(Jitter::Normal(MS), 800_000_000, Order::Free), 200_000);
        let deviations: Vec<f64> = delays.iter().map(|delay| (*delay as f64 - 10e6) / 1e6).collect();
        let n = deviations.len() as f64;
        let variance = deviations.iter().map(|z| z * z).sum::<f64>() / n;
        // 200 000 correlated frames are statistically equivalent to a ninth as many independent frames.
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        for (lag, expected) in [(1, 0.8), (2, 0.64), (5, 0.327_68)] {
            let sum: f64 = deviations.iter().zip(&deviations[lag..]).map(|(a, b)| a * b).sum();
            assert!((sum / n / variance - expected).abs() < 0.03, "lag {lag}: {}", sum / n / variance);
        }
    }

    /// Send frames 10 us apart through a delay with a jitter of 1 ms.
    #[test]
    fn frames_overtake_only_if_reordering_is_allowed() {
        let leaves = |order| {
            let frames = (0..10_000).map(|id| Passing::new(id, 64, Nanos(id * 10_000)));
            let mut stage = drawn(Jitter::Uniform(MS), 0, order);
            let frames = passed(&mut stage, frames);
            (stage.keeps_order(), frames.is_sorted_by_key(|frame| frame.at))
        };
        assert_eq!((leaves(Order::Kept), leaves(Order::Free)), ((true, true), (false, false)));
    }

    #[test]
    fn invalid_jitter_is_refused() {
        for jitter in [Jitter::Samples([].into()), Jitter::Normal(Nanos(1 << 40))] {
            assert!(Delay::drawn(MS, jitter, 0, Order::Kept, 1).is_err());
        }
        assert!(Delay::drawn(MS, Jitter::None, PARTS + 1, Order::Kept, 1).is_err());
    }
}
