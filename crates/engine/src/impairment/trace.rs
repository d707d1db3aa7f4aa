//! Lines with a rate from a trace, which repeats.

use crate::error::EngineError;
use crate::time::Nanos;

/// A rate that changes at given times.
#[derive(Debug, Clone)]
pub struct RateTrace {
    /// Duration of each rate, and the rate (ns, bit/s).
    steps: Box<[(u64, u64)]>,
    step: usize,
    step_end: Nanos,
    free: Nanos,
    /// Unused capacity of the last nanosecond of the previous frame (bit/s times ns).
    credit: u128,
}

const PER_BIT: u128 = 1_000_000_000; // bit/s times ns

impl RateTrace {
    /// Create a trace from durations and rates (ns, bit/s), starting at `start`.
    ///
    /// # Errors
    /// Fails if no rate is above zero, or a duration is zero.
    pub fn new(steps: &[(Nanos, u64)], start: Nanos) -> Result<Self, EngineError> {
        let what = "rate trace";
        if steps.iter().any(|(length, _)| *length == Nanos::ZERO) {
            return Err(EngineError::Setting { what, seen: 0, allowed: "each rate holds for some time" });
        }
        let Some(first) = steps.first().filter(|_| steps.iter().any(|(_, bps)| *bps > 0)) else {
            return Err(EngineError::Setting { what, seen: 0, allowed: "some rate is above zero" });
        };
        let step_end = start.plus(first.0);
        let steps = steps.iter().map(|(length, bps)| (length.0, *bps)).collect();
        Ok(Self { steps, step: 0, step_end, free: start, credit: 0 })
    }

    /// Return the time at which the line has sent all frames.
    pub fn free(&self) -> Nanos {
        self.free
    }

    /// Send a frame that arrives at `now`, and return the time at which its last bit has left.
    pub fn send(&mut self, frame_bytes: u32, now: Nanos) -> Nanos {
        if now > self.free {
            (self.free, self.credit) = (now, 0);
        }
        let needed = u128::from(frame_bytes) * 8 * PER_BIT;
        let Some(mut needed) = needed.checked_sub(self.credit) else {
            self.credit -= needed;
            return self.free;
        };
        self.credit = 0;
        loop {
            while self.step_end <= self.free {
                self.step = (self.step + 1) % self.steps.len();
                self.step_end = self.step_end.plus(Nanos(self.steps[self.step].0));
            }
            let bps = u128::from(self.steps[self.step].1);
            let carried = bps * u128::from(self.step_end.since(self.free).0);
            if carried >= needed {
                let taken = needed.div_ceil(bps);
                self.credit = taken * bps - needed;
                self.free = self.free.plus(Nanos(u64::try_from(taken).unwrap_or(u64::MAX)));
                return self.free;
            }
            needed -= carried;
            self.free = self.step_end;
        }
    }
}

/// A packet-delivery trace of mahimahi (Netravali et al., USENIX ATC 2015): delivery times, each with a fixed number
/// of bytes.
#[derive(Debug, Clone)]
pub struct DeliveryTrace {
    moments: Box<[Nanos]>,
    period: Nanos,
    start: Nanos,
    bytes: u32,
    /// index of the next delivery time, counted over all rounds
    next: u64,
    left_bytes: u32,
    free: Nanos,
}

impl DeliveryTrace {
    /// Create a trace in which `bytes` may leave at each of `moments` after `start`, in order; the last moment is the
    /// length of a round.
    ///
    /// # Errors
    /// Fails if there are no moments, they decrease, the last is zero, or `bytes` is zero.
    pub fn new(moments: &[Nanos], bytes: u32, start: Nanos) -> Result<Self, EngineError> {
        let refused =
            |allowed| EngineError::Setting { what: "delivery trace", seen: moments.len() as u64, allowed };
        let Some(&period) = moments.last().filter(|last| **last > Nanos::ZERO && bytes > 0) else {
            return Err(refused("a trace has a moment after its begin, and bytes at each"));
        };
        if !moments.is_sorted() {
            return Err(refused("a trace never goes back in time"));
        }
        Ok(Self { moments: moments.into(), period, start, bytes, next: 0, left_bytes: 0, free: start })
    }

    fn moment(&self, number: u64) -> Nanos {
        let (round, place) = (number / self.moments.len() as u64, number % self.moments.len() as u64);
        #[expect(clippy::cast_possible_truncation, reason = "below the number of moments")]
        let within = self.moments[place as usize];
        self.start.plus(Nanos(self.period.0.saturating_mul(round))).plus(within)
    }

    /// Return the time at which a frame that arrives at `now` would start to leave.
    pub fn begin(&self, now: Nanos) -> Nanos {
        self.free.max(now)
    }

    /// Send a frame that arrives at `now`, and return the time at which its last byte has left. Unused bytes of a
    /// delivery time are lost.
    pub fn send(&mut self, frame_bytes: u32, now: Nanos) -> Nanos {
        if now > self.free {
            self.left_bytes = 0;
            let rounds = now.since(self.start).0 / self.period.0;
            // The last moment of a round is the start of the next round, so it is early enough to start one round back.
            self.next = self.next.max(rounds.saturating_sub(1) * self.moments.len() as u64);
            while self.moment(self.next) < now {
                self.next += 1;
            }
        }
        while self.left_bytes < frame_bytes {
            self.left_bytes += self.bytes;
            self.free = self.moment(self.next);
            self.next += 1;
        }
        self.left_bytes -= frame_bytes;
        self.free
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// A rate of 8 Mbit/s for 1 ms (1000 B), none for 1 ms, and 16 Mbit/s for 1 ms (2000 B).
    #[test]
    fn frame_duration_follows_the_rate_steps_it_spans() {
        let steps = [(MS, 8_000_000), (MS, 0), (MS, 16_000_000)];
        let mut trace = RateTrace::new(&steps, Nanos::ZERO).unwrap();
        let left: Vec<u64> =
            [500, 1000, 1500, 500].map(|bytes| trace.send(bytes, Nanos::ZERO).0 / 1_000).into();
        assert_eq!(left, [500, 2_250, 3_000, 3_500]);
        assert_eq!(
            trace.send(500, Nanos::from_millis(11)).0,
            11_250_000,
            "in the last third of the fourth round"
        );
    }

    proptest! {
        /// A trace of equal rates is a line of that rate: a frame leaves when its bits have been carried, rounded up.
        #[test]
        fn rate_trace_accumulates_no_rounding_error(bps in 1_000_000u64..10_000_000_000, sizes in prop::collection::vec(64u32..9000, 1..200)) {
            let steps = [(Nanos(12_345), bps), (Nanos(777), bps)];
            let mut trace = RateTrace::new(&steps, Nanos::ZERO).unwrap();
            let last = sizes.iter().map(|&bytes| trace.send(bytes, Nanos::ZERO)).last().unwrap();
            let bits: u128 = sizes.iter().map(|&bytes| u128::from(bytes) * 8).sum();
            prop_assert_eq!(u128::from(last.0), (bits * 1_000_000_000).div_ceil(u128::from(bps)));
        }
    }

    #[test]
    fn frames_leave_at_the_delivery_times_of_a_trace() {
        let moments = [1, 1, 3, 5].map(Nanos::from_millis);
        let mut trace = DeliveryTrace::new(&moments, 1504, Nanos::ZERO).unwrap();
        let left: Vec<u64> =
            [1504, 1504, 3008, 752, 752, 1].map(|bytes| trace.send(bytes, Nanos::ZERO).0 / 1_000_000).into();
        assert_eq!(left, [1, 1, 5, 6, 6, 6]);
        assert_eq!(trace.send(1504, Nanos::from_millis(7)).0, 8_000_000);
        assert_eq!(trace.send(1, Nanos::from_millis(1_000)).0, 1_000_000_000, "the last moment of a round");
    }

    #[test]
    fn invalid_trace_is_refused() {
        assert!(
            RateTrace::new(&[], Nanos::ZERO).is_err() && RateTrace::new(&[(MS, 0)], Nanos::ZERO).is_err()
        );
        assert!(RateTrace::new(&[(Nanos::ZERO, 5)], Nanos::ZERO).is_err());
        let refused = |moments: &[Nanos], bytes| DeliveryTrace::new(moments, bytes, Nanos::ZERO).is_err();
        assert!(refused(&[], 1504) && refused(&[Nanos::ZERO], 1504) && refused(&[MS], 0));
        assert!(refused(&[MS, Nanos::ZERO, MS], 1504));
    }
}
