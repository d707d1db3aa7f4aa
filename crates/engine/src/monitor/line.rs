//! A virtual line: the times at which frames would be on a wire of a given rate. A veth pair has no line rate, so a
//! train of frames arrives almost at once; the virtual line spreads it out as a switch would receive it.

use iolab_frame::LINE_OVERHEAD_BYTES;

use crate::error::EngineError;
use crate::rate::{ExactTime, Gap};
use crate::time::Nanos;

/// A line of a declared rate that sends one frame after the other.
#[derive(Debug, Clone)]
pub struct VirtualLine {
    line_bps: u64,
    free: ExactTime,
    busy: Nanos,
}

/// The time that a frame occupies the line, with preamble and inter-frame gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSpan {
    /// Start of the frame.
    pub begin: Nanos,
    /// Earliest start of the next frame.
    pub end: Nanos,
}

impl VirtualLine {
    /// Create a line of `line_bps`, at most 10^15.
    pub fn new(line_bps: u64) -> Result<Self, EngineError> {
        if line_bps == 0 || line_bps > 1_000_000_000_000_000 {
            let allowed = "a line carries 1 to 10^15 bit/s";
            return Err(EngineError::Setting {
                what: "rate of a virtual line [bit/s]",
                seen: line_bps,
                allowed,
            });
        }
        Ok(Self { line_bps, free: ExactTime::new(Nanos::ZERO, line_bps), busy: Nanos::ZERO })
    }

    /// Send frames with a total of `bytes` (with FCS) that arrive at `at`, after all previous frames.
    #[inline]
    pub fn push(&mut self, at: Nanos, frames: u64, bytes: u64) -> LineSpan {
        if self.free.whole < at {
            self.free = ExactTime::new(at, self.line_bps);
        }
        let begin = self.free.whole;
        let bit_nanos = (bytes + frames * u64::from(LINE_OVERHEAD_BYTES)).saturating_mul(8 * 1_000_000_000);
        self.free.advance(Gap { whole_ns: bit_nanos / self.line_bps, rest: bit_nanos % self.line_bps });
        let end = self.free.whole;
        self.busy = self.busy.plus(Nanos(end.since(begin).0));
        LineSpan { begin, end }
    }

    /// Return the total busy time of the line.
    pub const fn busy(&self) -> Nanos {
        self.busy
    }
}
