//! Lead time of frame transmission: a frame is sent before its due time by the delay from the reading of the clock to
//! the kernel's timestamp at the far interface.

/// Initial estimate for a veth pair or a TAP device (ns).
const FIRST_NS: u64 = 600;
/// Maximum duration of a usable call (ns): a longer call was stalled, or ran the receiving stack's reply.
const MOST_CALL_NS: u64 = 3_000;
/// Fraction of a single-frame call before the timestamp; the rest is the processing in the receiving stack.
const PART: (u64, u64) = (3, 4);
/// Step of the estimate per call (ns): it converges to the median, independent of outliers.
const STEP_NS: u64 = 8;

/// The estimate of the lead time, from the durations of single-frame calls.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    ns: u64,
}

impl Lead {
    /// Create the initial estimate.
    pub const fn new() -> Self {
        Self { ns: FIRST_NS }
    }

    /// Return the time by which a frame is sent before it is due (ns).
    pub const fn ns(self) -> u64 {
        self.ns
    }

    /// Update the estimate with the duration of a single-frame call (ns).
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

    /// Nine of ten calls take 2 us; in every tenth call, the stack replies or the call is delayed.
    #[test]
    fn lead_time_follows_the_usual_duration_of_calls() {
        let mut lead = Lead::new();
        for call in 0..1_000 {
            lead.called(if call % 10 == 0 { 7_000 } else { 2_000 });
            lead.called(100_000);
        }
        assert!((1_500..1_510).contains(&lead.ns()), "{lead:?}");
    }

    #[test]
    fn lead_time_decreases_when_calls_are_short_again() {
        let mut lead = Lead::new();
        (0..1_000).for_each(|_| lead.called(2_800));
        assert_eq!(lead.ns(), 2_100);
        (0..1_000).for_each(|_| lead.called(800));
        assert_eq!(lead.ns(), 600);
    }
}
