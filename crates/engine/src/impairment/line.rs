//! A line of limited rate with a drop-tail queue.

use super::queue::{Limit, Queue};
use super::trace::{DeliveryTrace, RateTrace};
use super::{Impairment, Marks, Onward, Passing};
use crate::rate::{ExactTime, Rate};
use crate::time::Nanos;

/// Difference between the frame length with FCS and the packet length that mahimahi counts: Ethernet header and FCS,
/// minus the 4 bytes of packet information of a TUN device. A packet of 1500 B counts as 1504 B.
const BEYOND_TUN_BYTES: u32 = 14 + 4 - 4;

/// A model of the time at which a line has sent a frame.
#[derive(Debug, Clone)]
pub enum LineClock {
    /// Constant rate, without rounding errors over any number of frames.
    Constant(ConstantClock),
    /// Time-varying rate from a trace.
    Rate(RateTrace),
    /// Delivery times from a trace, each with a number of bytes.
    Delivery(DeliveryTrace),
}

/// A clock that advances by the serialization time of each frame.
#[derive(Debug, Clone)]
pub struct ConstantClock {
    rate: Rate,
    /// Time at which the line has sent all frames if it uses no burst allowance.
    sent: ExactTime,
    /// Maximum time by which frames may be sent before `sent` after an idle time (burst allowance).
    saved: Nanos,
}

impl LineClock {
    /// Create a line of `rate`; after an idle time, the line can send at once what it would transmit in the time
    /// `saved`.
    pub fn constant(rate: Rate, saved: Nanos) -> Self {
        Self::Constant(ConstantClock { rate, sent: ExactTime::new(Nanos::ZERO, rate.rest_unit()), saved })
    }

    /// Return the time at which a frame that arrives at `now` would start to leave.
    pub fn begin(&self, frame_bytes: u32, now: Nanos) -> Nanos {
        match self {
            Self::Constant(clock) => clock.begin(frame_bytes, now),
            Self::Rate(trace) => trace.free().max(now),
            Self::Delivery(trace) => trace.begin(now),
        }
    }

    /// Send a frame that arrives at `now`, and return the time at which its last bit has left.
    pub fn send(&mut self, frame_bytes: u32, now: Nanos) -> Nanos {
        match self {
            Self::Constant(clock) => clock.send(frame_bytes, now),
            Self::Rate(trace) => trace.send(frame_bytes, now),
            Self::Delivery(trace) => trace.send(frame_bytes.saturating_sub(BEYOND_TUN_BYTES), now),
        }
    }
}

impl ConstantClock {
    fn begin(&self, frame_bytes: u32, now: Nanos) -> Nanos {
        // With a burst allowance, a frame waits until it leaves as a whole at one instant.
        let taken = Nanos(self.rate.gap(frame_bytes).whole_ns);
        self.sent.whole.max(now).plus(taken).since(self.saved.max(taken)).max(now)
    }

    fn send(&mut self, frame_bytes: u32, now: Nanos) -> Nanos {
        if self.sent.whole < now {
            self.sent = ExactTime::new(now, self.rate.rest_unit());
        }
        self.sent.advance(self.rate.gap(frame_bytes));
        self.sent.whole.since(self.saved).max(now)
    }
}

/// The line and its queue. The decision on a frame is made on arrival, because all frames ahead are known by then.
#[derive(Debug)]
pub struct Line {
    clock: LineClock,
    limit: Limit,
    mark_above: Option<Limit>,
    /// frames that have not started to leave, with their start times
    waiting: Queue,
}

impl Line {
    /// Create a line with a queue of at most `limit`. ECN-capable frames are marked if more than `mark_above` is
    /// queued.
    pub fn new(clock: LineClock, limit: Limit, mark_above: Option<Limit>) -> Self {
        Self { clock, limit, mark_above, waiting: Queue::default() }
    }
}

impl Impairment for Line {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        let Passing { at, frame_bytes, .. } = frame;
        self.waiting.forget_until(at);
        let begin = self.clock.begin(frame_bytes, at);
        let wait = begin.since(at);
        if !frame.spared && !self.waiting.has_room(self.limit, frame_bytes, wait) {
            return onward.lose(frame);
        }
        let full = self.mark_above.is_some_and(|most| !self.waiting.has_room(most, frame_bytes, wait));
        let marks = Marks { congestion: frame.marks.congestion || full && frame.ecn_capable, ..frame.marks };
        if wait > Nanos::ZERO {
            self.waiting.push(begin, frame);
        }
        onward.pass(Passing { at: self.clock.send(frame_bytes, at), marks, ..frame });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{fate, passed};
    use super::*;

    fn bucket(rate: u64, burst_frames: u32, queue_frames: u64) -> Line {
        let rate = Rate::frames_per_second(rate, 1).expect("a rate");
        let saved = Nanos(rate.gap(0u32).whole_ns * u64::from(burst_frames));
        Line::new(LineClock::constant(rate, saved), Limit::Frames(queue_frames), None)
    }

    #[test]
    fn frame_rate_capacity_is_exact_under_any_overload() {
        let mut bucket = bucket(300_000, 1, 100);
        let forwarded = (0..2_000_000u64).filter(|i| fate(&mut bucket, i * 500).is_some()).count();
        assert_eq!(forwarded, 300_000 + 100, "a second's frames and those still queued");
    }

    #[test]
    fn token_bucket_passes_a_burst_and_queues_the_rest() {
        let mut bucket = bucket(1_000_000, 3, 2);
        let at = 1_000_000_000;
        let fates: Vec<_> = (0..7).map(|_| fate(&mut bucket, at).map(|leaves| leaves - at)).collect();
        assert_eq!(fates, [Some(0), Some(0), Some(0), Some(1_000), Some(2_000), None, None]);
    }

    /// Frames of 1518 B at 1 Gbit/s on layer 2 take 12 144 ns each; the queue holds three frames, and the line sends a
    /// fourth.
    #[test]
    fn line_sends_back_to_back_and_its_queue_is_limited() {
        for limit in [Limit::Frames(3), Limit::Bytes(3 * 1518), Limit::Time(Nanos(3 * 12_144))] {
            let clock = LineClock::constant(Rate::layer2_bps(1_000_000_000).unwrap(), Nanos::ZERO);
            let mut line = Line::new(clock, limit, None);
            let frames = (0..10).map(|id| Passing::new(id, 1518, Nanos(5)));
            let left: Vec<u64> = passed(&mut line, frames).iter().map(|frame| frame.at.0).collect();
            assert_eq!(left, [12_149, 24_293, 36_437, 48_581], "{limit:?}");
        }
    }

    /// Each delivery time of a mahimahi recording carries one packet of 1500 B; the next packet uses the bytes that a
    /// smaller packet leaves.
    #[test]
    fn full_frame_uses_one_delivery_time_of_a_trace() {
        let every_ms: Vec<_> = (1..=100).map(Nanos::from_millis).collect();
        let line = || {
            let trace = DeliveryTrace::new(&every_ms, 1504, Nanos::ZERO).unwrap();
            Line::new(LineClock::Delivery(trace), Limit::None, None)
        };
        let left = |bytes: u32| -> Vec<u64> {
            let frames = (0..2_000).map(|id| Passing::new(id, bytes, Nanos(5)));
            passed(&mut line(), frames).iter().map(|frame| frame.at.0 / 1_000_000).collect()
        };
        assert_eq!(left(1518), (1..=2_000).collect::<Vec<_>>());
        assert_eq!(left(766), (1..=1_000).flat_map(|ms| [ms, ms]).collect::<Vec<_>>());
    }

    proptest! {
        /// After any number of back-to-back frames the line has taken the exact time of their bits, rounded down to
        /// nanoseconds.
        #[test]
        fn busy_line_accumulates_no_rounding_error(bps in 1_000u64..100_000_000_000, sizes in prop::collection::vec(64u32..9000, 1..400)) {
            let clock = LineClock::constant(Rate::layer2_bps(bps).unwrap(), Nanos::ZERO);
            let mut line = Line::new(clock, Limit::None, None);
            let frames = sizes.iter().enumerate().map(|(id, &bytes)| Passing::new(id as u64, bytes, Nanos(7)));
            let last = passed(&mut line, frames).pop().unwrap();
            let bits: u128 = sizes.iter().map(|&bytes| u128::from(bytes) * 8).sum();
            prop_assert_eq!(u128::from(last.at.0), 7 + bits * 1_000_000_000 / u128::from(bps));
        }
    }

    #[test]
    fn ecn_capable_frames_are_marked_above_the_threshold() {
        let clock = LineClock::constant(Rate::frames_per_second(1_000, 1).unwrap(), Nanos::ZERO);
        let mut line = Line::new(clock, Limit::Frames(5), Some(Limit::Frames(2)));
        let frames = (0..10).map(|id| Passing { ecn_capable: id % 2 == 1, ..Passing::new(id, 64, Nanos(0)) });
        let marked: Vec<bool> =
            passed(&mut line, frames).iter().map(|frame| frame.marks.congestion).collect();
        assert_eq!(marked, [false, false, false, true, false, true]);
    }
}
