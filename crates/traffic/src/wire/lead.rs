//! How much earlier than it is due a frame is given: from the clock's reading to the kernel's stamp at the far interface takes as
//! long.

/// Nothing is known of this way: what a veth pair and a tap take.
const FIRST_NS: u64 = 600;
/// A call that takes longer was held up, or the stack behind the stamp answered in it.
const MOST_CALL_NS: u64 = 3_000;
/// Of a call that gives one frame, the part until the stamp: the rest runs through the stack behind it.
const PART: (u64, u64) = (3, 4);
/// One call moves it by as much: it follows the median, whatever the longest calls take.
const STEP_NS: u64 = 8;

/// Learned from the calls that gave one frame.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    ns: u64,
}

impl Lead {
    /// Nothing was given yet.
    pub const fn new() -> Self {
        Self { ns: FIRST_NS }
    }

    /// By how much earlier than it is due a frame is given (ns).
    pub const fn ns(self) -> u64 {
        self.ns
    }

    /// A call that gave one frame took so long (ns).
    pub fn called(&mut self, call_ns: u64) {
        if call_ns > MOST_CALL_NS {
            return;
        }
        let (part, whole) = PART;
        let until_stamp_ns = call_ns * part / whole;
        self.ns = if until_stamp_ns > self.ns {
            (self.ns + STEP_NS).min(until_stamp_ns)
        } else {
            self.ns.saturating_sub(STEP_NS).max(until_stamp_ns)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine of ten calls take 2 us; in others the stack answers, or they are held up.
    #[test]
    fn it_follows_what_most_calls_take_until_the_stamp() {
        let mut lead = Lead::new();
        for call in 0..1_000 {
            lead.called(if call % 10 == 0 { 7_000 } else { 2_000 });
            lead.called(100_000);
        }
        assert!((1_500..1_510).contains(&lead.ns()), "{lead:?}");
    }

    #[test]
    fn it_comes_back_when_calls_are_short_again() {
        let mut lead = Lead::new();
        (0..1_000).for_each(|_| lead.called(2_800));
        assert_eq!(lead.ns(), 2_100);
        (0..1_000).for_each(|_| lead.called(800));
        assert_eq!(lead.ns(), 600);
    }
}
