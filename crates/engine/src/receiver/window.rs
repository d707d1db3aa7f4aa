//! Windows of the newest sequence numbers of each flow, with one bit for each arrived frame.

/// One bit window per flow, for all flows.
///
/// Word `w` of every flow is adjacent to word `w` of the next flow, because flows advance together: neighbours in
/// time are neighbours in memory, and 10 000 flows do not compete for the same few cache lines.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    words: Box<[u64]>,
    flows: usize,
    /// Window length minus one.
    mask: u64,
}

impl Windows {
    /// Create windows of `window_frames`, a power of two from 64.
    pub fn new(flows: usize, window_frames: u32) -> Self {
        let words = flows * (window_frames as usize / 64);
        Self { words: vec![0; words].into(), flows, mask: u64::from(window_frames) - 1 }
    }

    /// Return the window length (frames).
    #[inline]
    pub const fn frames(&self) -> u64 {
        self.mask + 1
    }

    /// Mark `sequence` and return whether it was marked before.
    #[inline]
    pub fn mark(&mut self, flow: usize, sequence: u64) -> bool {
        let (word, bit) = self.place(flow, sequence);
        let before = self.words[word] & bit != 0;
        self.words[word] |= bit;
        before
    }

    /// Whether `sequence`, which must be within the window, is marked.
    #[inline]
    pub fn is_marked(&self, flow: usize, sequence: u64) -> bool {
        let (word, bit) = self.place(flow, sequence);
        self.words[word] & bit != 0
    }

    /// Unmark the sequence numbers from `first` to `end`, without `end`.
    pub fn unmark(&mut self, flow: usize, first: u64, end: u64) {
        let mut at = first.max(end.saturating_sub(self.frames()));
        while at < end {
            let in_word = at & 63;
            let count = (64 - in_word).min(end - at);
            let bits = if count == 64 { u64::MAX } else { ((1 << count) - 1) << in_word };
            let (word, _) = self.place(flow, at);
            self.words[word] &= !bits;
            at += count;
        }
    }

    #[inline]
    const fn place(&self, flow: usize, sequence: u64) -> (usize, u64) {
        let position = sequence & self.mask;
        ((position >> 6) as usize * self.flows + flow, 1 << (position & 63))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmarking_clears_exactly_the_given_range_of_sequence_numbers() {
        for (first, end) in
            [(0, 0), (3, 5), (60, 70), (64, 128), (1, 255), (200, 300), (250, 400), (0, 10_000)]
        {
            let mut windows = Windows::new(3, 256);
            (0..256).for_each(|sequence| {
                windows.mark(1, sequence);
            });
            windows.unmark(1, first, end);
            let gone: Vec<u64> = (first..end).map(|sequence| sequence & 255).collect();
            for sequence in 0..256 {
                assert_eq!(
                    windows.mark(1, sequence),
                    !gone.contains(&sequence),
                    "{sequence} of {first}..{end}"
                );
            }
            assert!(!windows.mark(0, 7) && !windows.mark(2, 7), "neighbours are untouched");
        }
    }
}
