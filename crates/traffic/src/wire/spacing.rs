//! Which frames of a way are spaced, and when the next of them leaves.

use iolab_engine::impairment::{CatchUp, Passing};
use iolab_engine::Nanos;
use iolab_protocol::impairment::Impairment;
use iolab_protocol::ErrorObject;

use super::filter::Classifier;
use crate::faults::bad_params;
use crate::held::Held;

/// A call that gives one frame takes as long where another CPU has to be woken for it; what is longer may have lain before the
/// kernel's stamp.
pub const CALL: Nanos = Nanos(8_000);
/// So much of it may.
const UNSEEN: Nanos = Nanos(6_500);

/// The spacing of one way.
#[derive(Debug)]
pub struct Spacing {
    classes: Classifier,
    catch_up: CatchUp,
    /// By how much frames were shifted since one left.
    slipped: Nanos,
    short: Shortfall,
}

impl Spacing {
    /// Of the pacer among `impairments`; none where there is none.
    ///
    /// # Errors
    /// The error of a reply, when there are two or one names a class that is not there.
    pub fn of(impairments: &[Impairment]) -> Result<Option<Self>, ErrorObject> {
        let Some(classes) = Classifier::of(impairments)? else { return Ok(None) };
        let catch_up = match impairments {
            [Impairment::Pacer { rate_bps, burst_bytes: Some(bytes), .. }] => {
                CatchUp::within(*rate_bps, *bytes, UNSEEN)
            }
            [Impairment::Pacer { burst_bytes: Some(_), .. }, ..] => {
                return Err(bad_params(
                    "impairments",
                    &"no stage behind a pacer with a burst: its times are shifted",
                ))
            }
            _ => CatchUp::default(),
        };
        let rate_bps = impairments.iter().find_map(|one| match one {
            Impairment::Pacer { rate_bps, .. } => Some(*rate_bps),
            _ => None,
        });
        let short = Shortfall::of(rate_bps.unwrap_or(1));
        Ok(Some(Self { classes, catch_up, slipped: Nanos::ZERO, short }))
    }

    /// The class of a frame; none where no filter fits and there is no default.
    pub fn class_of(&self, frame: &[u8]) -> Option<u16> {
        self.classes.class_of(frame)
    }

    /// When the first of the frames that are decided on leaves.
    pub fn due(&self, held: &Held) -> Option<Nanos> {
        held.next().map(|frame| self.catch_up.earliest(&frame))
    }

    /// What is late at `now` by more than may be caught up shifts all frames; by how much.
    pub fn slip(&mut self, held: &mut Held, now: Nanos) -> Nanos {
        let slipped = held.next().map_or(Nanos::ZERO, |frame| self.catch_up.slip(&frame, now));
        if slipped > Nanos::ZERO {
            held.shift(slipped);
            self.slipped = self.slipped.plus(slipped);
        }
        slipped
    }

    /// A frame left; by how much it was shifted before.
    pub fn left(&mut self, frame: &Passing, now: Nanos) -> Nanos {
        self.catch_up.left(frame, now);
        self.short.left(frame, now);
        std::mem::take(&mut self.slipped)
    }

    /// What the line sent of its classes, and what it could have sent more while frames waited for the thread, since the pacer
    /// began (ns of the line).
    pub fn paced_and_short_ns(&self) -> (u64, u64) {
        (self.short.paced_ns, self.short.ns())
    }
}

/// How far what leaves falls short of the pace while frames wait for the thread. A frame is late, and those behind it wait; what
/// they catch up is taken off again. What is left when no frame waits any more is lost to the rate.
#[derive(Debug)]
struct Shortfall {
    rate_bps: u64,
    paced_ns: u64,
    settled_ns: u64,
    classes: Vec<Behind>,
}

/// Of one class, since a frame was late and others waited.
#[derive(Debug, Clone, Default)]
struct Behind {
    left: Option<Nanos>,
    frames: u32,
    open_ns: i64,
}

impl Behind {
    /// Where fewer wait the sender is slow, not the thread: late frames lose nothing of a rate that nobody asks for.
    const FRAMES: u32 = 8;

    fn lost_ns(&self) -> u64 {
        if self.frames < Self::FRAMES {
            return 0;
        }
        u64::try_from(self.open_ns).unwrap_or(0)
    }
}

impl Shortfall {
    const fn of(rate_bps: u64) -> Self {
        Self {
            rate_bps: if rate_bps == 0 { 1 } else { rate_bps },
            paced_ns: 0,
            settled_ns: 0,
            classes: Vec::new(),
        }
    }

    fn left(&mut self, frame: &Passing, now: Nanos) {
        let Some(class) = frame.class.map(usize::from) else { return };
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Behind::default());
        }
        let own = &mut self.classes[class];
        let waited_from = own.left.filter(|left| frame.at <= *left);
        let over_ns = if let Some(left) = waited_from {
            i128::from(now.since(left).0) - i128::from(frame.takes_ns)
        } else {
            self.settled_ns += own.lost_ns();
            *own = Behind::default();
            i128::from(now.since(frame.at).0)
        };
        // A class below the rate of the line leaves the rest of it to others.
        let line_ns = u64::from(frame.frame_bytes) * 8 * 1_000_000_000 / self.rate_bps;
        self.paced_ns += line_ns;
        let of_line = over_ns * i128::from(line_ns) / i128::from(frame.takes_ns.max(1));
        own.open_ns = own.open_ns.saturating_add(i64::try_from(of_line).unwrap_or(i64::MAX));
        own.frames += 1;
        own.left = Some(now);
    }

    fn ns(&self) -> u64 {
        self.settled_ns + self.classes.iter().map(Behind::lost_ns).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u32 = 1250;
    const TAKES: u64 = 10_000;

    /// Frames of 10 us each at 1 Gbit/s, due and leaving at these times (us): what the line fell short by (us).
    fn short_us(times: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let mut short = Shortfall::of(1_000_000_000);
        for (due_us, left_us) in times {
            let frame = Passing::new(0, FRAME, Nanos::from_micros(due_us));
            let takes_ns = u32::try_from(TAKES).unwrap();
            short.left(&Passing { class: Some(0), takes_ns, ..frame }, Nanos::from_micros(left_us));
        }
        short.ns() / 1_000
    }

    #[test]
    fn a_thread_that_sends_at_half_the_pace_is_short_by_half() {
        // The sender waits for answers: no more than 100 frames are under way, and each is due when it comes.
        let closed = (0..10_000).map(|id| ((id * 20_u64).saturating_sub(2_000), id * 20));
        assert!((99_000..=100_000).contains(&short_us(closed)));
        // The sender does not wait: what is due goes on at the pace.
        let open = (0..10_000).map(|id| (id * 10, id * 20));
        assert!((99_000..=100_000).contains(&short_us(open)));
    }

    #[test]
    fn stalls_that_are_not_caught_up_are_lost() {
        // Every 10 ms the thread sleeps for 5 ms; the sender has no more than 90 frames under way, and stops.
        let held_up = (0..10_u64).flat_map(|turn| {
            let begin = turn * 10_000;
            let awake = (0..500).map(move |id| (begin + id * 10, begin + id * 10 + 1));
            let after = (0..90).map(move |id| (begin + 5_000 + id * 10, begin + 10_000 + id * 8));
            awake.chain(after)
        });
        let short = short_us(held_up.filter(|(due, _)| *due >= 1_000));
        assert!((45_000..=50_000).contains(&short), "{short}");
    }

    #[test]
    fn a_pacer_that_keeps_its_pace_or_that_nobody_fills_is_not_short() {
        assert_eq!(short_us((0..10_000).map(|id| (id * 10, id * 10 + 3))), 0);
        // A tenth of the pace, by a thread that sleeps for 0.7 ms again and again: all that is offered leaves.
        let drowsy = (0..10_000).map(|id| (id * 100 + 90, (id / 7 + 1) * 700 + id % 7 * 8));
        assert_eq!(short_us(drowsy), 0);
        // Single frames that are late, at a pace that is kept.
        assert_eq!(short_us((0..10_000).map(|id| (id * 10, id * 10 + if id % 50 == 0 { 9 } else { 1 }))), 0);
        // A stall of 10 ms, caught up at 5/4 of the pace.
        let stalled = (0..10_000)
            .map(|id| (id * 10, if id < 1_000 { id * 10 } else { (id * 10).max(20_000 + (id - 1_000) * 8) }));
        assert!(short_us(stalled) < 20, "what is caught up is not lost");
    }
}
