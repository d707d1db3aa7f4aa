//! What a thread does with frames that it finds late: it was kept from its CPU, and several are due at once.
//!
//! The times at which frames are due stay as they are, so that nothing of the rate is lost. A late frame follows the one before
//! no closer than [`CatchUp::CLOSEST`] of the span between the two times at which they were due. So what comes late catches up
//! slowly, and a stall makes no burst.

use crate::time::Nanos;

/// When the next frame may leave.
#[derive(Debug, Clone, Copy, Default)]
pub struct CatchUp {
    /// When the last frame was due, and when it left.
    last: Option<(Nanos, Nanos)>,
}

impl CatchUp {
    /// The closest that frames come, as a ratio of the span that they should have: 5/4 of the rate.
    pub const CLOSEST: (u64, u64) = (4, 5);

    /// When a frame that is due at `due`, no earlier than the one before, may leave.
    pub fn earliest(&self, due: Nanos) -> Nanos {
        let Some((last_due, left)) = self.last else { return due };
        let (part, whole) = Self::CLOSEST;
        let span = Nanos(due.since(last_due).0 / whole * part);
        due.max(left.plus(span))
    }

    /// A frame that was due at `due` left at `now`.
    pub fn left(&mut self, due: Nanos, now: Nanos) {
        self.last = Some((due, now));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GAP_NS: u64 = 12_000;

    /// When frames that are due every `GAP_NS` leave, when the thread has its CPU but for these stalls.
    fn through(stalls: &[(u64, u64)], frames: u64) -> Vec<u64> {
        let mut catch_up = CatchUp::default();
        let mut leave = |due| {
            let mut at = catch_up.earliest(Nanos(due)).0;
            for &(begin, length) in stalls {
                if (begin..begin + length).contains(&at) {
                    at = begin + length;
                }
            }
            catch_up.left(Nanos(due), Nanos(at));
            at
        };
        (0..frames).map(|frame| leave(frame * GAP_NS)).collect()
    }

    #[test]
    fn frames_leave_when_they_are_due_without_stalls() {
        assert_eq!(through(&[], 100), (0..100).map(|frame| frame * GAP_NS).collect::<Vec<_>>());
    }

    #[test]
    fn a_stall_of_ten_gaps_is_caught_up_within_fifty() {
        let left = through(&[(20 * GAP_NS, 10 * GAP_NS)], 100);
        assert_eq!(left[30] - left[29], GAP_NS * 4 / 5);
        assert!(left[60] > 60 * GAP_NS && left[75] == 75 * GAP_NS, "{} {}", left[60], left[75]);
    }

    proptest! {
        /// Whatever the stalls, no frame leaves early or closer than it may, and all that is lost in the end is what the last stall
        /// left to catch up.
        #[test]
        fn no_stall_makes_a_burst(stalls in prop::collection::vec((0u64..20_000_000, 0u64..200_000), 0..20)) {
            let mut stalls = stalls;
            stalls.sort_unstable();
            let left = through(&stalls, 5_000);
            for (frame, pair) in (1..).zip(left.windows(2)) {
                prop_assert!(pair[1] - pair[0] >= GAP_NS * 4 / 5 && pair[1] >= frame * GAP_NS);
            }
            prop_assert_eq!(left[4_999], 4_999 * GAP_NS);
        }
    }
}
