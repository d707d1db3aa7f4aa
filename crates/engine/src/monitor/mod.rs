//! What passes a point, exactly and in O(1) per frame: bytes per window, trains, and the token bucket it would need.
//!
//! A monitor gets every frame in the order of time. Nothing is sampled: the bytes of the windows are the bytes of
//! the frames. Frame sizes count the FCS; preamble and gap are added where a line is meant.

mod bins;
mod curve;
mod line;
mod trains;

pub use bins::{Bins, BinsReport};
pub use curve::{BucketCurve, CurvePoint};
pub use line::{LineSpan, VirtualLine};
pub use trains::{Trains, TrainsReport};
