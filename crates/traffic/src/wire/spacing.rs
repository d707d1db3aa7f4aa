//! Which frames of a way are spaced, and when the next of them leaves.

use iolab_engine::impairment::{CatchUp, Passing};
use iolab_engine::Nanos;
use iolab_protocol::impairment::Impairment;
use iolab_protocol::ErrorObject;

use super::filter::Classifier;
use crate::held::Held;

/// The spacing of one way.
#[derive(Debug)]
pub struct Spacing {
    classes: Classifier,
    catch_up: CatchUp,
}

impl Spacing {
    /// Of the pacer among `impairments`; none where there is none.
    ///
    /// # Errors
    /// The error of a reply, when there are two or one names a class that is not there.
    pub fn of(impairments: &[Impairment]) -> Result<Option<Self>, ErrorObject> {
        let classes = Classifier::of(impairments)?;
        Ok(classes.map(|classes| Self { classes, catch_up: CatchUp::default() }))
    }

    /// The class of a frame; none where no filter fits and there is no default.
    pub fn class_of(&self, frame: &[u8]) -> Option<u16> {
        self.classes.class_of(frame)
    }

    /// When the first of the frames that are decided on leaves.
    pub fn due(&self, held: &Held) -> Option<Nanos> {
        held.next().map(|frame| self.catch_up.earliest(frame))
    }

    /// A frame left.
    pub fn left(&mut self, frame: &Passing, now: Nanos) {
        self.catch_up.left(frame, now);
    }
}
