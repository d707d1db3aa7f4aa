//! Buffers for reads and writes: aligned for `O_DIRECT`, with the requested content.

use crate::random::Random;
use crate::request::Data;

/// Alignment in bytes: a multiple of the logical block size of all devices, and of the page size.
const ALIGNMENT: usize = 4096;
/// Size of the blocks of incompressible data, each of which differs from all other blocks, in bytes; a smaller buffer
/// is one block.
const DISTINCT_BYTES: usize = 4096;

/// An aligned buffer.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
    data: Data,
    round: u64,
}

impl Buffer {
    /// Create a buffer of `length` bytes: a sequence that counts from 0 to 255 repeatedly, or random bytes
    /// for incompressible data.
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

    /// Create a buffer of `length` zeros, or of random bytes for incompressible data.
    pub fn zeroed(length: usize, data: Data) -> Self {
        let mut this = Self::new(length, data);
        if data == Data::Defined {
            this.bytes_mut().fill(0);
        }
        this
    }

    /// Return the content of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.length]
    }

    /// Return the content of the buffer as mutable bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }

    /// Return the content for the next write. For incompressible data, each block differs from all previous
    /// blocks.
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
    fn buffer_is_aligned_for_direct_io() {
        let buffer = Buffer::new(512, Data::Defined);
        assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(buffer.bytes().len(), 512);
    }

    #[test]
    fn buffer_with_defined_data_counts_up_and_is_the_same_for_every_write() {
        let mut buffer = Buffer::new(1024, Data::Defined);
        assert_eq!(&buffer.bytes()[254..258], [254, 255, 0, 1]);
        let first = buffer.next().to_vec();
        assert_eq!(buffer.next(), first);
    }

    #[test]
    fn incompressible_blocks_are_all_different() {
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
