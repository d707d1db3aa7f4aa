//! A port wrapper that passes every frame of a port to an observer: counters, or a capture file. The wrapper does not
//! change the frames.

use iolab_sys::clock;

use crate::error::PortError;
use crate::port::{Path, RxFrame, RxPort, RxStats, TxPort, TxStats};

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Received.
    In,
    /// Committed for sending.
    Out,
}

/// An observer of frames. The observer must not block.
pub trait Observe: Send {
    /// Process one frame with its `CLOCK_MONOTONIC` time of arrival or commit (ns).
    fn frame(&mut self, way: Way, bytes: &[u8], stamp_ns: u64);
}

/// A port with an observer, which processes frames in the order in which they are received or committed.
#[derive(Debug)]
pub struct Observed<P, O> {
    port: P,
    observer: O,
    lengths: Vec<usize>,
}

impl<P, O: Observe> Observed<P, O> {
    /// Attach an observer to a port.
    pub fn new(port: P, observer: O) -> Self {
        Self { port, observer, lengths: Vec::new() }
    }

    /// Return the observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Return the port and the observer.
    pub fn into_parts(self) -> (P, O) {
        (self.port, self.observer)
    }
}

impl<P: TxPort, O: Observe> TxPort for Observed<P, O> {
    fn path(&self) -> &Path {
        self.port.path()
    }

    fn most_bytes(&self) -> usize {
        self.port.most_bytes()
    }

    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        self.port.prime(fill);
    }

    fn claim(&mut self, frames: usize) -> usize {
        let granted = self.port.claim(frames);
        // The vector grows once, to the largest batch.
        self.lengths.clear();
        self.lengths.resize(granted, 0);
        granted
    }

    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        self.lengths[index] = frame_bytes;
        self.port.slot(index, frame_bytes)
    }

    fn publish(&mut self, frames: usize) {
        if frames > 0 {
            let now_ns = clock::now_ns();
            for (index, &frame_bytes) in self.lengths.iter().enumerate().take(frames) {
                self.observer.frame(Way::Out, self.port.slot(index, frame_bytes), now_ns);
            }
        }
        self.lengths.clear();
        self.port.publish(frames);
    }

    fn call_frames(&self) -> usize {
        self.port.call_frames()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }

    fn stats(&mut self) -> Result<TxStats, PortError> {
        self.port.stats()
    }
}

impl<P: RxPort, O: Observe> RxPort for Observed<P, O> {
    fn path(&self) -> &Path {
        self.port.path()
    }

    fn poll(&mut self, frames: usize) -> Result<usize, PortError> {
        let arrived = self.port.poll(frames)?;
        for index in 0..arrived {
            let frame = self.port.frame(index);
            self.observer.frame(Way::In, frame.bytes, frame.stamp_ns);
        }
        Ok(arrived)
    }

    fn frame(&self, index: usize) -> RxFrame<'_> {
        self.port.frame(index)
    }

    fn release(&mut self) {
        self.port.release();
    }

    fn wait(&mut self, timeout_ms: i32) -> Result<bool, PortError> {
        self.port.wait(timeout_ms)
    }

    fn stats(&mut self) -> Result<RxStats, PortError> {
        self.port.stats()
    }
}

/// Counters of frames and bytes per direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received frames.
    pub in_frames: u64,
    /// Received bytes, without FCS.
    pub in_bytes: u64,
    /// Committed frames.
    pub out_frames: u64,
    /// Committed bytes, without FCS.
    pub out_bytes: u64,
}

impl Observe for Counts {
    fn frame(&mut self, way: Way, bytes: &[u8], _: u64) {
        let (frames, total) = match way {
            Way::In => (&mut self.in_frames, &mut self.in_bytes),
            Way::Out => (&mut self.out_frames, &mut self.out_bytes),
        };
        *frames += 1;
        *total += bytes.len() as u64;
    }
}
