//! A forwarder of known capacity.

use iolab_frame::SizeMix;

use super::{Device, Fate};
use crate::error::EngineError;
use crate::rate::{ExactTime, Gap, Rate};
use crate::time::Nanos;

/// Forwards a fixed number of frames per second, whatever their size; the others queue or are dropped.
///
/// A frame takes a token; tokens come at the rate, and up to `burst_frames` of them are saved. A frame without a token
/// waits in order; when `queue_frames` wait, a further one is dropped.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    gap: Gap,
    /// When the bucket would be full again if it began empty: virtual scheduling, exact to parts of a nanosecond.
    full: ExactTime,
    unit: u64,
    burst_span: Nanos,
    queue_span: Nanos,
}

impl TokenBucket {
    /// A forwarder of `numerator / denominator` frames per second, whose bucket holds `burst_frames` (at least 1) and
    /// whose queue holds `queue_frames`.
    pub fn new(
        numerator: u64,
        denominator: u64,
        burst_frames: u32,
        queue_frames: u32,
    ) -> Result<Self, EngineError> {
        if burst_frames == 0 {
            let allowed = "at least one token is needed to forward a frame";
            return Err(EngineError::Setting { what: "burst of a token bucket", seen: 0, allowed });
        }
        let rate = Rate::frames_per_second(numerator, denominator)?;
        let mean = rate.mean_gap(&SizeMix::simple_imix());
        let span = |frames: u32| Nanos(mean.0.saturating_mul(u64::from(frames)));
        Ok(Self {
            gap: rate.gap(0),
            full: ExactTime::new(Nanos::ZERO, rate.rest_unit()),
            unit: rate.rest_unit(),
            burst_span: span(burst_frames - 1),
            queue_span: span(queue_frames),
        })
    }
}

impl Device for TokenBucket {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        if self.full.whole < now {
            self.full = ExactTime::new(now, self.unit);
        }
        let leaves = self.full.whole.since(self.burst_span).max(now);
        if leaves.since(now) > self.queue_span {
            return Fate::Dropped;
        }
        self.full.advance(self.gap);
        Fate::Forwarded(leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forwards_at_its_rate_whatever_is_offered_above_it() {
        let mut bucket = TokenBucket::new(300_000, 1, 1, 100).expect("a bucket");
        let fates = (0..2_000_000u64).map(|i| bucket.push(64, Nanos(i * 500)));
        let forwarded = fates.filter(|fate| matches!(fate, Fate::Forwarded(_))).count();
        assert_eq!(forwarded, 300_000 + 100, "a second's frames and those still queued");
    }

    #[test]
    fn saved_tokens_pass_a_burst_at_once_and_the_queue_takes_the_rest() {
        let mut bucket = TokenBucket::new(1_000_000, 1, 3, 2).expect("a bucket");
        let at = Nanos::from_secs(1);
        let fates: Vec<_> = (0..7).map(|_| bucket.push(64, at)).collect();
        let late = |micros| Fate::Forwarded(at.plus(Nanos::from_micros(micros)));
        assert_eq!(fates, [late(0), late(0), late(0), late(1), late(2), Fate::Dropped, Fate::Dropped]);
    }
}
