//! What passes a point, exactly and in O(1) per frame or per bin: bytes per window, trains, and the token bucket and the
//! buffer it would need.
//!
//! A monitor gets every frame in the order of time. Nothing is sampled: the bytes of the windows are the bytes of
//! the frames.

mod bins;
mod buffer;
mod curve;
mod kept;
mod line;
mod observer;
mod trains;

pub use bins::{Bins, BinsReport};
pub use buffer::{BufferLoss, Buffers};
pub use curve::{BucketCurve, CurvePoint};
pub use kept::Kept;
pub use line::{LineSpan, VirtualLine};
pub use observer::{Line, Observed, Observer, ObserverConfig, View, Windows};
pub use trains::{Trains, TrainsReport};
