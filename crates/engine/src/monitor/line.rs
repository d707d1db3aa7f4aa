//! A virtual line: when frames would be on a wire of a given rate. On veth there is none, and a train of frames arrives
//! in no time; this shows it as a switch would see it.

use iolab_frame::LINE_OVERHEAD_BYTES;

use crate::error::EngineError;
use crate::rate::{ExactTime, Gap};
use crate::time::Nanos;

/// A line of a declared rate that carries one frame after the other.
#[derive(Debug, Clone)]
pub struct VirtualLine {
    line_bps: u64,
    free: ExactTime,
    busy: Nanos,
}

/// The time that a frame is on the line, preamble and gap included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSpan {
    /// When it begins.
    pub begin: Nanos,
    /// When the next can begin.
    pub end: Nanos,
}

impl VirtualLine {
    /// A line of `line_bps`, at most 10^15.
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

    /// Put frames of together `bytes` (with FCS) that come at `at` on the line, behind those before them.
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

    /// How long the line was busy: the rest of the time it was idle.
    pub const fn busy(&self) -> Nanos {
        self.busy
    }
}
