//! A FIFO queue before a line, and its limits.

use std::collections::VecDeque;

use super::Passing;
use crate::time::Nanos;

/// The limit of a queue. The frame in transmission does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Maximum number of frames.
    Frames(u64),
    /// Maximum number of bytes, with FCS.
    Bytes(u64),
    /// Maximum waiting time.
    Time(Nanos),
    /// No limit.
    None,
}

/// A FIFO queue of frames, each with a time.
#[derive(Debug, Default)]
pub struct Queue {
    frames: VecDeque<(Nanos, Passing)>,
    bytes: u64,
}

impl Queue {
    /// Append a frame.
    pub fn push(&mut self, at: Nanos, frame: Passing) {
        self.bytes += u64::from(frame.frame_bytes);
        self.frames.push_back((at, frame));
    }

    /// Return the first frame and its time.
    pub fn first(&self) -> Option<(Nanos, Passing)> {
        self.frames.front().copied()
    }

    /// Remove the first frame and return it with its time.
    pub fn pop(&mut self) -> Option<(Nanos, Passing)> {
        let first = self.frames.pop_front()?;
        self.bytes -= u64::from(first.1.frame_bytes);
        Some(first)
    }

    /// Remove the frames whose time is `now` or earlier.
    pub fn forget_until(&mut self, now: Nanos) {
        while self.first().is_some_and(|(at, _)| at <= now) {
            self.pop();
        }
    }

    /// Return the number of queued bytes, with FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Return the number of queued frames.
    pub fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Whether `limit` leaves room for a frame that would wait for `wait`.
    pub fn has_room(&self, limit: Limit, frame_bytes: u32, wait: Nanos) -> bool {
        match limit {
            // A frame that need not wait needs no room.
            _ if wait == Nanos::ZERO => true,
            Limit::Frames(most) => self.frames() < most,
            Limit::Bytes(most) => self.bytes + u64::from(frame_bytes) <= most,
            Limit::Time(most) => wait <= most,
            Limit::None => true,
        }
    }
}
