//! Seeded random numbers: the same seed gives the same numbers on every machine. Not for cryptography.

/// Increment of the state for each number (Steele, Lea and Flood, OOPSLA 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A `SplitMix64` generator (Steele, Lea and Flood, OOPSLA 2014): one addition and a few multiplications per number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// Create a generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Create the generator of part `place` under a common seed; the generators of different parts are independent.
    pub const fn of_part(seed: u64, place: u64) -> Self {
        Self::new(Self::new(seed ^ Self::new(place).next_u64()).next_u64())
    }

    /// Return the next number.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Return a number below `limit`, which must be above zero; the bias is below limit / 2^64.
    #[inline]
    pub const fn below(&mut self, limit: u32) -> u32 {
        below(self.next_u64(), limit)
    }
}

/// Random numbers that depend only on their index, not on previous draws: a counter-based generator (Salmon, Moraes,
/// Dror and Shaw, SC 2011) that mixes key and counter like `SplitMix64`. Each lane is an independent sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draws {
    keys: [u64; Self::LANES],
}

impl Draws {
    /// Number of lanes: random numbers per index.
    pub const LANES: usize = 4;

    /// Create the random numbers of `seed`. Lane 0 is the sequence of [`Random::new`] with this seed, from index 0
    /// on.
    pub const fn new(seed: u64) -> Self {
        Self {
            keys: [seed, Random::of_part(seed, 1).0, Random::of_part(seed, 2).0, Random::of_part(seed, 3).0],
        }
    }

    /// Return the number at index `place` of a lane.
    #[inline]
    pub const fn at(&self, place: u64, lane: usize) -> u64 {
        mix(self.keys[lane].wrapping_add(place.wrapping_add(1).wrapping_mul(STEP)))
    }
}

/// Scale the 64-bit number `drawn` to below `limit`, which must be above zero; the bias is below limit / 2^64.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the product is below limit * 2^64")]
pub const fn below(drawn: u64, limit: u32) -> u32 {
    let product = drawn as u128 * limit as u128;
    (product >> 64) as u32
}

/// Apply the finalizer of `SplitMix64`.
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
    fn random_number_generator_reproduces_the_published_sequence() {
        let mut random = Random::new(1_234_567);
        let first = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn each_lane_of_draws_is_a_randomly_accessible_sequence() {
        let (draws, mut random) = (Draws::new(1_234_567), Random::new(1_234_567));
        let sequence: Vec<u64> = (0..100).map(|_| random.next_u64()).collect();
        for place in (0..100).rev() {
            assert_eq!(draws.at(place, 0), sequence[usize::try_from(place).unwrap()]);
        }
        let lanes: Vec<u64> = (0..Draws::LANES).map(|lane| draws.at(5, lane)).collect();
        assert!((1..Draws::LANES).all(|lane| !lanes[..lane].contains(&lanes[lane])), "{lanes:?}");
    }

    #[test]
    fn bounded_random_numbers_are_uniform() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_600..10_400).contains(count)), "{seen:?}");
    }
}
