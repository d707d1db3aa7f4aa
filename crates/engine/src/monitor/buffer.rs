//! Simulation of drop-tail buffers before a line: the traffic that a buffer of given depth would lose.

use serde::Serialize;

use crate::error::EngineError;
use crate::time::Nanos;

use super::curve::PARTS_PER_BYTE;

/// Buffers of several depths before a line of one rate, all with the same traffic. Loss is counted in bytes, not
/// frames: a real buffer loses up to one frame more or less per burst.
#[derive(Debug, Clone)]
pub struct Buffers {
    rate_bps: u64,
    last: Nanos,
    levels: Box<[Level]>,
    offered_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    depth_bytes: u64,
    parts: u64,
    lost_parts: u64,
}

/// The simulated loss of one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BufferLoss {
    /// Buffer depth (bytes).
    pub depth_bytes: u64,
    /// Lost bytes.
    pub lost_bytes: u64,
    /// Offered bytes.
    pub offered_bytes: u64,
}

impl Buffers {
    /// Create buffers of the given depths before a line of `rate_bps`.
    pub fn new(rate_bps: u64, depths_bytes: &[u64]) -> Result<Self, EngineError> {
        if rate_bps == 0 {
            let allowed = "a line carries 1 bit/s or more";
            return Err(EngineError::Setting { what: "rate behind a buffer [bit/s]", seen: 0, allowed });
        }
        let levels = depths_bytes.iter().map(|&depth_bytes| Level {
            depth_bytes: depth_bytes.min(u64::MAX / PARTS_PER_BYTE),
            parts: 0,
            lost_parts: 0,
        });
        Ok(Self { rate_bps, last: Nanos::ZERO, levels: levels.collect(), offered_bytes: 0 })
    }

    /// Add `bytes`, counted with the line overhead, at time `at`.
    #[inline]
    pub fn push(&mut self, at: Nanos, bytes: u64) {
        let drained = self.rate_bps.saturating_mul(at.since(self.last).0);
        self.last = self.last.max(at);
        self.offered_bytes += bytes;
        let more = bytes.saturating_mul(PARTS_PER_BYTE);
        for level in &mut self.levels {
            let parts = level.parts.saturating_sub(drained).saturating_add(more);
            let fits = parts.min(level.depth_bytes * PARTS_PER_BYTE);
            level.lost_parts = level.lost_parts.saturating_add(parts - fits);
            level.parts = fits;
        }
    }

    /// Return the loss of each buffer so far.
    pub fn losses(&self) -> impl Iterator<Item = BufferLoss> + '_ {
        self.levels.iter().map(|level| BufferLoss {
            depth_bytes: level.depth_bytes,
            lost_bytes: level.lost_parts / PARTS_PER_BYTE,
            offered_bytes: self.offered_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_loses_the_excess_of_a_burst() {
        let mut buffers = Buffers::new(1_000_000_000, &[10_000, 20_000]).expect("buffers");
        // Offer 16 frames at once, and 16 again when 12 500 B have left.
        for at in [0, 100] {
            buffers.push(Nanos::from_micros(at), 16_000);
        }
        let lost: Vec<u64> = buffers.losses().map(|loss| loss.lost_bytes).collect();
        assert_eq!(lost, [6_000 + 6_000, 0]);
        assert!(buffers.losses().all(|loss| loss.offered_bytes == 32_000));
    }

    #[test]
    fn line_rate_of_zero_is_refused() {
        assert!(Buffers::new(0, &[1]).is_err());
    }
}
