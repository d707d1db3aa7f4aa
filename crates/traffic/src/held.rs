//! Frames on their way through a device: their bytes in memory of a fixed size, and the time at which each leaves.

use std::collections::VecDeque;

use iolab_engine::impairment::{Passing, Timeline};
use iolab_engine::Nanos;

/// One frame that is held.
#[derive(Debug, Clone, Copy)]
struct Entry {
    begin: usize,
    length: usize,
    /// whether the chain may still say something of it, and how many times it is to leave
    undecided: bool,
    leaving: u32,
}

/// Frames by the numbers that they get as they come, from 0 on.
#[derive(Debug)]
pub struct Held {
    bytes: Box<[u8]>,
    entries: VecDeque<Entry>,
    most_frames: usize,
    /// the number of the first entry
    first: u64,
    /// where the next frame goes
    free: usize,
    leaving: Timeline<Passing>,
}

impl Held {
    /// Room for `most_frames` frames that have `most_bytes` together.
    pub fn new(most_frames: usize, most_bytes: usize) -> Self {
        // Pages of it exist only when they are used.
        let (bytes, entries) = (vec![0; most_bytes].into(), VecDeque::with_capacity(most_frames));
        let leaving = Timeline::with_capacity(most_frames);
        Self { bytes, entries, most_frames, first: 0, free: 0, leaving }
    }

    /// Hold a frame; its number, or none when there is no room.
    pub fn store(&mut self, frame: &[u8]) -> Option<u64> {
        let length = frame.len();
        let begin = self.place(length).filter(|_| self.entries.len() < self.most_frames)?;
        self.bytes[begin..begin + length].copy_from_slice(frame);
        self.free = begin + length;
        self.entries.push_back(Entry { begin, length, undecided: true, leaving: 0 });
        Some(self.first + self.entries.len() as u64 - 1)
    }

    /// A frame leaves at its time; a copy of it has the same number.
    pub fn leaves(&mut self, frame: Passing) {
        let entry = self.entry(frame.id);
        entry.undecided = false;
        entry.leaving += 1;
        self.leaving.insert(frame.at, frame);
    }

    /// A frame is lost.
    pub fn lost(&mut self, id: u64) {
        self.entry(id).undecided = false;
        self.forget();
    }

    /// When the first frame leaves.
    pub fn due(&self) -> Option<Nanos> {
        self.leaving.due()
    }

    /// How many of the first `most` frames are due at `now`.
    pub fn ready(&self, now: Nanos, most: usize) -> usize {
        self.leaving.ready(now).take(most).count()
    }

    /// Frame `index` of those that leave, from the first, and what is to be done to it.
    pub fn frame(&self, index: usize) -> (&[u8], Passing) {
        let Some(&leaving) = self.leaving.get(index) else { unreachable!("a frame that is ready") };
        let Entry { begin, length, .. } = self.entries[self.index(leaving.id)];
        (&self.bytes[begin..begin + length], leaving)
    }

    /// Forget the first `frames` of those that leave.
    pub fn release(&mut self, frames: usize) {
        for _ in 0..frames {
            if let Some((_, frame)) = self.leaving.pop(Nanos::MAX) {
                self.entry(frame.id).leaving -= 1;
            }
        }
        self.forget();
    }

    fn index(&self, id: u64) -> usize {
        usize::try_from(id - self.first).unwrap_or(usize::MAX)
    }

    fn entry(&mut self, id: u64) -> &mut Entry {
        let index = self.index(id);
        &mut self.entries[index]
    }

    /// Give the memory of frames back that are all gone, from the first on.
    fn forget(&mut self) {
        while self.entries.front().is_some_and(|entry| !entry.undecided && entry.leaving == 0) {
            self.entries.pop_front();
            self.first += 1;
        }
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

    fn hold(held: &mut Held, at: u64, frame: &[u8]) -> bool {
        let stored = held.store(frame);
        stored.map(|id| held.leaves(Passing::new(id, 64, Nanos(at)))).is_some()
    }

    /// Frames come out as they went in, many times around the memory, and what does not fit is refused.
    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut held = Held::new(8, 1000);
        let (mut next_in, mut next_out, mut refused) = (0u8, 0u8, 0);
        for round in 0..2000usize {
            let frame = vec![next_in; 60 + 37 * round % 200];
            if hold(&mut held, round as u64, &frame) {
                next_in = next_in.wrapping_add(1);
            } else {
                refused += 1;
            }
            if round % 3 == 0 {
                let ready = held.ready(Nanos(round as u64), 2);
                for index in 0..ready {
                    assert!(held.frame(index).0.iter().all(|&byte| byte == next_out));
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
        assert!(hold(&mut held, 10, &[1; 50]) && hold(&mut held, 20, &[2; 50]));
        assert!(!hold(&mut held, 30, &[3; 1]));
        assert_eq!((held.ready(Nanos(9), 4), held.ready(Nanos(10), 4), held.ready(Nanos(25), 4)), (0, 1, 2));
        held.release(1);
        assert!(hold(&mut held, 30, &[3; 50]));
        assert_eq!((held.frame(0).0, held.frame(1).0), (&[2; 50][..], &[3; 50][..]));
        assert_eq!(held.due(), Some(Nanos(20)));
    }

    /// A frame that is overtaken keeps its memory, and that of those behind it is given back with it.
    #[test]
    fn frames_leave_in_the_order_of_their_times() {
        let mut held = Held::new(3, 300);
        for (at, byte) in [(50, 1), (20, 2)] {
            assert!(hold(&mut held, at, &[byte; 100]));
        }
        let lost = held.store(&[3; 100]).unwrap();
        held.lost(lost);
        assert!(held.store(&[4; 1]).is_none());
        assert_eq!(held.frame(0).0[0], 2);
        held.release(1);
        assert!(held.store(&[4; 1]).is_none(), "the first frame is still there");
        held.release(1);
        assert!(held.store(&[4; 100]).is_some());
    }
}
