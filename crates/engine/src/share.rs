//! The division of one stream of frames among several senders.

/// The share of one sender in a schedule: the frames whose number (0, 1, 2, ...) is congruent to `place` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index of the sender, from 0.
    pub place: u32,
    /// Number of senders.
    pub of: u32,
}

impl Share {
    /// The share of a single sender: all frames.
    pub const WHOLE: Self = Self { place: 0, of: 1 };

    /// Return the shares of `senders` senders.
    pub fn all(senders: u32) -> impl Iterator<Item = Self> {
        (0..senders).map(move |place| Self { place, of: senders })
    }

    /// Return the number of frames in this share among the first `frames`.
    pub(crate) const fn frames(self, frames: u64) -> u64 {
        frames.saturating_sub(self.place as u64).div_ceil(self.of as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_belongs_to_exactly_one_share() {
        for (frames, of) in [(0, 3), (1, 3), (7, 3), (9, 3), (1_000_003, 64)] {
            assert_eq!(Share::all(of).map(|share| share.frames(frames)).sum::<u64>(), frames);
        }
    }
}
