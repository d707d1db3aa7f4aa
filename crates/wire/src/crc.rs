//! CRC-32C (Castagnoli), by table, eight bytes at a step. Chosen because within the 112 bits of a stamp it finds
//! every error of up to seven bits (Hamming distance 8 up to 177 bits: Koopman, DSN 2002).

const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;
static TABLES: [[u32; 256]; 8] = tables();

/// The CRC-32C of `bytes`, as iSCSI (RFC 3720) computes it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |register, &byte| step(register, byte))
}

/// The register after the 14 bytes `head` and `tail`, from the register `start`; not complemented.
#[inline]
pub(crate) fn register_of_14(start: u32, head: [u8; 8], tail: [u8; 6]) -> u32 {
    let low = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) ^ start;
    let [a, b, c, d] = low.to_le_bytes();
    let register = at(7, a)
        ^ at(6, b)
        ^ at(5, c)
        ^ at(4, d)
        ^ at(3, head[4])
        ^ at(2, head[5])
        ^ at(1, head[6])
        ^ at(0, head[7]);
    let low = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]) ^ register;
    let [a, b, c, d] = low.to_le_bytes();
    at(5, a) ^ at(4, b) ^ at(3, c) ^ at(2, d) ^ at(1, tail[4]) ^ at(0, tail[5])
}

/// The register after `byte`.
pub(crate) const fn step(register: u32, byte: u8) -> u32 {
    (register >> 8) ^ TABLES[0][((register ^ byte as u32) & 0xff) as usize]
}

#[inline]
fn at(table: usize, byte: u8) -> u32 {
    TABLES[table][usize::from(byte)]
}

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
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
    while table < 8 {
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
    fn the_published_check_value_comes_out() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn the_vectors_of_rfc_3720_appendix_b4_come_out() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    #[test]
    fn fourteen_bytes_at_once_are_fourteen_steps() {
        for seed in 0..=255u8 {
            let bytes: [u8; 14] = std::array::from_fn(|i| TABLES[0][usize::from(seed) ^ i].to_le_bytes()[0]);
            let slow = bytes.iter().fold(0x1234_5678, |register, &byte| step(register, byte));
            let head = bytes[..8].try_into().expect("eight bytes");
            let tail = bytes[8..].try_into().expect("six bytes");
            assert_eq!(register_of_14(0x1234_5678, head, tail), slow);
        }
    }
}
