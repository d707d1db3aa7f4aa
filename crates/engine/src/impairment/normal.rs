//! Normally distributed integers from seeded random numbers, by a precomputed table of quantiles.

use std::sync::LazyLock;

/// Fixed-point representation of one standard deviation.
const ONE: i64 = 1 << 20;
/// Number of octaves (halvings of the probability) in the table; lower probabilities use its last value, 7 standard
/// deviations.
const OCTAVES: i32 = 40;
/// Number of table entries per octave.
const KNOTS: usize = 64;

/// Negative quantiles at the probabilities 2^-(k+1) (1 + i / KNOTS): entry i of octave k, followed by the first entry
/// of octave k - 1.
static TABLE: LazyLock<Box<[[i32; KNOTS + 1]]>> = LazyLock::new(|| {
    let knot = |octave: i32, knot: usize| {
        let p = 2f64.powi(-(octave + 1)) * (1.0 + knot as f64 / KNOTS as f64);
        #[expect(clippy::cast_possible_truncation, reason = "at most 8 times ONE")]
        let parts = (quantile(p) * ONE as f64).round() as i32;
        parts
    };
    (1..=OCTAVES).map(|octave| std::array::from_fn(|index| knot(octave, index))).collect()
});

/// Map the uniform 64-bit random number `drawn` to a normally distributed number with standard deviation `deviation`.
#[inline]
pub fn from_drawn(drawn: u64, deviation: u32) -> i64 {
    let (negative, tail) = (drawn >> 63 == 0, (drawn << 1) | 1);
    // The upper bits of a probability below one half: the octave, then the position in it.
    let octave = (tail.leading_zeros()).min(OCTAVES.unsigned_abs() - 1);
    let rest = tail << octave << 1;
    let (knot, part) = ((rest >> 58) as usize, i64::from(((rest >> 42) & 0xffff) as u32));
    let row = &TABLE[octave as usize];
    let (low, high) = (i64::from(row[knot]), i64::from(row[knot + 1]));
    let quantile = low + (((high - low) * part) >> 16);
    let value = (quantile * i64::from(deviation)) >> 20;
    if negative {
        value
    } else {
        -value
    }
}

/// Return the quantile of the standard normal distribution at `p`, at most one half (Acklam 2003, relative error
/// 1.2e-9).
fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let polynomial = |factors: &[f64], x: f64| factors.iter().fold(0.0, |sum, factor| sum * x + factor);
    if p < 0.024_25 {
        let q = (-2.0 * p.ln()).sqrt();
        return polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    }
    let q = p - 0.5;
    q * polynomial(&A, q * q) / (polynomial(&B, q * q) * q * q + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The approximation agrees with published quantiles in both of its ranges.
    #[test]
    fn normal_quantiles_agree_with_published_tables() {
        for (p, z) in
            [(0.5, 0.0), (0.25, -0.674_490), (0.025, -1.959_964), (0.001, -3.090_232), (1e-9, -5.997_807)]
        {
            assert!((quantile(p) - z).abs() < 2e-6, "{p}: {}", quantile(p));
        }
    }

    /// A million draws: mean, deviation and kurtosis within five standard errors, and tails with the expected
    /// frequency.
    #[test]
    fn normal_random_draws_have_a_normal_distribution() {
        let (mut random, count) = (Random::new(9), 1_000_000);
        let draws: Vec<f64> =
            (0..count).map(|_| from_drawn(random.next_u64(), 1_000_000) as f64 / 1e6).collect();
        let n = f64::from(count);
        let moment = |power: i32| draws.iter().map(|z| z.powi(power)).sum::<f64>() / n;
        assert!(moment(1).abs() < 5.0 / n.sqrt(), "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "variance {}", moment(2));
        assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n).sqrt(), "fourth moment {}", moment(4));
        for (z, p) in [(1.0, 0.158_655), (2.0, 0.022_750), (3.0, 0.001_350), (4.0, 3.167e-5)] {
            let beyond = draws.iter().filter(|draw| **draw > z).count() as f64;
            assert!((beyond - n * p).abs() < 5.0 * (n * p).sqrt(), "beyond {z}: {beyond}");
        }
    }
}
