//! Frames on their way through a device: bytes and the time each leaves, first in, first out, in memory of a fixed size.

use std::collections::VecDeque;

use iolab_engine::Nanos;

/// One frame that is held.
#[derive(Debug, Clone, Copy)]
struct Entry {
    due: Nanos,
    begin: usize,
    length: usize,
}

/// Frames in the order in which they leave.
#[derive(Debug)]
pub struct Held {
    bytes: Box<[u8]>,
    entries: VecDeque<Entry>,
    most_frames: usize,
    /// where the next frame goes
    free: usize,
}

impl Held {
    /// Room for `most_frames` frames that have `most_bytes` together.
    pub fn new(most_frames: usize, most_bytes: usize) -> Self {
        // Pages of it exist only when they are used.
        let bytes = vec![0; most_bytes].into();
        Self { bytes, entries: VecDeque::with_capacity(most_frames), most_frames, free: 0 }
    }

    /// Hold a frame until `due`, which is no earlier than that of the frame before; false when there is no room.
    pub fn push(&mut self, due: Nanos, frame: &[u8]) -> bool {
        let length = frame.len();
        let Some(begin) = self.place(length).filter(|_| self.entries.len() < self.most_frames) else {
            return false;
        };
        self.bytes[begin..begin + length].copy_from_slice(frame);
        self.free = begin + length;
        self.entries.push_back(Entry { due, begin, length });
        true
    }

    /// When the first frame leaves.
    pub fn due(&self) -> Option<Nanos> {
        self.entries.front().map(|entry| entry.due)
    }

    /// How many of the first `most` frames are due at `now`.
    pub fn ready(&self, now: Nanos, most: usize) -> usize {
        self.entries.iter().take(most).take_while(|entry| entry.due <= now).count()
    }

    /// Frame `index` from the first.
    pub fn frame(&self, index: usize) -> &[u8] {
        let Entry { begin, length, .. } = self.entries[index];
        &self.bytes[begin..begin + length]
    }

    /// Forget the first `frames`.
    pub fn release(&mut self, frames: usize) {
        self.entries.drain(..frames);
    }

    /// Where a frame fits in one piece.
    fn place(&self, length: usize) -> Option<usize> {
        let end = self.bytes.len();
        let Some(first) = self.entries.front() else { return (length <= end).then_some(0) };
        if self.free > first.begin {
            if self.free + length <= end {
                return Some(self.free);
            }
            return (length <= first.begin).then_some(0);
        }
        // The newest lies before the oldest: full when they meet.
        (self.free + length <= first.begin).then_some(self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames come out as they went in, many times around the memory, and what does not fit is refused.
    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut held = Held::new(8, 1000);
        let (mut next_in, mut next_out, mut refused) = (0u8, 0u8, 0);
        for round in 0..2000usize {
            let frame = vec![next_in; 60 + 37 * round % 200];
            if held.push(Nanos(round as u64), &frame) {
                next_in = next_in.wrapping_add(1);
            } else {
                refused += 1;
            }
            if round % 3 == 0 {
                let ready = held.ready(Nanos(round as u64), 2);
                for index in 0..ready {
                    assert!(held.frame(index).iter().all(|&byte| byte == next_out));
                    next_out = next_out.wrapping_add(1);
                }
                held.release(ready);
            }
        }
        assert!(refused > 300 && held.due() > Some(Nanos(1980)), "{refused} {:?}", held.due());
    }

    /// Nothing is ready before its time.
    #[test]
    fn frames_wait_for_their_time() {
        let mut held = Held::new(4, 100);
        assert_eq!(held.due(), None);
        assert!(held.push(Nanos(10), &[1; 50]) && held.push(Nanos(20), &[2; 50]));
        assert!(!held.push(Nanos(30), &[3; 1]));
        assert_eq!((held.ready(Nanos(9), 4), held.ready(Nanos(10), 4), held.ready(Nanos(25), 4)), (0, 1, 2));
        held.release(1);
        assert!(held.push(Nanos(30), &[3; 50]));
        assert_eq!((held.frame(0), held.frame(1), held.due()), (&[2; 50][..], &[3; 50][..], Some(Nanos(20))));
    }
}
