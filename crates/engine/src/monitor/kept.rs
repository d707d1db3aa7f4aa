//! Individually stored windows in packed form: three bytes for a typical 12 us window on a busy line of 1 Gbit/s.

use crate::time::Nanos;

/// Maximum window length for which the number of frames usually fits into one byte together with the step.
const SHORT: Nanos = Nanos::from_micros(200);

/// Nonempty windows in order, encoded in groups of seven bits, lowest first (LEB128).
///
/// An entry has two numbers: `step << frame_bits | frames`, then bytes. The step is the distance in windows to the
/// previous entry; with step 0 the entry adds to the same window.
#[derive(Debug, Clone)]
pub struct Kept {
    packed: Vec<u8>,
    frame_bits: u32,
    most_bytes: usize,
    last: u64,
    left_out: u64,
}

impl Kept {
    pub(super) fn new(window: Nanos, most_bytes: usize) -> Self {
        let frame_bits = if window <= SHORT { 6 } else { 24 };
        let mut packed = Vec::new();
        // Reserve the memory now: a reallocation would copy megabytes between two frames. Untouched pages cost
        // nothing. If the reservation fails, the vector grows on demand.
        packed.try_reserve_exact(most_bytes).ok();
        Self { packed, frame_bits, most_bytes, last: 0, left_out: 0 }
    }

    pub(super) fn push(&mut self, window: u64, frames: u64, bytes: u64) {
        if frames == 0 && bytes == 0 {
            return;
        }
        let room = (1 << self.frame_bits) - 1;
        let entries = usize::try_from(frames / room + 1).unwrap_or(usize::MAX);
        if self.left_out > 0 || self.packed.len().saturating_add(entries.saturating_mul(20)) > self.most_bytes
        {
            self.left_out += 1;
            return;
        }
        let (mut frames, mut step) = (frames, window - self.last);
        while frames > room {
            self.number(step << self.frame_bits | room);
            self.number(0);
            (frames, step) = (frames - room, 0);
        }
        self.number(step << self.frame_bits | frames);
        self.number(bytes);
        self.last = window;
    }

    fn number(&mut self, mut value: u64) {
        while value > 0x7f {
            self.packed.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.packed.push((value & 0x7f) as u8);
    }

    /// Return the packed numbers.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Return the number of bits for the frame count in the first number of an entry.
    pub const fn frame_bits(&self) -> u32 {
        self.frame_bits
    }

    /// Return the number of nonempty windows that did not fit.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Return index, frames and bytes of each window.
    #[cfg(test)]
    pub(super) fn windows(&self) -> Vec<(u64, u64, u64)> {
        let mut found: Vec<(u64, u64, u64)> = Vec::new();
        let mut numbers = Vec::new();
        let (mut value, mut shift) = (0, 0);
        for &byte in &self.packed {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                numbers.push(value);
                (value, shift) = (0, 0);
            }
        }
        for entry in numbers.chunks(2) {
            let (step, frames) = (entry[0] >> self.frame_bits, entry[0] & ((1 << self.frame_bits) - 1));
            match found.last_mut() {
                Some(last) if step == 0 => (last.1, last.2) = (last.1 + frames, last.2 + entry[1]),
                last => {
                    let before = last.map_or(0, |last| last.0);
                    found.push((before + step, frames, entry[1]));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_windows_are_unpacked_unchanged() {
        let windows =
            [(7, 1, 1_514), (8, 63, 1), (9, 64, 9_000), (1_000_000, 1_000, 1 << 40), (1_000_001, 0, 5)];
        for window in [Nanos::from_micros(12), Nanos::from_millis(10)] {
            let mut kept = Kept::new(window, 1 << 16);
            windows.iter().for_each(|&(at, frames, bytes)| kept.push(at, frames, bytes));
            assert_eq!(kept.windows(), windows);
        }
    }

    #[test]
    fn memory_limit_above_the_available_memory_is_accepted() {
        let mut kept = Kept::new(Nanos::from_micros(12), usize::MAX);
        kept.push(1, 1, 64);
        assert_eq!(kept.windows(), [(1, 1, 64)]);
    }

    #[test]
    fn busy_line_needs_three_bytes_per_window() {
        let mut kept = Kept::new(Nanos::from_micros(12), 1 << 20);
        (1..=1_000).for_each(|at| kept.push(at, 1, 1_514));
        assert_eq!(kept.packed().len(), 3_000);
    }

    #[test]
    fn windows_beyond_the_memory_limit_are_counted_and_end_the_record() {
        let mut kept = Kept::new(Nanos::from_micros(12), 25);
        (1..=9).for_each(|at| kept.push(at, 1, 100));
        let whole = u64::try_from(kept.windows().len()).unwrap();
        assert!(whole >= 1 && whole + kept.left_out() == 9, "{whole} and {}", kept.left_out());
    }
}
