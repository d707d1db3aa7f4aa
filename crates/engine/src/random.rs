//! Seeded numbers: the same seed gives the same numbers on every machine. Not for secrets.

/// What the state of a sequence grows by for each number (Steele, Lea and Flood, OOPSLA 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A `SplitMix64` sequence (Steele, Lea and Flood, OOPSLA 2014): one add and a few multiplications a number.
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
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`, which is above zero; the bias is below limit / 2^64.
    #[inline]
    pub const fn below(&mut self, limit: u32) -> u32 {
        below(self.next_u64(), limit)
    }
}

/// Numbers that depend on their place alone, and not on what was drawn before: a counter-based generator (Salmon, Moraes, Dror and
/// Shaw, SC 2011) that mixes key and counter as `SplitMix64` does. Each of its lanes is a sequence of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draws {
    keys: [u64; Self::LANES],
}

impl Draws {
    /// Numbers for each place.
    pub const LANES: usize = 4;

    /// The numbers of `seed`. Those of lane 0 are the sequence of [`Random::new`] with this seed, from place 0 on.
    pub const fn new(seed: u64) -> Self {
        Self {
            keys: [seed, Random::of_part(seed, 1).0, Random::of_part(seed, 2).0, Random::of_part(seed, 3).0],
        }
    }

    /// The number at `place` of a lane.
    #[inline]
    pub const fn at(&self, place: u64, lane: usize) -> u64 {
        mix(self.keys[lane].wrapping_add(place.wrapping_add(1).wrapping_mul(STEP)))
    }
}

/// Number `drawn` of 64 bits as one below `limit`, which is above zero; the bias is below limit / 2^64.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the product is below limit * 2^64")]
pub const fn below(drawn: u64, limit: u32) -> u32 {
    let product = drawn as u128 * limit as u128;
    (product >> 64) as u32
}

/// The finalizer of `SplitMix64`.
#[inline]
const fn mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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
    fn a_lane_of_draws_is_a_sequence_that_can_be_read_at_any_place() {
        let (draws, mut random) = (Draws::new(1_234_567), Random::new(1_234_567));
        let sequence: Vec<u64> = (0..100).map(|_| random.next_u64()).collect();
        for place in (0..100).rev() {
            assert_eq!(draws.at(place, 0), sequence[usize::try_from(place).unwrap()]);
        }
        let lanes: Vec<u64> = (0..Draws::LANES).map(|lane| draws.at(5, lane)).collect();
        assert!((1..Draws::LANES).all(|lane| !lanes[..lane].contains(&lanes[lane])), "{lanes:?}");
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
