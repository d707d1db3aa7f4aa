//! Seeded numbers: the same seed gives the same numbers on every machine. Not for secrets.

/// A SplitMix64 sequence (Steele, Lea and Flood, OOPSLA 2014): one add and a few multiplications a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of the part `place` of something with a seed: parts of one seed have nothing in common.
    pub const fn of_part(seed: u64, place: u64) -> Self {
        Self::new(Self::new(seed ^ Self::new(place).next_u64()).next_u64())
    }

    /// The next number.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is above zero; the bias is below limit / 2^64.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the product is below limit * 2^64")]
    pub const fn below(&mut self, limit: u32) -> u32 {
        let product = self.next_u64() as u128 * limit as u128;
        (product >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_comes_out() {
        let mut random = Random::new(1_234_567);
        let first = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_limit_fill_it_evenly() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_600..10_400).contains(count)), "{seen:?}");
    }
}
