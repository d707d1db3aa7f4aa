//! A ring of the newest frames in memory of fixed size: new frames overwrite the oldest.

use std::collections::VecDeque;

use iolab_port::Way;

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept<'a> {
    /// First bytes of the frame, up to the capture length.
    pub bytes: &'a [u8],
    /// Original length (bytes).
    pub whole_bytes: usize,
    /// Direction of the frame.
    pub way: Way,
    /// Timestamp (ns, monotonic).
    pub stamp_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    begin: usize,
    length: usize,
    whole_bytes: usize,
    way: Way,
    stamp_ns: u64,
}

/// Memory of a frame's metadata (bytes).
const ENTRY_BYTES: usize = size_of::<Entry>();

/// A ring of the newest frames.
#[derive(Debug)]
pub struct FrameRing {
    bytes: Box<[u8]>,
    entries: VecDeque<Entry>,
    most_entries: usize,
    /// offset of the next frame
    free: usize,
    overwritten: u64,
}

impl FrameRing {
    /// Create a ring of `ring_bytes` in total, for frames truncated to `snap_bytes`.
    pub fn new(ring_bytes: usize, snap_bytes: usize) -> Self {
        // Reserve metadata for frames of 64 bytes, or of `snap_bytes` if that is less.
        let for_entries = ring_bytes * ENTRY_BYTES / (ENTRY_BYTES + snap_bytes.clamp(1, 64));
        let most_entries = (for_entries / ENTRY_BYTES).max(1);
        let bytes = vec![0; (ring_bytes - for_entries).max(snap_bytes)].into();
        Self { bytes, entries: VecDeque::new(), most_entries, free: 0, overwritten: 0 }
    }

    /// Store a frame; overwrite the oldest frames if necessary.
    pub fn keep(&mut self, frame: Kept<'_>) {
        let length = frame.bytes.len().min(self.bytes.len());
        let begin = self.place(length);
        self.bytes[begin..begin + length].copy_from_slice(&frame.bytes[..length]);
        self.free = begin + length;
        let Kept { whole_bytes, way, stamp_ns, .. } = frame;
        self.entries.push_back(Entry { begin, length, whole_bytes, way, stamp_ns });
    }

    /// Return all frames, oldest first.
    pub fn frames(&self) -> impl Iterator<Item = Kept<'_>> {
        self.entries.iter().map(|entry| Kept {
            bytes: &self.bytes[entry.begin..entry.begin + entry.length],
            whole_bytes: entry.whole_bytes,
            way: entry.way,
            stamp_ns: entry.stamp_ns,
        })
    }

    /// Return the number of overwritten frames.
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Return the offset of contiguous memory for a frame, after discarding the frames stored there.
    fn place(&mut self, length: usize) -> usize {
        if self.entries.len() >= self.most_entries {
            self.forget();
        }
        if self.free + length > self.bytes.len() {
            // Leave the rest of the memory unused and wrap around; frames stored in the rest are older than those at
            // the start.
            while self.entries.front().is_some_and(|oldest| oldest.begin >= self.free) {
                self.forget();
            }
            self.free = 0;
        }
        let end = self.free + length;
        while self
            .entries
            .front()
            .is_some_and(|oldest| self.free < oldest.begin + oldest.length && oldest.begin < end)
        {
            self.forget();
        }
        self.free
    }

    fn forget(&mut self) {
        self.overwritten += u64::from(self.entries.pop_front().is_some());
    }
}

#[cfg(test)]
mod tests {
    use iolab_engine::Random;

    use super::*;

    fn letter(number: usize) -> u8 {
        u8::try_from(number % 251).unwrap()
    }

    /// For any input the last frames are kept, whole and in order, and the overwritten frames are counted.
    #[test]
    fn capture_ring_keeps_the_newest_frames() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut draw = |most: u32| usize::try_from(random.below(most)).unwrap();
            let mut ring = FrameRing::new(300 + draw(5_700), 100);
            let lengths: Vec<_> = (0..draw(400)).map(|_| 1 + draw(99)).collect();
            for (number, &length) in lengths.iter().enumerate() {
                let bytes = vec![letter(number); length];
                ring.keep(Kept { bytes: &bytes, whole_bytes: number, way: Way::In, stamp_ns: number as u64 });
            }
            let kept: Vec<_> = ring.frames().collect();
            assert_eq!(kept.len() as u64 + ring.overwritten(), lengths.len() as u64);
            assert!(lengths.is_empty() || !kept.is_empty());
            for (frame, number) in kept.iter().rev().zip((0..lengths.len()).rev()) {
                assert_eq!((frame.whole_bytes, frame.stamp_ns), (number, number as u64));
                assert_eq!(frame.bytes, &vec![letter(number); lengths[number]][..]);
            }
        }
    }
}
