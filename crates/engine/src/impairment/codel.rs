//! A line with `CoDel` queue management (Nichols, Jacobson, `McGregor` and Iyengar, RFC 8289).

use super::line::LineClock;
use super::queue::{Limit, Queue};
use super::{Impairment, Onward, Passing};
use crate::time::Nanos;

/// Parameters of `CoDel` (RFC 8289, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodelTarget {
    /// Acceptable standing queue delay (target); 5 ms for the Internet.
    pub target: Nanos,
    /// Time for which the delay may exceed the target, on the order of a worst-case round-trip time; 100 ms for the
    /// Internet.
    pub interval: Nanos,
    /// Whether ECN-capable frames are marked instead of dropped.
    pub marks: bool,
}

/// The line and its queue. The decision on a frame is made at dequeue, from the time the frame spent in the queue.
#[derive(Debug)]
pub struct CodelLine {
    clock: LineClock,
    limit: Limit,
    law: CodelTarget,
    waiting: Queue,
    /// maximum frame length so far (bytes)
    largest_bytes: u32,
    /// time at which the delay has exceeded the target for one interval
    first_above: Option<Nanos>,
    /// whether the queue is in the dropping state, and the time of its next drop
    dropping: bool,
    drop_next: Nanos,
    /// drops in this dropping state, and their number when the state was entered
    count: u64,
    last_count: u64,
}

impl CodelLine {
    /// Create a line with a queue of at most `limit` frames or bytes.
    pub fn new(clock: LineClock, limit: Limit, law: CodelTarget) -> Self {
        Self {
            clock,
            limit,
            law,
            waiting: Queue::default(),
            largest_bytes: 0,
            first_above: None,
            dropping: false,
            drop_next: Nanos::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// Dequeue the first frame, and return whether the delay has exceeded the target for an interval.
    fn dequeue(&mut self, now: Nanos) -> Option<(Passing, bool)> {
        let Some((arrived, frame)) = self.waiting.pop() else {
            self.first_above = None;
            return None;
        };
        if now.since(arrived) < self.law.target || self.waiting.bytes() <= u64::from(self.largest_bytes) {
            self.first_above = None;
            return Some((frame, false));
        }
        let interval = self.law.interval;
        let above = *self.first_above.get_or_insert_with(|| now.plus(interval));
        Some((frame, now >= above))
    }

    /// Return the next drop time by the control law: intervals shrink with the square root of the number of drops.
    fn next_drop(&self, from: Nanos) -> Nanos {
        let root = (self.count << 32).isqrt().max(1);
        from.plus(Nanos((self.law.interval.0 << 16) / root))
    }

    /// Return the frame that leaves the queue at `now`; dropped frames go to `onward`.
    fn next_frame(&mut self, now: Nanos, onward: &mut Onward) -> Option<Passing> {
        let (mut frame, above) = self.dequeue(now)?;
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let marked = self.mark_or_lose(frame, onward);
                if marked.is_some() {
                    self.drop_next = self.next_drop(self.drop_next);
                    return marked;
                }
                let next = self.dequeue(now);
                self.dropping = next.is_some_and(|(_, above)| above);
                if self.dropping {
                    self.drop_next = self.next_drop(self.drop_next);
                }
                frame = next?.0;
            }
            return Some(frame);
        }
        if !above {
            return Some(frame);
        }
        let marked = self.mark_or_lose(frame, onward);
        let next = if marked.is_some() { marked } else { self.dequeue(now).map(|(frame, _)| frame) };
        self.dropping = true;
        // If the previous dropping state ended recently, resume at its drop rate.
        let drops = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next).0 < 16 * self.law.interval.0;
        self.count = if drops > 1 && recent { drops } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.next_drop(now);
        next
    }

    /// Mark the frame and return it, or drop it and return none.
    fn mark_or_lose(&self, mut frame: Passing, onward: &mut Onward) -> Option<Passing> {
        if frame.spared {
            return Some(frame);
        }
        if frame.ecn_capable && self.law.marks {
            frame.marks.congestion = true;
            return Some(frame);
        }
        onward.lose(frame);
        None
    }
}

impl Impairment for CodelLine {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        while let Some(due) = self.due().filter(|due| *due <= frame.at) {
            self.give(due, onward);
        }
        self.largest_bytes = self.largest_bytes.max(frame.frame_bytes);
        let wait = self.due().map_or(Nanos::ZERO, |due| due.since(frame.at).max(Nanos(1)));
        if frame.spared || self.waiting.has_room(self.limit, frame.frame_bytes, wait) {
            self.waiting.push(frame.at, frame);
        } else {
            onward.lose(frame);
        }
    }

    fn due(&self) -> Option<Nanos> {
        self.waiting.first().map(|(arrived, frame)| self.clock.begin(frame.frame_bytes, arrived))
    }

    fn give(&mut self, now: Nanos, onward: &mut Onward) {
        if let Some(frame) = self.next_frame(now, onward) {
            let at = self.clock.send(frame.frame_bytes, now);
            onward.pass(frame.at(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chain, Outcome};
    use super::*;
    use crate::rate::Rate;

    const LAW: CodelTarget =
        CodelTarget { target: Nanos::from_millis(5), interval: Nanos::from_millis(100), marks: true };

    /// Send frames of 1250 B, which take 1 ms each at 10 Mbit/s, through the line at these times.
    fn through(times: impl IntoIterator<Item = Nanos>, ecn_capable: bool) -> Vec<Outcome> {
        let clock = LineClock::constant(Rate::layer2_bps(10_000_000).unwrap(), Nanos::ZERO);
        let line: Box<dyn Impairment> = Box::new(CodelLine::new(clock, Limit::Frames(1000), LAW));
        let mut chain = Chain::new([line]);
        for (id, at) in (0..).zip(times) {
            chain.push(Passing { ecn_capable, ..Passing::new(id, 1250, at) });
        }
        chain.advance(Nanos::MAX);
        chain.decided().collect()
    }

    fn lost_at(outcomes: &[Outcome]) -> Vec<u64> {
        let lost = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Lost(frame, _) => Some(frame.id),
            Outcome::Leaves(_) => None,
        });
        lost.collect()
    }

    /// Return the send times of frames at a rate that is a tenth above the line rate.
    fn overload(frames: u64) -> impl Iterator<Item = Nanos> {
        (0..frames).map(|id| Nanos(id * 909_091))
    }

    #[test]
    fn codel_queue_below_the_target_loses_no_frame() {
        // With four frames every 5 ms, no frame waits for more than 3 ms.
        let times = (0..2_000).map(|id| Nanos::from_millis(id / 4 * 5));
        assert_eq!(lost_at(&through(times, false)), [0; 0]);
    }

    /// The first drop occurs one interval after the delay first reached the target, the second drop one interval later,
    /// and each further drop after interval / sqrt(count) (RFC 8289, section 4.4).
    #[test]
    fn codel_drops_follow_the_control_law() {
        let outcomes = through(overload(3_000), false);
        let mut left = Nanos::ZERO;
        let mut drops_ms = Vec::new();
        for outcome in &outcomes {
            match outcome {
                Outcome::Leaves(frame) => left = frame.at,
                Outcome::Lost(..) => drops_ms.push(left.0 / 1_000_000),
            }
        }
        // The delay grows by 1 ms every 11 frames: it is 5 ms when frame 55 leaves.
        assert!((150..=158).contains(&drops_ms[0]), "{drops_ms:?}");
        let gaps: Vec<f64> = drops_ms.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        for (gap, expected) in gaps.iter().zip((1..).map(|count| 100.0 / f64::from(count).sqrt())).take(8) {
            assert!((gap - expected).abs() <= 2.0, "{gap} for {expected}: {drops_ms:?}");
        }
    }

    /// Under a steady overload of unresponsive frames a plain queue would grow to 2.7 s; drops become more frequent
    /// until the queue is short.
    #[test]
    fn codel_reduces_the_delay_under_overload() {
        let waits = through(overload(30_000), false).into_iter().filter_map(|outcome| match outcome {
            Outcome::Leaves(frame) => Some(frame.at.since(Nanos(frame.id * 909_091)).0 / 1_000_000),
            Outcome::Lost(..) => None,
        });
        let waits: Vec<u64> = waits.collect();
        let late = &waits[waits.len() - 5_000..];
        let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
        let most = waits.iter().max().copied().unwrap_or(0);
        assert!(most < 500 && mean < 50.0, "at most {most} ms, mean of the last {mean} ms");
    }

    #[test]
    fn ecn_capable_frames_are_marked_instead_of_dropped() {
        let outcomes = through(overload(1_000), true);
        let marked = |outcome: &&Outcome| matches!(outcome, Outcome::Leaves(frame) if frame.marks.congestion);
        let plain = lost_at(&through(overload(1_000), false));
        assert_eq!(lost_at(&outcomes), [0; 0]);
        assert!(outcomes.iter().filter(marked).count() >= plain.len() && plain.len() > 5, "{plain:?}");
    }

    /// The number of polls between two frames changes no decision.
    #[test]
    fn codel_decisions_do_not_depend_on_the_polling_times() {
        let clock = LineClock::constant(Rate::layer2_bps(10_000_000).unwrap(), Nanos::ZERO);
        let line: Box<dyn Impairment> = Box::new(CodelLine::new(clock, Limit::Frames(1000), LAW));
        let (mut chain, mut outcomes) = (Chain::new([line]), Vec::new());
        for (id, at) in (0..).zip(overload(3_000)) {
            chain.push(Passing::new(id, 1250, at));
            chain.advance(at.plus(Nanos(id % 7 * 120_000)));
            outcomes.extend(chain.decided());
        }
        chain.advance(Nanos::MAX);
        outcomes.extend(chain.decided());
        assert_eq!(outcomes, through(overload(3_000), false));
    }
}
