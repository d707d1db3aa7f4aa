//! Spacing of the frames of one direction: their classes and departure times.

use iolab_engine::impairment::{CatchUp, Passing};
use iolab_engine::Nanos;
use iolab_protocol::impairment::Impairment;
use iolab_protocol::ErrorObject;

use super::filter::Classifier;
use crate::faults::bad_params;
use crate::held::Held;

/// Maximum duration of a single-frame call, including the wakeup of a different CPU; in a longer call the frame may
/// have been delayed before the kernel's timestamp.
pub const CALL: Nanos = Nanos(8_000);
/// Part of a single-frame call that may precede the kernel's timestamp.
const UNSEEN: Nanos = Nanos(6_500);

/// The spacing of one direction.
#[derive(Debug)]
pub struct Spacing {
    classes: Classifier,
    catch_up: CatchUp,
    /// Shift of departures since the last frame left.
    slipped: Nanos,
    short: Shortfall,
}

impl Spacing {
    /// Create the spacing for the pacer in `impairments`; return none if there is no pacer.
    ///
    /// # Errors
    /// Returns an error object for the reply, if there are two pacers, a filter refers to an unknown class, or a
    /// stage follows a pacer with a burst.
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

    /// Return the class of a frame; none if no filter matches and there is no default.
    pub fn class_of(&self, frame: &[u8]) -> Option<u16> {
        self.classes.class_of(frame)
    }

    /// Return the departure time of the first decided frame.
    pub fn due(&self, held: &Held) -> Option<Nanos> {
        held.next().map(|frame| self.catch_up.earliest(&frame))
    }

    /// If at `now` the first frame is too far behind schedule to catch up, shift all departures; return the shift.
    pub fn slip(&mut self, held: &mut Held, now: Nanos) -> Nanos {
        let slipped = held.next().map_or(Nanos::ZERO, |frame| self.catch_up.slip(&frame, now));
        if slipped > Nanos::ZERO {
            held.shift(slipped);
            self.slipped = self.slipped.plus(slipped);
        }
        slipped
    }

    /// Record a departure, and return the shift of departures before it.
    pub fn left(&mut self, frame: &Passing, now: Nanos) -> Nanos {
        self.catch_up.left(frame, now);
        self.short.left(frame, now);
        std::mem::take(&mut self.slipped)
    }

    /// Return the line time of the frames sent in classes, and the line time lost while frames waited for the thread,
    /// since the pacer started (ns).
    pub fn paced_and_short_ns(&self) -> (u64, u64) {
        (self.short.paced_ns, self.short.ns())
    }
}

/// The shortfall against the pace while frames wait for the thread. The lateness of a frame delays the frames behind
/// it; time that the thread makes up is subtracted. The shortfall that remains when no frame waits any more is lost
/// capacity.
#[derive(Debug)]
struct Shortfall {
    rate_bps: u64,
    paced_ns: u64,
    settled_ns: u64,
    classes: Vec<Behind>,
}

/// The shortfall of one class since its last late frame with other frames waiting behind it.
#[derive(Debug, Clone, Default)]
struct Behind {
    left: Option<Nanos>,
    frames: u32,
    open_ns: i64,
}

impl Behind {
    /// Minimum number of waiting frames: with fewer, the sender is slow, not the thread, and late frames lose no
    /// capacity.
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
        // A class below the line rate leaves the remaining rate to other classes.
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

    /// Return the shortfall of a 1 Gbit/s line (us) for frames of 10 us each that are due and leave at these times
    /// (us).
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
    fn thread_at_half_the_pace_has_a_shortfall_of_one_half() {
        // The sender waits for replies: at most 100 frames are in flight, and each is due when it arrives.
        let closed = (0..10_000).map(|id| ((id * 20_u64).saturating_sub(2_000), id * 20));
        assert!((99_000..=100_000).contains(&short_us(closed)));
        // The sender does not wait: due times continue at the pace.
        let open = (0..10_000).map(|id| (id * 10, id * 20));
        assert!((99_000..=100_000).contains(&short_us(open)));
    }

    #[test]
    fn stalls_that_are_not_caught_up_are_lost() {
        // Every 10 ms the thread sleeps for 5 ms; the sender has at most 90 frames in flight, and stops.
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
    fn pacer_that_keeps_its_pace_or_is_underloaded_has_no_shortfall() {
        assert_eq!(short_us((0..10_000).map(|id| (id * 10, id * 10 + 3))), 0);
        // At a tenth of the pace, with a thread that sleeps for 0.7 ms repeatedly, all offered frames leave.
        let drowsy = (0..10_000).map(|id| (id * 100 + 90, (id / 7 + 1) * 700 + id % 7 * 8));
        assert_eq!(short_us(drowsy), 0);
        // Single late frames, while the pace is kept.
        assert_eq!(short_us((0..10_000).map(|id| (id * 10, id * 10 + if id % 50 == 0 { 9 } else { 1 }))), 0);
        // A stall of 10 ms, which the thread makes up at 5/4 of the pace.
        let stalled = (0..10_000)
            .map(|id| (id * 10, if id < 1_000 { id * 10 } else { (id * 10).max(20_000 + (id - 1_000) * 8) }));
        assert!(short_us(stalled) < 20, "what is caught up is not lost");
    }
}
