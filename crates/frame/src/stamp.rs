//! The measurement stamp: the first 18 bytes of the payload of every engine frame with room for a stamp.
//!
//! | bytes | bits    | field | meaning |
//! |-------|---------|-------|---------|
//! | 0-1   | 0-15    | tag   | trial and direction of the frame; each has a separate tag |
//! | 2-4   | 16-35   | flow  | flow number, 0 to 2^20 - 1 |
//! | 4-8   | 36-71   | sequence | frame number within the flow, from 0; wraps after 76 minutes at 14.88 Mpps |
//! | 9-13  | 72-111  | time  | transmit time modulo 2^40 ns; unambiguous for latencies from -9.1 to +9.1 minutes |
//! | 14-17 | 112-143 | CRC   | CRC-32C over the four bytes `iolb` (not sent) and bytes 0-13 |
//!
//! All fields are in network byte order, most significant bit first; no bit is unused. Ethernet (14), IPv4 (20), UDP
//! (8), the stamp (18) and the FCS (4) add up to 64 bytes, the minimum Ethernet frame size. Each VLAN tag adds 4
//! bytes and IPv6 adds 20, so the minimum stamped frame size is 68 B with one tag, 72 B with two, and 84, 88 and 92 B
//! over IPv6.
//!
//! The CRC starts with a magic number that is not sent: a foreign frame passes the CRC with a probability of 2^-32, and
//! in addition has the tag of this trial with a probability of 2^-16. The CRC detects every corruption of up to seven
//! bits within the stamp.

use crate::checksum::OnesComplementSum;
use crate::crc::{after_zeros, share, step};
use crate::error::WireError;
use crate::length::room;

/// Length of a stamp (bytes).
pub const STAMP_BYTES: usize = 18;
/// Period after which the transmit time in a stamp wraps to 0 (ns).
pub const TX_TIME_WRAP_NS: u64 = 1 << 40;

const MAGIC: [u8; 4] = *b"iolb";
const START: u32 = {
    let register = step(step(!0, MAGIC[0]), MAGIC[1]);
    after_zeros(step(step(register, MAGIC[2]), MAGIC[3]))
};
const LOW_40: u64 = TX_TIME_WRAP_NS - 1;
const SEQUENCE_BITS: u32 = 36;
const LOW_36: u64 = (1 << SEQUENCE_BITS) - 1;

/// The decoded fields of a measurement stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Tag that identifies the trial and the direction of the frame.
    pub tag: u16,
    /// Flow number; the low 20 bits are sent.
    pub flow: u32,
    /// Frame number within the flow; the low 36 bits are sent.
    pub sequence: u64,
    /// Transmit time on the sender's monotonic clock; the low 40 bits are sent (ns).
    pub tx_time_ns: u64,
}

impl Stamp {
    /// Encode the stamp.
    #[inline]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        StampFront::new(self.tag, self.flow).complete(self.sequence, self.tx_time_ns).to_bytes()
    }

    /// Decode the stamp at the start of `payload`; return none if the CRC is wrong.
    #[inline]
    pub fn from_bytes(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<STAMP_BYTES>()?;
        let &[a, b, c, d, rest @ ..] = bytes;
        let [e, f, g, h, i, j, k, l, m, n, crc @ ..] = rest;
        let register = START ^ share([a, b, c, d], 10) ^ share([e, f, g, h, i, j, k, l, m, n], 0);
        (!register == u32::from_be_bytes(crc)).then(|| Self {
            tag: u16::from_be_bytes([a, b]),
            flow: u32::from_be_bytes([0, c, d, e]) >> 4,
            sequence: u64::from_be_bytes([0, c, d, e, f, g, h, i]) & LOW_36,
            tx_time_ns: u64::from_be_bytes([0, 0, 0, j, k, l, m, n]),
        })
    }

    /// Write the stamp to the start of `payload` and return its length (bytes).
    pub fn emit(self, payload: &mut [u8]) -> Result<usize, WireError> {
        *room("stamp", payload)? = self.to_bytes();
        Ok(STAMP_BYTES)
    }
}

/// The part of a stamp that is constant for a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampFront {
    /// Tag and flow number, without the low four bits of the flow number, which share a byte with the sequence
    /// number.
    word: u32,
    /// Low four bits of the flow number, at their position in the following 40 bits.
    flow_bits: u64,
    /// CRC register without the contributions of `flow_bits`, sequence number and time.
    register: u32,
}

impl StampFront {
    #[inline]
    pub(crate) fn new(tag: u16, flow: u32) -> Self {
        let word = u32::from(tag) << 16 | (flow >> 4) & 0xffff;
        let flow_bits = u64::from(flow & 0xf) << SEQUENCE_BITS;
        Self { word, flow_bits, register: START ^ share(word.to_be_bytes(), 10) }
    }

    /// Return the complete stamp of one frame.
    #[inline]
    pub(crate) fn complete(self, sequence: u64, tx_time_ns: u64) -> StampWords {
        let [_, _, _, e, f, g, h, i] = (self.flow_bits | sequence & LOW_36).to_be_bytes();
        let [_, _, _, j, k, l, m, n] = tx_time_ns.to_be_bytes();
        let crc = !(self.register ^ share([e, f, g, h, i, j, k, l, m, n], 0));
        let front = u64::from(self.word) << 32 | u64::from(u32::from_be_bytes([e, f, g, h]));
        let middle = u64::from(i) << 56 | (tx_time_ns & LOW_40) << 16 | u64::from(crc >> 16);
        StampWords { front, middle, back: (crc & 0xffff) as u16 }
    }
}

/// The bytes of a stamp as big-endian integers, which are summed and written without access to memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampWords {
    front: u64,
    middle: u64,
    back: u16,
}

impl StampWords {
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.front.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.middle.to_be_bytes());
        bytes[16..].copy_from_slice(&self.back.to_be_bytes());
        bytes
    }

    /// Add the stamp to `sum`.
    #[inline]
    pub(crate) const fn add_to(self, sum: OnesComplementSum) -> OnesComplementSum {
        sum.add_long(self.front).add_long(self.middle).add_word(self.back)
    }
}

/// Return the latency from a stamp's `tx_time_ns` (its low 40 bits) to `rx_time_ns` on the same clock (ns).
///
/// The result is correct between -2^39 and 2^39 ns (9.1 minutes); it is negative if the receiver's clock is behind.
#[inline]
pub const fn latency_ns(tx_time_ns: u64, rx_time_ns: u64) -> i64 {
    (rx_time_ns.wrapping_sub(tx_time_ns) << 24) as i64 >> 24
}

/// Return the tag field at the start of `payload`, without a check of the CRC.
pub(crate) fn written_tag(payload: &[u8]) -> Option<u16> {
    payload.first_chunk::<2>().map(|&bytes| u16::from_be_bytes(bytes))
}

/// Whether `payload` starts with a stamp in which only the tag is corrupted and the original tag was `tag`.
pub(crate) fn only_tag_is_damaged(payload: &[u8], tag: u16) -> bool {
    payload.first_chunk::<STAMP_BYTES>().is_some_and(|bytes| {
        let mut mended = *bytes;
        mended[..2].copy_from_slice(&tag.to_be_bytes());
        Stamp::from_bytes(&mended).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc::crc32c;

    const STAMP: Stamp =
        Stamp { tag: 0xa55a, flow: 0x1_2345, sequence: 0x6_789a_bcde, tx_time_ns: 0xf0_1122_3344 };

    #[test]
    fn every_stamp_field_is_at_its_documented_offset() {
        let bytes = STAMP.to_bytes();
        assert_eq!(
            bytes[..14],
            [0xa5, 0x5a, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11, 0x22, 0x33, 0x44]
        );
        let mut covered = b"iolb".to_vec();
        covered.extend(&bytes[..14]);
        assert_eq!(bytes[14..], crc32c(&covered).to_be_bytes());
        assert_eq!(Stamp::from_bytes(&bytes), Some(STAMP));
    }

    #[test]
    fn every_one_or_two_bit_error_is_detected() {
        let flip = |bytes: &mut [u8; STAMP_BYTES], bit: usize| bytes[bit / 8] ^= 0x80 >> (bit % 8);
        for first in 0..STAMP_BYTES * 8 {
            for second in first..STAMP_BYTES * 8 {
                let mut bytes = STAMP.to_bytes();
                flip(&mut bytes, first);
                if second != first {
                    flip(&mut bytes, second);
                }
                assert_eq!(Stamp::from_bytes(&bytes), None, "bits {first} and {second}");
            }
        }
    }

    #[test]
    fn constant_bytes_or_too_few_bytes_are_not_a_stamp() {
        for byte in 0..=255 {
            assert_eq!(Stamp::from_bytes(&[byte; STAMP_BYTES]), None);
        }
        assert_eq!(Stamp::from_bytes(&STAMP.to_bytes()[..17]), None);
    }

    #[test]
    fn latency_is_correct_across_the_timestamp_wrap_and_below_zero() {
        let sent = 5 * TX_TIME_WRAP_NS - 10;
        assert_eq!(latency_ns(sent & LOW_40, sent + 25), 25);
        assert_eq!(latency_ns(sent & LOW_40, sent - 25), -25);
        assert_eq!(latency_ns(sent & LOW_40, sent + (1 << 39) - 1), (1 << 39) - 1);
        assert_eq!(latency_ns(7, 7), 0);
    }
}
