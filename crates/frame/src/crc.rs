//! CRC-32C (Castagnoli), computed from tables for all bytes of a stamp in parallel. CRC-32C detects every error of up
//! to seven bits within the 112 bits of a stamp (Hamming distance 8 up to 177 bits: Koopman, DSN 2002).

const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;
/// The maximum number of bytes that one parallel lookup covers: the length of a stamp without its CRC.
pub(crate) const MOST_BYTES: usize = 14;
/// The CRC register for each byte value, followed by 0, 1, ... zero bytes: one table per number of zero bytes.
static TABLES: [[u32; 256]; MOST_BYTES] = tables();

/// Compute the CRC-32C of `bytes` as defined for iSCSI (RFC 3720).
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |register, &byte| step(register, byte))
}

/// Return the XOR contribution of `bytes`, followed by `after` more bytes, to the CRC register. A CRC is linear: the
/// contributions of the bytes are independent and can be looked up in parallel.
#[inline]
pub(crate) fn share<const N: usize>(bytes: [u8; N], after: usize) -> u32 {
    (0..N).fold(0, |register, i| register ^ TABLES[after + N - 1 - i][usize::from(bytes[i])])
}

/// Return the CRC register `start` after [`MOST_BYTES`] zero bytes.
pub(crate) const fn after_zeros(start: u32) -> u32 {
    let (mut register, mut zeros) = (start, 0);
    while zeros < MOST_BYTES {
        register = step(register, 0);
        zeros += 1;
    }
    register
}

/// Return the CRC register after one more byte, `byte`.
pub(crate) const fn step(register: u32, byte: u8) -> u32 {
    (register >> 8) ^ TABLES[0][((register ^ byte as u32) & 0xff) as usize]
}

const fn tables() -> [[u32; 256]; MOST_BYTES] {
    let mut tables = [[0u32; 256]; MOST_BYTES];
    let mut byte: u32 = 0;
    while byte < 256 {
        let mut register = byte;
        let mut bit = 0;
        while bit < 8 {
            register = if register & 1 == 1 { (register >> 1) ^ POLYNOMIAL_REFLECTED } else { register >> 1 };
            bit += 1;
        }
        tables[0][byte as usize] = register;
        byte += 1;
    }
    let mut table = 1;
    while table < MOST_BYTES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_matches_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn crc32c_matches_the_vectors_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    #[test]
    fn crc_of_fourteen_bytes_at_once_equals_fourteen_single_byte_steps() {
        for seed in 0..=255u8 {
            let bytes: [u8; 14] = std::array::from_fn(|i| TABLES[0][usize::from(seed) ^ i].to_le_bytes()[0]);
            let slow = bytes.iter().fold(0x1234_5678, |register, &byte| step(register, byte));
            let [a, b, c, d, rest @ ..] = bytes;
            let at_once = after_zeros(0x1234_5678) ^ share([a, b, c, d], 10) ^ share(rest, 0);
            assert_eq!(at_once, slow);
        }
    }
}
