//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// A running ones' complement sum of 16-bit words in network byte order.
///
/// The sum does not overflow for up to 2^48 bytes: the words are added in 64 bits and folded at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnesComplementSum(u64);

impl OnesComplementSum {
    /// Return an empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Add one 16-bit word.
    #[must_use]
    #[inline]
    pub const fn add_word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Add the four 16-bit words of `long`.
    #[must_use]
    #[inline]
    pub const fn add_long(self, long: u64) -> Self {
        // Both 32-bit halves are added as numbers; `fold` later adds the upper 16 bits of the sum to the lower ones.
        Self(self.0 + (long >> 32) + (long & 0xffff_ffff))
    }

    /// Add bytes that start at an even offset of the checksummed data; pad an odd last byte with zero.
    #[must_use]
    #[inline]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        // RFC 1071 2(B): a sum in host byte order is correct after one byte swap at the end.
        let mut chunks = bytes.chunks_exact(4);
        let mut native: u64 = 0;
        for chunk in &mut chunks {
            native += u64::from(u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
        }
        let mut tail = [0u8; 4];
        let rest = chunks.remainder();
        tail[..rest.len()].copy_from_slice(rest);
        native += u64::from(u32::from_ne_bytes(tail));
        Self(self.0 + u64::from(u16::from_be(fold(native))))
    }

    /// Return the sum folded to 16 bits, not complemented.
    #[inline]
    pub const fn folded(self) -> u16 {
        fold(self.0)
    }

    /// Return the checksum: the complement of the folded sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !fold(self.0)
    }
}

/// Return the updated checksum after one 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub const fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

#[inline]
const fn fold(sum: u64) -> u16 {
    // A number plus a copy of itself with swapped halves has the sum of both halves, carry included, in its upper
    // half.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += (u32::from(pair[0]) << 8) + pair.get(1).map_or(0, |&low| u32::from(low));
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
        u16::try_from(sum).expect("folded at each step")
    }

    #[test]
    fn checksum_matches_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(OnesComplementSum::new().add_bytes(&bytes).folded(), 0xddf2);
        assert_eq!(OnesComplementSum::new().add_bytes(&bytes).checksum(), !0xddf2);
    }

    #[test]
    fn sum_of_any_length_equals_the_word_by_word_sum() {
        let bytes: Vec<u8> = (0..200u8).map(|i| i.wrapping_mul(197).wrapping_add(91)).collect();
        for length in 0..bytes.len() {
            assert_eq!(
                OnesComplementSum::new().add_bytes(&bytes[..length]).folded(),
                plain(&bytes[..length])
            );
        }
    }

    #[test]
    fn checksum_update_matches_the_zero_case_of_rfc_1624() {
        assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn updated_checksum_equals_a_recomputed_one() {
        let mut bytes = *b"\x45\x00\x00\x2e\x00\x00\x40\x00\x40\x11\x00\x00";
        let before = OnesComplementSum::new().add_bytes(&bytes).checksum();
        bytes[8] = 0x3f;
        let after = OnesComplementSum::new().add_bytes(&bytes).checksum();
        assert_eq!(update_checksum(before, 0x4011, 0x3f11), after);
    }
}
