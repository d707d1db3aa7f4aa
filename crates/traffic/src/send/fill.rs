//! Filling of the gaps between frames with gap frames, as far as the port has room; the rest is sent before the next
//! frame.

use std::collections::VecDeque;

use iolab_engine::{write_gap_frame, GapFrames};
use iolab_frame::FCS_BYTES;

/// Keeps a line full with gap frames.
#[derive(Debug)]
pub struct Filler {
    gaps: GapFrames,
    source: [u8; 6],
    /// Lengths of the gap frames to send before the next frame, with FCS.
    waiting: VecDeque<u32>,
    /// Number of gap frames sent.
    pub frames: u64,
}

impl Filler {
    /// Create a filler for gap frames with the source MAC address `source`.
    pub fn new(gaps: GapFrames, source: [u8; 6]) -> Self {
        Self { gaps, source, waiting: VecDeque::with_capacity(64), frames: 0 }
    }

    /// Add the gap after a frame of `frame_bytes` (with FCS).
    pub fn after(&mut self, frame_bytes: u32) {
        self.waiting.extend(self.gaps.after(frame_bytes));
    }

    /// Return the length of the next gap frame without FCS, or none if a frame may follow.
    pub fn next(&self) -> Option<usize> {
        self.waiting.front().map(|frame_bytes| (frame_bytes - u32::from(FCS_BYTES)) as usize)
    }

    /// Write the next gap frame to `buffer`.
    pub fn write(&mut self, buffer: &mut [u8]) {
        if let Some(frame_bytes) = self.waiting.pop_front() {
            write_gap_frame(self.source, frame_bytes, buffer);
            self.frames += 1;
        }
    }
}
