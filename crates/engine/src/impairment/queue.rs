//! Room before a line: how much waits, and how much may.

use std::collections::VecDeque;

use super::Passing;
use crate::time::Nanos;

/// How much may wait. The frame on the line does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many frames.
    Frames(u64),
    /// So many bytes, with FCS.
    Bytes(u64),
    /// As much as waits no longer than this.
    Time(Nanos),
    /// As much as comes.
    None,
}

/// Frames that wait in order, each with a time.
#[derive(Debug, Default)]
pub struct Queue {
    frames: VecDeque<(Nanos, Passing)>,
    bytes: u64,
}

impl Queue {
    /// A frame joins at the end.
    pub fn push(&mut self, at: Nanos, frame: Passing) {
        self.bytes += u64::from(frame.frame_bytes);
        self.frames.push_back((at, frame));
    }

    /// The first frame and its time.
    pub fn first(&self) -> Option<(Nanos, Passing)> {
        self.frames.front().copied()
    }

    /// Take the first frame out.
    pub fn pop(&mut self) -> Option<(Nanos, Passing)> {
        let first = self.frames.pop_front()?;
        self.bytes -= u64::from(first.1.frame_bytes);
        Some(first)
    }

    /// Take the frames out whose time has come.
    pub fn forget_until(&mut self, now: Nanos) {
        while self.first().is_some_and(|(at, _)| at <= now) {
            self.pop();
        }
    }

    /// What waits (bytes, with FCS).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What waits.
    pub fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Whether `limit` leaves room for a frame that would wait for `wait`.
    pub fn has_room(&self, limit: Limit, frame_bytes: u32, wait: Nanos) -> bool {
        match limit {
            // What need not wait needs no room.
            _ if wait == Nanos::ZERO => true,
            Limit::Frames(most) => self.frames() < most,
            Limit::Bytes(most) => self.bytes + u64::from(frame_bytes) <= most,
            Limit::Time(most) => wait <= most,
            Limit::None => true,
        }
    }
}
