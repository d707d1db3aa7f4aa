//! Frames held by a device or link: their bytes in memory of fixed size, and their departure times.

use std::collections::VecDeque;

use iolab_engine::impairment::{Marks, Passing, Timeline};
use iolab_engine::Nanos;

/// Page size of the kernel (bytes).
const PAGE_BYTES: usize = 4096;

/// Initial capacity for frame metadata; more frames allocate memory on arrival.
const AT_FIRST: usize = 1 << 18;

/// One held frame.
#[derive(Debug, Clone, Copy)]
struct Entry {
    begin: usize,
    length: usize,
    /// index of the segment in a super-frame held as one
    part: u32,
    /// whether the chain has not decided on the frame, and its number of pending departures
    undecided: bool,
    leaving: u32,
}

/// Held frames, numbered in arrival order from 0.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Box<[u8]>,
    entries: VecDeque<Entry>,
    most_frames: usize,
    /// number of the first entry
    first: u64,
    /// offset of the next frame
    free: usize,
    /// offset of the last returned vacancy
    vacant: usize,
    leaving: Timeline<Passing>,
    /// delay added to all departure times
    shift: Nanos,
}

impl Held {
    /// Create memory for `most_frames` frames with a total of `most_bytes`.
    pub fn new(most_frames: usize, most_bytes: usize) -> Self {
        // Pages are allocated only on first use.
        let (bytes, entries) =
            (vec![0; most_bytes].into(), VecDeque::with_capacity(most_frames.min(AT_FIRST)));
        let leaving = Timeline::with_capacity(most_frames.min(AT_FIRST));
        Self { bytes, entries, most_frames, first: 0, free: 0, vacant: 0, leaving, shift: Nanos::ZERO }
    }

    /// Touch all memory, so that no page fault occurs while frames are forwarded.
    pub fn prepare(&mut self) {
        self.bytes.chunks_mut(PAGE_BYTES).for_each(|page| page[0] = 1);
    }

    /// Store a frame and return its number; return none if there is no room.
    pub fn store(&mut self, frame: &[u8]) -> Option<u64> {
        self.vacancy(frame.len())?.copy_from_slice(frame);
        Some(self.keep(frame.len(), 1))
    }

    /// Return memory for the next frame, or none if there is no room.
    pub fn vacancy(&mut self, most_bytes: usize) -> Option<&mut [u8]> {
        self.vacant = self.place(most_bytes).filter(|_| self.entries.len() < self.most_frames)?;
        Some(&mut self.bytes[self.vacant..self.vacant + most_bytes])
    }

    /// Return the first bytes of the last vacancy.
    pub fn shown(&self, length: usize) -> &[u8] {
        &self.bytes[self.vacant..self.vacant + length]
    }

    /// Store the content of the last vacancy as `parts` frames with consecutive numbers; return the first number.
    pub fn keep(&mut self, length: usize, parts: u32) -> u64 {
        let (begin, number) = (self.vacant, self.first + self.entries.len() as u64);
        self.free = begin + length;
        let entry = |part| Entry { begin, length, part, undecided: true, leaving: 0 };
        self.entries.extend((0..parts).map(entry));
        number
    }

    /// Schedule a frame's departure; a copy has the number of its frame.
    pub fn leaves(&mut self, frame: Passing) {
        let entry = self.entry(frame.id);
        entry.undecided = false;
        entry.leaving += 1;
        self.leaving.insert(frame.at, frame);
    }

    /// Discard a lost frame.
    pub fn lost(&mut self, id: u64) {
        self.entry(id).undecided = false;
        self.forget();
    }

    /// Return the departure time of the first frame.
    pub fn due(&self) -> Option<Nanos> {
        self.leaving.due().map(|due| due.plus(self.shift))
    }

    /// Return the first departing frame among the decided ones, with its departure time.
    pub fn next(&self) -> Option<Passing> {
        self.leaving.get(0).map(|frame| frame.later(self.shift))
    }

    /// Delay all departures by `span`, including the departures of future frames.
    pub fn shift(&mut self, span: Nanos) {
        self.shift = self.shift.plus(span);
    }

    /// Return the total delay that `shift` has added.
    pub const fn shifted(&self) -> Nanos {
        self.shift
    }

    /// Return how many of the first `most` frames are due at `now`.
    pub fn ready(&self, now: Nanos, most: usize) -> usize {
        self.leaving.ready(now.since(self.shift)).take(most).count()
    }

    /// Return departing frame `index`, counted from the first, with its marks.
    pub fn frame(&self, index: usize) -> (&[u8], Passing) {
        let Some(&leaving) = self.leaving.get(index) else { unreachable!("a frame that is ready") };
        let Entry { begin, length, .. } = self.entries[self.index(leaving.id)];
        (&self.bytes[begin..begin + length], leaving.later(self.shift))
    }

    /// Return the segment index of departing frame `index` in the bytes of [`Held::frame`].
    pub fn part(&self, index: usize) -> u32 {
        self.leaving.get(index).map_or(0, |leaving| self.entries[self.index(leaving.id)].part)
    }

    /// Return the number of frames from `index`, before `end`, that are consecutive unmarked segments of one
    /// super-frame.
    pub fn run(&self, index: usize, end: usize) -> usize {
        let plain =
            |place: usize| self.leaving.get(place).filter(|leaving| leaving.marks == Marks::default());
        let Some(first) = plain(index) else { return 1 };
        let begin = self.entries[self.index(first.id)].begin;
        let follows = |&place: &usize| {
            plain(place).is_some_and(|next| {
                let entry = self.entries[self.index(next.id)];
                next.id == first.id + (place - index) as u64 && entry.begin == begin && entry.part > 0
            })
        };
        1 + (index + 1..end).take_while(follows).count()
    }

    /// Return the number of frames that are undecided or will depart.
    pub fn frames(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.leaving) + u64::from(entry.undecided)).sum()
    }

    /// Remove the first `frames` departing frames.
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

    /// Free the memory of departed frames, from the first on.
    fn forget(&mut self) {
        while self.entries.front().is_some_and(|entry| !entry.undecided && entry.leaving == 0) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// Return the offset of contiguous memory for a frame.
    fn place(&self, length: usize) -> Option<usize> {
        let end = self.bytes.len();
        let Some(first) = self.entries.front() else { return (length <= end).then_some(0) };
        if self.free > first.begin {
            if self.free + length <= end {
                return Some(self.free);
            }
            return (length <= first.begin).then_some(0);
        }
        // The ring has wrapped around: it is full when the newest frame meets the oldest.
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

    /// Frames are returned unchanged, over many turns of the memory, and a frame that does not fit is refused.
    #[test]
    fn held_frames_are_returned_unchanged() {
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

    /// No frame is ready before its time.
    #[test]
    fn held_frames_wait_for_their_time() {
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

    /// A frame that is overtaken keeps its memory, and the memory of the frames after it is released together with it.
    #[test]
    fn held_frames_leave_in_time_order() {
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

    /// Consecutive parts of one frame leave as one run, until one of them is changed.
    #[test]
    fn consecutive_unmarked_parts_leave_as_one_run() {
        let mut held = Held::new(16, 1000);
        held.vacancy(500).unwrap()[..300].fill(7);
        assert_eq!((held.keep(300, 4), held.keep(300, 2)), (0, 4));
        let leaving = |id| Passing::new(id, 104, Nanos(id));
        for id in [0, 1, 3, 4, 5] {
            held.leaves(leaving(id));
        }
        held.lost(2);
        assert_eq!([0, 2, 3].map(|index| held.run(index, 5)), [2, 1, 2]);
        assert_eq!([0, 1, 2, 3].map(|index| held.part(index)), [0, 1, 3, 0]);
        assert_eq!((held.run(0, 1), held.frames(), held.frame(1).0), (1, 5, &[7; 300][..]));
        let mut other = Held::new(4, 100);
        other.vacancy(50).unwrap();
        let first = other.keep(50, 2);
        let marks = Marks { congestion: true, ..Marks::default() };
        other.leaves(leaving(first));
        other.leaves(Passing { marks, ..leaving(first + 1) });
        assert_eq!(other.run(0, 2), 1, "the second has a mark");
    }
}
