//! Catch-up after a stall of the forwarding thread: the thread did not run, and several frames are overdue.
//!
//! The due times of frames do not change. A late frame follows the previous frame, both on the line and in its class,
//! after at least [`CatchUp::CLOSEST`] of the interval between their due times; on the line, the interval is shortened
//! by at most [`CatchUp::MOST_CLOSER`]. So late frames catch up slowly, and a stall causes no burst. An idle interval
//! is not preserved: the next frame follows after the interval of a busy class.
//!
//! Catching up slightly exceeds the rate, and after a long stall the queue of the next switch would have to absorb
//! the excess. If a burst size is set, the excess never exceeds the burst, and lateness beyond it is discarded: the
//! caller delays all following frames by the result of [`CatchUp::slip`].

use super::Passing;
use crate::time::Nanos;

/// Computes the earliest transmit time of late frames.
#[derive(Debug, Clone, Default)]
pub struct CatchUp {
    bound: Option<Bound>,
    line: Option<Left>,
    classes: Vec<Option<Left>>,
}

/// A token bucket to which all transmitted frames conform, regardless of stalls.
#[derive(Debug, Clone, Copy)]
struct Bound {
    rate_bps: u64,
    burst_bytes: u64,
    /// Transmit delay that the measured transmit times do not include.
    unseen: Nanos,
}

/// The last transmitted frame.
#[derive(Debug, Clone, Copy)]
struct Left {
    due: Nanos,
    at: Nanos,
    takes: Nanos,
}

impl Left {
    /// Return the earliest transmit time of a frame with due time `due`; the interval after the previous frame is at
    /// most `most_closer` shorter than scheduled.
    fn next(&self, due: Nanos, most_closer: Nanos) -> Nanos {
        let (part, whole) = CatchUp::CLOSEST;
        let span = due.since(self.due).min(self.takes);
        self.at.plus(Nanos((span.0 * part / whole).max(span.since(most_closer).0)))
    }
}

impl CatchUp {
    /// Minimum interval between late frames as a fraction of the scheduled interval, which limits late frames to 5/4 of
    /// the rate.
    pub const CLOSEST: (u64, u64) = (4, 5);
    /// Maximum reduction of the interval on the line: the occasional lateness of a thread on a dedicated CPU, which
    /// limits the reduction at low rates. Frames of a slow class may be closer together, because frames of the other
    /// classes wait behind them.
    pub const MOST_CLOSER: Nanos = Nanos(8_000);

    /// Create a limit: the frames conform to a token bucket with this rate and burst size, and lateness beyond the
    /// burst is discarded; `unseen` is a transmit delay that the measured transmit times do not include.
    pub fn within(rate_bps: u64, burst_bytes: u64, unseen: Nanos) -> Self {
        Self { bound: Some(Bound { rate_bps, burst_bytes, unseen }), ..Self::default() }
    }

    /// Return the delay for this frame and all following frames if this frame has not left at `now`.
    pub fn slip(&self, frame: &Passing, now: Nanos) -> Nanos {
        let (Some(_), Some(bound)) = (frame.class, self.bound) else { return Nanos::ZERO };
        // The frame itself uses a part of the bucket.
        let spare_bytes = bound.burst_bytes.saturating_sub(frame.frame_bytes.into());
        let spare_ns = u128::from(spare_bytes) * 8 * 1_000_000_000 / u128::from(bound.rate_bps.max(1));
        let spare = Nanos(u64::try_from(spare_ns).unwrap_or(u64::MAX)).since(bound.unseen);
        now.since(frame.at).since(spare)
    }

    /// Return the earliest transmit time of a frame that a pacer released; frames must be passed in due order.
    pub fn earliest(&self, frame: &Passing) -> Nanos {
        let Some(class) = frame.class else { return frame.at };
        let own = self.classes.get(usize::from(class)).and_then(Option::as_ref);
        let of_class = own.map_or(frame.at, |left| left.next(frame.at, Nanos::MAX));
        let of_line = self.line.map_or(frame.at, |left| left.next(frame.at, Self::MOST_CLOSER));
        frame.at.max(of_class).max(of_line)
    }

    /// Record that the frame was transmitted at `now`.
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

    /// Return the transmit times of frames that are due at these times, if the thread runs except during these stalls.
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

    /// Return the transmit times at 1 Gbit/s with a burst of two frames, beyond which lateness is discarded, and the
    /// total shift.
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

    /// Return frames of a busy class.
    fn busy(frames: u64) -> impl Iterator<Item = (u16, u64, u64)> {
        (0..frames).map(|frame| (0, frame * GAP_NS, GAP_NS))
    }

    #[test]
    fn frames_leave_at_their_due_times_if_there_are_no_stalls() {
        assert_eq!(through(&[], busy(100)), (0..100).map(|frame| frame * GAP_NS).collect::<Vec<_>>());
    }

    #[test]
    fn stall_of_ten_gaps_is_caught_up_within_fifty_gaps() {
        let left = through(&[(20 * GAP_NS, 10 * GAP_NS)], busy(100));
        assert_eq!(left[30] - left[29], GAP_NS * 4 / 5);
        assert!(left[60] > 60 * GAP_NS && left[75] == 75 * GAP_NS, "{} {}", left[60], left[75]);
    }

    /// At 100 Mbit/s, gaps of 121 us are shortened to 113 us, not to 97 us, until no frame is late.
    #[test]
    fn gap_at_a_low_rate_is_shortened_only_slightly() {
        let left = through(&[(1_080_000, 60_000)], (0..100).map(|frame| (0, frame * 121_000, 121_000)));
        let shortest = left.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert_eq!((shortest, left[99]), (Some(121_000 - CatchUp::MOST_CLOSER.0), 99 * 121_000));
    }

    /// Ten frames are followed by an idle time of the same length, as from a sender that waits for replies; late frames
    /// use this idle time.
    #[test]
    fn idle_time_is_used_to_catch_up() {
        let due = (0..400).map(|frame| (0, (frame + frame / 10 * 10) * GAP_NS, GAP_NS));
        let left = through(&[(20 * GAP_NS, 100 * GAP_NS)], due.clone());
        let late: Vec<_> = due.zip(&left).map(|((_, due, _), at)| (at - due) / GAP_NS).collect();
        assert!(late[10] >= 80 && late[110..].iter().all(|&late| late == 0), "{late:?}");
    }

    /// After a stall of ten gaps, the schedule shifts by nine gaps, and the thread makes up one gap.
    #[test]
    fn long_stall_reduces_the_rate_if_a_burst_is_configured() {
        let (left, shift) = slipping(&[(20 * GAP_NS, 10 * GAP_NS)], (0..100).map(|frame| frame * GAP_NS));
        assert_eq!(shift, 9 * GAP_NS);
        assert_eq!((left[20], left[99]), (30 * GAP_NS, 99 * GAP_NS + shift));
    }

    /// A class with a tenth of the line rate forms no train when it catches up between the frames of another class.
    #[test]
    fn slow_class_keeps_its_spacing_while_catching_up() {
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
        /// Regardless of stalls, no frame leaves early or after less than the minimum gap, and the last frame leaves at
        /// its due time.
        #[test]
        fn no_stall_causes_a_burst(stalls in prop::collection::vec((0u64..20_000_000, 0u64..200_000), 0..20)) {
            let mut stalls = stalls;
            stalls.sort_unstable();
            let left = through(&stalls, busy(5_000));
            for (frame, pair) in (1..).zip(left.windows(2)) {
                prop_assert!(pair[1] - pair[0] >= GAP_NS * 4 / 5 && pair[1] >= frame * GAP_NS);
            }
            prop_assert_eq!(left[4_999], 4_999 * GAP_NS);
        }

        /// Regardless of stalls, all bursts fit into a bucket of two frames.
        #[test]
        fn no_stall_exceeds_the_configured_burst(
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
