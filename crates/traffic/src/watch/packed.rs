//! Individually stored windows, in base64 parts (RFC 4648) that fit into a message of the protocol.

use iolab_engine::Kept;
use iolab_protocol::watch::WatchPart;

/// Maximum length of a part before base64; a message has at most 16 MiB. A multiple of three, so that parts join
/// without padding (bytes).
const PART_BYTES: usize = 3 << 20;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Return the part of the windows that starts at `offset`.
pub fn part(kept: &Kept, offset: usize) -> WatchPart {
    let packed = kept.packed();
    let begin = offset.min(packed.len());
    let end = (begin + PART_BYTES).min(packed.len());
    WatchPart { packed: text(&packed[begin..end]), frame_bits: kept.frame_bits(), total_bytes: packed.len() }
}

/// Encode bytes as base64.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place)) & 0x3f;
            let known = place <= group.len();
            text.push(if known { char::from(ALPHABET[digit as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, 10.
    #[test]
    fn base64_matches_rfc_4648() {
        for (plain, written) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(text(plain.as_bytes()), written);
        }
        assert_eq!(text(&[0xff, 0xfe, 0xfd]), "//79");
    }
}
