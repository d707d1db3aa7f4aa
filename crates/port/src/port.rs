//! The common interface of ports: `TxPort` accepts frames in batches, `RxPort` returns them. Neither blocks, and
//! neither allocates once it is open. Frame contents and transmit times are the concern of the callers.

use std::fmt;
use std::ops::Range;

use crate::error::PortError;

/// The path of frames between this process and the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Mechanism and mode, for example "`AF_XDP` native copy".
    pub name: String,
    /// Reasons why faster paths were not used, one line per attempted path.
    pub fallbacks: Vec<String>,
}

impl Path {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), fallbacks: Vec::new() }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        for reason in &self.fallbacks {
            write!(out, "; {reason}")?;
        }
        Ok(())
    }
}

/// The transmit counters of a `TxPort` (frames).
///
/// At any time, `committed = accepted + refused + discarded + invalid + pending`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxStats {
    /// Frames committed by the caller.
    pub committed_frames: u64,
    /// Frames accepted by the interface: the *offered* load of a trial.
    pub accepted_frames: u64,
    /// Frames finally refused by the interface, which counts them as `tx_dropped`.
    pub refused_frames: u64,
    /// Frames finally dropped by the kernel before the interface: its queue was stopped, or an egress rule dropped
    /// them.
    pub discarded_frames: u64,
    /// Frames refused by the kernel as malformed.
    pub invalid_frames: u64,
    /// Committed frames with an unknown result; *unsent* once the port is drained.
    pub pending_frames: u64,
    /// Number of busy results of the kernel; the frames stayed pending and were retried.
    pub busy_answers: u64,
    /// Number of system calls for sending.
    pub kicks: u64,
}

/// The receive counters of an `RxPort` (frames).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RxStats {
    /// Frames returned to the caller.
    pub received_frames: u64,
    /// Bytes of the received frames, without FCS.
    pub received_bytes: u64,
    /// Frames left to the host because the port's filter did not match.
    pub foreign_frames: u64,
    /// Frames lost because this port was too slow: the sum of the two following counters.
    pub dropped_frames: u64,
    /// Frames lost because the ring to this process was full.
    pub ring_full_frames: u64,
    /// Frames lost because the kernel had no free buffer.
    pub no_buffer_frames: u64,
    /// Received frames that were longer than the port's buffers.
    pub truncated_frames: u64,
    /// Received frames stamped at the poll, because the path provided no timestamp.
    pub poll_stamped_frames: u64,
}

/// The source of a frame's timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampedBy {
    /// The XDP program, the first software on the receive path (`CLOCK_MONOTONIC`).
    Program,
    /// The network stack, converted from `CLOCK_REALTIME` with a measured offset.
    Stack,
    /// This process takes the timestamp when it polls the port.
    Poll,
}

/// One received frame, valid until its batch is released.
#[derive(Debug, Clone, Copy)]
pub struct RxFrame<'a> {
    /// Frame bytes from the destination MAC address on, without FCS.
    pub bytes: &'a [u8],
    /// Arrival time on `CLOCK_MONOTONIC` (ns).
    pub stamp_ns: u64,
    /// Source of the timestamp.
    pub stamped_by: StampedBy,
}

/// A port that sends frames.
///
/// `claim`, `slot` and `publish` are for implementers and wrappers; callers use [`reserve`].
pub trait TxPort: Send {
    /// Return the path of the frames.
    fn path(&self) -> &Path;

    /// Return the maximum frame length (bytes, without FCS).
    fn most_bytes(&self) -> usize;

    /// Call `fill` on every free buffer at full length, to write the part that all frames share. Buffers keep their
    /// contents, so after one call before sending, callers need to write only the differences.
    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8]));

    /// Claim up to `frames` buffers and return their number; an earlier unpublished claim is replaced.
    fn claim(&mut self, frames: usize) -> usize;

    /// Return the buffer of claimed frame `index`, for a frame of `frame_bytes`. The buffer contains the data of its
    /// last use.
    ///
    /// # Panics
    /// Panics if the index was not claimed or the frame is longer than `most_bytes`.
    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8];

    /// Commit the first `frames` frames of the claim, in order; the other buffers are returned.
    fn publish(&mut self, frames: usize);

    /// Return the preferred number of committed frames per `flush` when sending is not urgent, because each system
    /// call has a fixed cost. A larger number gains little: with `AF_XDP`, 128 frames take about 50 us, and the rate
    /// is 3 % higher than with 64.
    fn call_frames(&self) -> usize {
        128
    }

    /// Return the minimum time between two calls of `flush` when sending is not urgent (ns), for paths whose calls
    /// use kernel resources that are freed late.
    fn call_gap_ns(&self) -> u64 {
        0
    }

    /// Pass committed frames to the interface, as many as it accepts now.
    ///
    /// # Errors
    /// Fails if the interface is gone or down.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Return the counters, including current kernel counters.
    ///
    /// # Errors
    /// Fails if the kernel counters cannot be read.
    fn stats(&mut self) -> Result<TxStats, PortError>;
}

/// A port that receives frames.
///
/// `poll`, `frame` and `release` are for implementers and wrappers; callers use [`receive`].
pub trait RxPort: Send {
    /// Return the path of the frames.
    fn path(&self) -> &Path;

    /// Receive up to `frames` frames that have arrived, without blocking, and return their number; release the
    /// previous batch first.
    ///
    /// # Errors
    /// Fails if the interface is gone or down.
    fn poll(&mut self, frames: usize) -> Result<usize, PortError>;

    /// Return frame `index` of the batch.
    ///
    /// # Panics
    /// Panics if the batch has no such frame.
    fn frame(&self, index: usize) -> RxFrame<'_>;

    /// Return the buffers of the batch to the kernel.
    fn release(&mut self);

    /// Wait until frames may have arrived, but at most `timeout_ms`; for ports that are not polled continuously.
    ///
    /// # Errors
    /// Fails if the system call fails.
    fn wait(&mut self, timeout_ms: i32) -> Result<bool, PortError>;

    /// Return the counters, including current kernel counters.
    ///
    /// # Errors
    /// Fails if the kernel counters cannot be read.
    fn stats(&mut self) -> Result<RxStats, PortError>;
}

/// Reserve up to `frames` buffers of a port. The buffers are returned unless `Reservation::commit` is called.
#[inline]
pub fn reserve<P: TxPort + ?Sized>(port: &mut P, frames: usize) -> Reservation<'_, P> {
    let granted = port.claim(frames);
    Reservation { port, granted }
}

/// Reserved buffers; if dropped without `commit`, nothing is sent.
#[must_use = "reserved frames are given back unless they are committed"]
pub struct Reservation<'a, P: TxPort + ?Sized> {
    port: &'a mut P,
    granted: usize,
}

impl<P: TxPort + ?Sized> Reservation<'_, P> {
    /// Return the number of granted buffers: fewer than requested if the interface is behind.
    #[inline]
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// Return the buffer of frame `index`; see [`TxPort::slot`].
    #[inline]
    pub fn frame(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        self.port.slot(index, frame_bytes)
    }

    /// Commit the first `frames` frames; each must have been accessed with `frame`.
    #[inline]
    pub fn commit(self, frames: usize) {
        self.port.publish(frames.min(self.granted));
        std::mem::forget(self);
    }
}

impl<P: TxPort + ?Sized> Drop for Reservation<'_, P> {
    fn drop(&mut self) {
        self.port.publish(0);
    }
}

/// Receive up to `frames` frames that have arrived at a port.
///
/// # Errors
/// Fails if the interface is gone or down.
#[inline]
pub fn receive<P: RxPort + ?Sized>(port: &mut P, frames: usize) -> Result<Batch<'_, P>, PortError> {
    let arrived = port.poll(frames)?;
    Ok(Batch { port, frames: 0..arrived })
}

/// A lending iterator over received frames; the buffers return to the kernel on drop.
#[must_use = "the frames of a batch are gone when it is dropped"]
pub struct Batch<'a, P: RxPort + ?Sized> {
    port: &'a mut P,
    frames: Range<usize>,
}

impl<P: RxPort + ?Sized> Batch<'_, P> {
    /// Return the number of remaining frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no frames remain.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Return the next frame, which is valid until the next call.
    #[inline]
    #[allow(clippy::should_implement_trait)] // an Iterator cannot lend
    pub fn next(&mut self) -> Option<RxFrame<'_>> {
        let index = self.frames.next()?;
        Some(self.port.frame(index))
    }
}

impl<P: RxPort + ?Sized> Drop for Batch<'_, P> {
    fn drop(&mut self) {
        self.port.release();
    }
}
