//! One stream of frames spread over several senders: who sends which frame.

/// The part of a schedule that one of several senders has: of the frames 0, 1, 2, ... those whose number leaves the rest
/// `place` when it is divided by `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which sender, from 0.
    pub place: u32,
    /// How many senders there are.
    pub of: u32,
}

impl Share {
    /// All frames: there is one sender.
    pub const WHOLE: Self = Self { place: 0, of: 1 };

    /// The shares of `senders`.
    pub fn all(senders: u32) -> impl Iterator<Item = Self> {
        (0..senders).map(move |place| Self { place, of: senders })
    }

    /// How many of the first `frames` are of this share.
    pub(crate) const fn frames(self, frames: u64) -> u64 {
        frames.saturating_sub(self.place as u64).div_ceil(self.of as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_of_one_share() {
        for (frames, of) in [(0, 3), (1, 3), (7, 3), (9, 3), (1_000_003, 64)] {
            assert_eq!(Share::all(of).map(|share| share.frames(frames)).sum::<u64>(), frames);
        }
    }
}
