//! Pseudo-random numbers that depend only on the seed: `SplitMix64` (Steele, Lea, Flood 2014).

/// A pseudo-random number generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Create a generator with a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Return the next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Return a number below `bound`, which must not be zero. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Return an index below `length`, which must not be zero.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }
}
