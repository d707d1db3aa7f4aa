//! Exact monitoring of a measuring point, with O(1) cost per frame or per window: bytes per window, frame trains, and
//! the token bucket and buffer that the traffic requires.
//!
//! A monitor processes every frame in time order, without sampling: the bytes of the windows sum to the bytes of the
//! frames.

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
