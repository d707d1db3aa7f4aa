//! What a thread does with frames that it finds late: it was kept from its CPU, and several are due at once.
//!
//! The times at which frames are due stay as they are. A late frame follows the one before no closer than [`CatchUp::CLOSEST`] of
//! the span between the two times at which they were due, on the line and in its class, and on the line never by more than
//! [`CatchUp::MOST_CLOSER`] closer. So what comes late catches up slowly, and a stall makes no burst. A span in which there was
//! nothing to send is not kept: the frame behind it follows as it would one of a busy class.
//!
//! Catching up is above the rate, if by little: a switch behind would have to hold what a long stall held back. Where a burst is
//! given, no more than that is ever above the rate, and what is later is lost to it: the caller shifts the times of all frames by
//! what [`CatchUp::slip`] says.

use super::Passing;
use crate::time::Nanos;

/// When the next frame may leave.
#[derive(Debug, Clone, Default)]
pub struct CatchUp {
    bound: Option<Bound>,
    line: Option<Left>,
    classes: Vec<Option<Left>>,
}

/// A token bucket that holds all that leaves, whatever the stalls.
#[derive(Debug, Clone, Copy)]
struct Bound {
    rate_bps: u64,
    burst_bytes: u64,
    /// By as much a frame may leave later than is seen.
    unseen: Nanos,
}

/// The last frame that left.
#[derive(Debug, Clone, Copy)]
struct Left {
    due: Nanos,
    at: Nanos,
    takes: Nanos,
}

impl Left {
    /// When a frame that is due at `due` may follow, `most_closer` closer at most.
    fn next(&self, due: Nanos, most_closer: Nanos) -> Nanos {
        let (part, whole) = CatchUp::CLOSEST;
        let span = due.since(self.due).min(self.takes);
        self.at.plus(Nanos((span.0 * part / whole).max(span.since(most_closer).0)))
    }
}

impl CatchUp {
    /// The closest that frames come, as a ratio of the span that they should have: 5/4 of the rate.
    pub const CLOSEST: (u64, u64) = (4, 5);
    /// On a line of a low rate a gap is shortened by no more than a thread with a CPU of its own is late now and then. A slow class
    /// among others may come closer: the frames of the others wait behind its own.
    pub const MOST_CLOSER: Nanos = Nanos(8_000);

    /// What is above this rate holds a bucket of this size: lateness beyond is lost, and as much as a frame may leave later than
    /// is seen.
    pub fn within(rate_bps: u64, burst_bytes: u64, unseen: Nanos) -> Self {
        Self { bound: Some(Bound { rate_bps, burst_bytes, unseen }), ..Self::default() }
    }

    /// By how much the times of this frame and of all behind it are to be shifted when it has not left at `now`.
    pub fn slip(&self, frame: &Passing, now: Nanos) -> Nanos {
        let (Some(_), Some(bound)) = (frame.class, self.bound) else { return Nanos::ZERO };
        // The frame itself is one part of the bucket.
        let spare_bytes = bound.burst_bytes.saturating_sub(frame.frame_bytes.into());
        let spare_ns = u128::from(spare_bytes) * 8 * 1_000_000_000 / u128::from(bound.rate_bps.max(1));
        let spare = Nanos(u64::try_from(spare_ns).unwrap_or(u64::MAX)).since(bound.unseen);
        now.since(frame.at).since(spare)
    }

    /// When a frame that a pacer let go, no earlier than the one before, may leave.
    pub fn earliest(&self, frame: &Passing) -> Nanos {
        let Some(class) = frame.class else { return frame.at };
        let own = self.classes.get(usize::from(class)).and_then(Option::as_ref);
        let of_class = own.map_or(frame.at, |left| left.next(frame.at, Nanos::MAX));
        let of_line = self.line.map_or(frame.at, |left| left.next(frame.at, Self::MOST_CLOSER));
        frame.at.max(of_class).max(of_line)
    }

    /// A frame left at `now`.
    pub fn left(&mut self, frame: &Passing, now: Nanos) {
        let Some(class) = frame.class.map(usize::from) else { return };
        let left = Some(Left { due: frame.at, at: now, takes: Nanos(frame.takes_ns.into()) });
        self.classes.resize(self.classes.len().max(class + 1), None);
        self.classes[class] = left;
        self.line = left;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GAP_NS: u64 = 12_000;

    /// When frames that are due at these times leave, when the thread has its CPU but for these stalls.
    fn through(stalls: &[(u64, u64)], due: impl IntoIterator<Item = (u16, u64, u64)>) -> Vec<u64> {
        let mut catch_up = CatchUp::default();
        let mut leave = |(class, due, takes_ns)| {
            let takes_ns = u32::try_from(takes_ns).unwrap();
            let frame = Passing { class: Some(class), takes_ns, ..Passing::new(0, 1500, Nanos(due)) };
            let mut at = catch_up.earliest(&frame).0;
            for &(begin, length) in stalls {
                if (begin..begin + length).contains(&at) {
                    at = begin + length;
                }
            }
            catch_up.left(&frame, Nanos(at));
            at
        };
        due.into_iter().map(&mut leave).collect()
    }

    /// The same at 1 Gbit/s with a burst of two frames, beyond which lateness is lost; and by how much the times were shifted.
    fn slipping(stalls: &[(u64, u64)], due: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
        let (mut catch_up, mut shift, mut now) = (CatchUp::within(1_000_000_000, 3_000, Nanos(0)), 0, 0);
        let leave = |due: u64| {
            let whole = u32::try_from(GAP_NS).unwrap();
            let frame = |shift| Passing {
                class: Some(0),
                takes_ns: whole,
                ..Passing::new(0, 1500, Nanos(due + shift))
            };
            now = catch_up.earliest(&frame(shift)).0.max(now);
            for &(begin, length) in stalls {
                if (begin..begin + length).contains(&now) {
                    now = begin + length;
                }
            }
            shift += catch_up.slip(&frame(shift), Nanos(now)).0;
            catch_up.left(&frame(shift), Nanos(now));
            now
        };
        let left = due.into_iter().map(leave).collect();
        (left, shift)
    }

    /// Frames of a busy class.
    fn busy(frames: u64) -> impl Iterator<Item = (u16, u64, u64)> {
        (0..frames).map(|frame| (0, frame * GAP_NS, GAP_NS))
    }

    #[test]
    fn frames_leave_when_they_are_due_without_stalls() {
        assert_eq!(through(&[], busy(100)), (0..100).map(|frame| frame * GAP_NS).collect::<Vec<_>>());
    }

    #[test]
    fn a_stall_of_ten_gaps_is_caught_up_within_fifty() {
        let left = through(&[(20 * GAP_NS, 10 * GAP_NS)], busy(100));
        assert_eq!(left[30] - left[29], GAP_NS * 4 / 5);
        assert!(left[60] > 60 * GAP_NS && left[75] == 75 * GAP_NS, "{} {}", left[60], left[75]);
    }

    /// At 100 Mbit/s gaps of 121 us become 113 us until nothing is late, not 97.
    #[test]
    fn at_a_low_rate_a_gap_is_shortened_by_little() {
        let left = through(&[(1_080_000, 60_000)], (0..100).map(|frame| (0, frame * 121_000, 121_000)));
        let shortest = left.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert_eq!((shortest, left[99]), (Some(121_000 - CatchUp::MOST_CLOSER.0), 99 * 121_000));
    }

    /// Ten frames follow each other, then nothing comes for as long, as of a sender that waits for answers: what was late uses the
    /// time in which nothing is due.
    #[test]
    fn idle_spans_are_used_to_catch_up() {
        let due = (0..400).map(|frame| (0, (frame + frame / 10 * 10) * GAP_NS, GAP_NS));
        let left = through(&[(20 * GAP_NS, 100 * GAP_NS)], due.clone());
        let late: Vec<_> = due.zip(&left).map(|((_, due, _), at)| (at - due) / GAP_NS).collect();
        assert!(late[10] >= 80 && late[110..].iter().all(|&late| late == 0), "{late:?}");
    }

    /// Nine of ten gaps are lost, and one is caught up.
    #[test]
    fn with_a_burst_a_long_stall_costs_rate() {
        let (left, shift) = slipping(&[(20 * GAP_NS, 10 * GAP_NS)], (0..100).map(|frame| frame * GAP_NS));
        assert_eq!(shift, 9 * GAP_NS);
        assert_eq!((left[20], left[99]), (30 * GAP_NS, 99 * GAP_NS + shift));
    }

    /// A class of a tenth of the line has no train when it catches up between the frames of another.
    #[test]
    fn a_slow_class_is_spaced_by_its_own_pace() {
        let due = (0..2_000u64).map(|turn| match turn % 10 {
            0 => (1, turn * GAP_NS, 10 * GAP_NS),
            _ => (0, turn * GAP_NS, GAP_NS),
        });
        let left = through(&[(15 * GAP_NS, 200 * GAP_NS)], due);
        let slow: Vec<_> = left.iter().step_by(10).copied().collect();
        assert!(slow.windows(2).all(|pair| pair[1] - pair[0] >= 10 * GAP_NS * 4 / 5), "{slow:?}");
        assert_eq!(left[1_999], 1_999 * GAP_NS);
    }

    proptest! {
        /// Whatever the stalls, no frame leaves early or closer than it may, and all that is lost in the end is what the last stall
        /// left to catch up.
        #[test]
        fn no_stall_makes_a_burst(stalls in prop::collection::vec((0u64..20_000_000, 0u64..200_000), 0..20)) {
            let mut stalls = stalls;
            stalls.sort_unstable();
            let left = through(&stalls, busy(5_000));
            for (frame, pair) in (1..).zip(left.windows(2)) {
                prop_assert!(pair[1] - pair[0] >= GAP_NS * 4 / 5 && pair[1] >= frame * GAP_NS);
            }
            prop_assert_eq!(left[4_999], 4_999 * GAP_NS);
        }

        /// Whatever the stalls, a bucket of two frames holds all.
        #[test]
        fn with_a_burst_no_stall_is_further_above_the_rate(
            stalls in prop::collection::vec((0u64..20_000_000, 0u64..200_000), 0..20),
        ) {
            let mut stalls = stalls;
            stalls.sort_unstable();
            let (left, shift) = slipping(&stalls, (0..5_000).map(|frame| frame * GAP_NS));
            let (mut least, mut sigma) = (i128::MAX, 0);
            for (sent, &at) in (0..).zip(&left) {
                let paid = sent * i128::from(GAP_NS) - i128::from(at);
                least = least.min(paid);
                sigma = sigma.max(paid - least);
            }
            prop_assert!(sigma <= i128::from(GAP_NS), "{sigma} beyond a frame");
            prop_assert!(left[4_999] >= 4_999 * GAP_NS + shift);
        }
    }
}
