//! Frame sizes and mixes of frame sizes. A frame size includes the FCS, as in RFC 2544; in memory a frame is 4 bytes
//! shorter.

use crate::error::TemplateError;

/// Length of the frame check sequence, which the NIC appends and strips (bytes).
pub const FCS_BYTES: u16 = 4;
/// Line overhead per frame: preamble with start delimiter (8) and minimum inter-frame gap (12) (bytes).
pub const LINE_OVERHEAD_BYTES: u16 = 20;
/// Minimum frame size, with FCS (IEEE 802.3) (bytes).
pub const SMALLEST_FRAME_BYTES: u16 = 64;
/// Maximum frame size, with FCS: the common limit of jumbo frames (bytes).
pub const LARGEST_FRAME_BYTES: u16 = 9216;

const LONGEST_PATTERN: u32 = 4096;
const MOST_SIZES: usize = 64;

/// One frame size and its weight in a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeShare {
    /// Frame size with FCS (bytes).
    pub frame_bytes: u16,
    /// Number of frames of this size in one round of the mix.
    pub weight: u16,
}

/// The sizes of a stream of frames: one size, or an IMIX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeMix(Box<[SizeShare]>);

impl SizeMix {
    /// Return a mix with one frame size (bytes, with FCS).
    pub fn single(frame_bytes: u16) -> Result<Self, TemplateError> {
        Self::new(&[SizeShare { frame_bytes, weight: 1 }])
    }

    /// Return the common simple IMIX: 7 frames of 64 B, 4 of 594 B, 1 of 1518 B.
    pub fn simple_imix() -> Self {
        Self(Box::new(
            [(64, 7), (594, 4), (1518, 1)].map(|(frame_bytes, weight)| SizeShare { frame_bytes, weight }),
        ))
    }

    /// Create a mix from `shares`: 1 to 64 sizes of 64 to 9216 B, with a sum of weights of at most 4096.
    pub fn new(shares: &[SizeShare]) -> Result<Self, TemplateError> {
        let refused = |seen: String| Err(TemplateError::SizeMix { seen });
        if shares.is_empty() || shares.len() > MOST_SIZES {
            return refused(format!("{} sizes", shares.len()));
        }
        for share in shares {
            if !(SMALLEST_FRAME_BYTES..=LARGEST_FRAME_BYTES).contains(&share.frame_bytes) {
                return Err(TemplateError::FrameSize {
                    seen_bytes: share.frame_bytes,
                    smallest_bytes: SMALLEST_FRAME_BYTES,
                    largest_bytes: LARGEST_FRAME_BYTES,
                });
            }
            if share.weight == 0 {
                return refused(format!("weight 0 for {} B", share.frame_bytes));
            }
        }
        let sum: u32 = shares.iter().map(|share| u32::from(share.weight)).sum();
        if sum > LONGEST_PATTERN {
            return refused(format!("weights that sum to {sum}"));
        }
        Ok(Self(shares.into()))
    }

    /// Return the sizes with their weights; the position in this slice is the size index used elsewhere.
    pub fn shares(&self) -> &[SizeShare] {
        &self.0
    }

    /// Return the largest frame size (bytes, with FCS).
    pub fn largest_bytes(&self) -> u16 {
        self.0.iter().map(|share| share.frame_bytes).max().unwrap_or(0)
    }

    /// Return one round of the mix as size indices, with each size spread as evenly as possible.
    pub fn pattern(&self) -> Box<[u8]> {
        // Smooth weighted round-robin: in each turn every size gains its weight as credit; the size with the most
        // credit is sent and loses the sum of weights.
        let sum: i64 = self.0.iter().map(|share| i64::from(share.weight)).sum();
        let mut credits = vec![0i64; self.0.len()];
        let mut pattern = Vec::new();
        for _ in 0..sum {
            let mut richest = 0;
            for (index, share) in self.0.iter().enumerate() {
                credits[index] += i64::from(share.weight);
                if credits[index] > credits[richest] {
                    richest = index;
                }
            }
            credits[richest] -= sum;
            pattern.push(u8::try_from(richest).unwrap_or(u8::MAX));
        }
        pattern.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_imix_pattern_spreads_its_sizes() {
        let pattern = SizeMix::simple_imix().pattern();
        assert_eq!(*pattern, [0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn sizes_and_weights_out_of_range_are_refused() {
        for frame_bytes in [0, 63, 9217, u16::MAX] {
            let error = SizeMix::single(frame_bytes).expect_err("refused").to_string();
            assert!(error.contains(&format!("{frame_bytes} B")) && error.contains("64 and 9216"), "{error}");
        }
        assert!(SizeMix::new(&[]).is_err());
        assert!(SizeMix::new(&[SizeShare { frame_bytes: 64, weight: 0 }]).is_err());
        assert!(SizeMix::new(&[SizeShare { frame_bytes: 64, weight: 4097 }]).is_err());
    }
}
