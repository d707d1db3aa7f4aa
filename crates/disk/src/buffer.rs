//! Memory that reads and writes use: aligned for `O_DIRECT`, filled with what a profile asks for.

use crate::random::Random;
use crate::request::Data;

/// What every device's logical blocks divide, and every page.
const ALIGNMENT: usize = 4096;
/// Blocks of this size, or smaller ones of a smaller buffer, are never the same twice in incompressible data. (bytes)
const DISTINCT_BYTES: usize = 4096;

/// A buffer.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
    data: Data,
    round: u64,
}

impl Buffer {
    /// `length` bytes that count up and begin again after 255, or random ones.
    pub fn new(length: usize, data: Data) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        let mut this = Self { memory, begin, length, data, round: 0 };
        match data {
            Data::Defined => {
                for (byte, value) in this.bytes_mut().iter_mut().zip((0..=u8::MAX).cycle()) {
                    *byte = value;
                }
            }
            Data::Incompressible => {
                let mut random = Random::new(length as u64);
                for word in this.bytes_mut().chunks_mut(8) {
                    let bytes = random.next().to_ne_bytes();
                    word.copy_from_slice(&bytes[..word.len()]);
                }
            }
        }
        this
    }

    /// `length` zeros, or random bytes.
    pub fn zeroed(length: usize, data: Data) -> Self {
        let mut this = Self::new(length, data);
        if data == Data::Defined {
            this.bytes_mut().fill(0);
        }
        this
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.length]
    }

    /// The same, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }

    /// What to write next: where data is to be incompressible, every block of it is another than all before.
    pub fn next(&mut self) -> &[u8] {
        if self.data == Data::Incompressible {
            self.round += 1;
            let round = self.round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for block in self.bytes_mut().chunks_mut(DISTINCT_BYTES) {
                let stamp = round.to_ne_bytes();
                let room = block.len().min(stamp.len());
                block[..room].copy_from_slice(&stamp[..room]);
            }
        }
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn it_lies_where_direct_writes_may_begin() {
        let buffer = Buffer::new(512, Data::Defined);
        assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(buffer.bytes().len(), 512);
    }

    #[test]
    fn defined_data_counts_up_and_stays_the_same() {
        let mut buffer = Buffer::new(1024, Data::Defined);
        assert_eq!(&buffer.bytes()[254..258], [254, 255, 0, 1]);
        let first = buffer.next().to_vec();
        assert_eq!(buffer.next(), first);
    }

    #[test]
    fn no_two_blocks_of_incompressible_data_are_the_same() {
        let mut buffer = Buffer::new(3 * DISTINCT_BYTES, Data::Incompressible);
        let mut seen = HashSet::new();
        for _ in 0..4 {
            for block in buffer.next().to_vec().chunks(DISTINCT_BYTES) {
                assert!(seen.insert(block.to_vec()));
            }
        }
        assert_eq!(seen.len(), 12);
    }
}
