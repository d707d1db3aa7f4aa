//! Fills the gaps between frames with gap frames, as far as a port has room; the rest follows before the next frame.

use std::collections::VecDeque;

use iolab_engine::{write_gap_frame, GapFrames};
use iolab_frame::FCS_BYTES;

/// Keeps a line full.
#[derive(Debug)]
pub struct Filler {
    gaps: GapFrames,
    source: [u8; 6],
    /// Lengths of gap frames that belong before the next frame, with FCS.
    waiting: VecDeque<u32>,
    /// Gap frames handed over.
    pub frames: u64,
}

impl Filler {
    /// One whose gap frames come from `source`.
    pub fn new(gaps: GapFrames, source: [u8; 6]) -> Self {
        Self { gaps, source, waiting: VecDeque::with_capacity(64), frames: 0 }
    }

    /// A frame of `frame_bytes` with FCS was handed over.
    pub fn after(&mut self, frame_bytes: u32) {
        self.waiting.extend(self.gaps.after(frame_bytes));
    }

    /// The length without FCS of the gap frame that is to be written next; none when a frame may follow.
    pub fn next(&self) -> Option<usize> {
        self.waiting.front().map(|frame_bytes| (frame_bytes - u32::from(FCS_BYTES)) as usize)
    }

    /// Write it.
    pub fn write(&mut self, buffer: &mut [u8]) {
        if let Some(frame_bytes) = self.waiting.pop_front() {
            write_gap_frame(self.source, frame_bytes, buffer);
            self.frames += 1;
        }
    }
}
