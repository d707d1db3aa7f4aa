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
        Ok(Some(Self { classes, catch_up, slipped: Nanos::ZERO }))
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
        std::mem::take(&mut self.slipped)
    }
}
