//! Spacing of frames by the line itself: gap frames between the measured frames keep the line always full, so that
//! each frame is sent at its exact byte position. Frame lengths on the line are known, so the byte count is the
//! clock.

use iolab_frame::{SizeMix, FCS_BYTES, LINE_OVERHEAD_BYTES, SMALLEST_FRAME_BYTES};

use crate::error::EngineError;
use crate::rate::Rate;

/// Maximum length of a gap frame, with FCS: a length that every link and switch forwards.
const LONGEST_BYTES: u64 = 1518;
/// Nanoseconds per second: gaps are computed in units of 10^-9 bit, divided by the rate's `rest_unit`.
const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// Maximum numerator of a rate, so that the arithmetic fits in 128 bits.
const FINEST: u64 = 1 << 40;

/// Computes the gap frames that keep measured frames at their rate.
#[derive(Debug, Clone)]
pub struct GapFrames {
    line_bps: u64,
    rate: Rate,
    /// Gap that is still to be filled, in fractions of a bit; negative after a frame that was sent early for lack of
    /// room for a gap frame.
    owed: i128,
}

impl GapFrames {
    /// Compute gaps for frames of `sizes` at `rate` on a line of `line_bps`.
    ///
    /// # Errors
    /// Fails if the line cannot carry the rate, or the rate has a numerator above 2^40.
    pub fn new(rate: Rate, sizes: &SizeMix, line_bps: u64) -> Result<Self, EngineError> {
        rate.check_line(sizes, line_bps)?;
        if rate.rest_unit() > FINEST {
            let allowed = "a rate with a numerator of at most 2^40";
            return Err(EngineError::Setting {
                what: "rate with gap frames",
                seen: rate.rest_unit(),
                allowed,
            });
        }
        Ok(Self { line_bps, rate, owed: 0 })
    }

    /// Account for a frame of `frame_bytes` (with FCS) and return the lengths of the gap frames after it, with FCS. A
    /// gap too short for a gap frame is added to the next gap.
    pub fn after(&mut self, frame_bytes: u32) -> impl Iterator<Item = u32> {
        let gap = self.rate.gap(frame_bytes);
        let unit = i128::from(self.rate.rest_unit());
        let asked = (i128::from(gap.whole_ns) * unit + i128::from(gap.rest)) * i128::from(self.line_bps);
        let byte = 8 * NANOS_PER_SECOND * unit;
        self.owed += asked - i128::from(frame_bytes + u32::from(LINE_OVERHEAD_BYTES)) * byte;
        let free = u64::try_from(self.owed / byte).unwrap_or(0);
        let free = if free < shortest() { 0 } else { free };
        self.owed -= i128::from(free) * byte;
        lengths(free)
    }
}

/// Return the line time of the shortest gap frame, with preamble and inter-frame gap (bytes).
fn shortest() -> u64 {
    u64::from(SMALLEST_FRAME_BYTES) + u64::from(LINE_OVERHEAD_BYTES)
}

/// Split `left` bytes of line time into gap frames: none, or frames of at least the minimum length.
fn lengths(mut left: u64) -> impl Iterator<Item = u32> {
    let (overhead, longest) =
        (u64::from(LINE_OVERHEAD_BYTES), LONGEST_BYTES + u64::from(LINE_OVERHEAD_BYTES));
    std::iter::from_fn(move || {
        let next = if left <= longest { left } else { longest.min(left - shortest()) };
        left -= next;
        u32::try_from(next)
            .ok()
            .filter(|next| *next > 0)
            .map(|next| next - u32::try_from(overhead).unwrap_or(0))
    })
}

/// Write a gap frame of `frame_bytes` (with FCS) from `source`: a PAUSE frame with a pause time of zero (IEEE 802.3,
/// annex 31B), which switches do not forward.
pub fn write_gap_frame(source: [u8; 6], frame_bytes: u32, frame: &mut [u8]) {
    const HEAD: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
    const PAUSE: [u8; 6] = [0x88, 0x08, 0x00, 0x01, 0x00, 0x00];
    let length = usize::try_from(frame_bytes - u32::from(FCS_BYTES)).unwrap_or(0).min(frame.len());
    frame[..length].fill(0);
    frame[..6].copy_from_slice(&HEAD);
    frame[6..12].copy_from_slice(&source);
    frame[12..18].copy_from_slice(&PAUSE);
}

#[cfg(test)]
mod tests {
    use iolab_frame::SizeShare;
    use proptest::prelude::*;

    use super::*;

    fn mix(sizes: &[u16]) -> SizeMix {
        let shares: Vec<_> = sizes.iter().map(|&frame_bytes| SizeShare { frame_bytes, weight: 1 }).collect();
        SizeMix::new(&shares).unwrap()
    }

    #[test]
    fn gap_frames_fill_nine_tenths_of_a_line_at_10_percent_load() {
        let rate = Rate::layer1_bps(100_000_000).unwrap();
        let mut gaps = GapFrames::new(rate, &mix(&[1518]), 1_000_000_000).unwrap();
        let lengths: Vec<u32> = gaps.after(1518).collect();
        assert_eq!(lengths.iter().map(|bytes| bytes + 20).sum::<u32>(), 9 * 1538);
        assert!(lengths.iter().all(|bytes| (64..=1518).contains(bytes)), "{lengths:?}");
    }

    #[test]
    fn load_above_the_line_rate_is_refused() {
        assert!(GapFrames::new(Rate::layer1_bps(2_000).unwrap(), &mix(&[64]), 1_000).is_err());
    }

    #[test]
    fn gap_frame_is_a_pause_frame_with_time_zero() {
        let mut frame = [7; 70];
        write_gap_frame([2, 0, 0, 0, 0, 9], 64, &mut frame);
        assert_eq!(frame[..20], [1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 0, 1, 0, 0, 0, 0]);
        assert_eq!((frame[59], frame[60]), (0, 7));
    }

    proptest! {
        /// Over any number of frames, each frame begins at or after the byte position that its rate determines, and
        /// less than one minimum gap frame later.
        #[test]
        fn every_frame_begins_at_its_byte(
            fps in 1_000u64..80_000,
            sizes in prop::collection::vec(64u16..1518, 1..200),
        ) {
            let line_bps = 1_000_000_000;
            let rate = Rate::frames_per_second(fps, 1).unwrap();
            let mut gaps = GapFrames::new(rate, &mix(&[1518]), line_bps).unwrap();
            let mut at: u128 = 0;
            for (number, &bytes) in (0u128..).zip(&sizes) {
                let ideal = number * u128::from(line_bps) / (8 * u128::from(fps));
                prop_assert!(at <= ideal && ideal - at < 84, "{number}: {at} {ideal}");
                at += u128::from(bytes) + 20;
                for gap in gaps.after(u32::from(bytes)) {
                    prop_assert!((64..=1518).contains(&gap));
                    at += u128::from(gap) + 20;
                }
            }
        }
    }
}
