//! What every port can do: `TxPort` takes frames in batches, `RxPort` gives them, neither waits and neither allocates
//! once it is open. Says nothing about what frames contain or when they are due.

use std::fmt;
use std::ops::Range;

use crate::error::PortError;

/// Which way frames take between this process and the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// mechanism and mode in words, e.g. "`AF_XDP` native copy"
    pub name: String,
    /// why a better way was not taken, one line per way tried
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

/// What became of the frames given to a `TxPort`. (frames)
///
/// `committed = accepted + refused + discarded + invalid + pending` at any time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxStats {
    /// committed by the caller
    pub committed_frames: u64,
    /// taken by the interface: *offered*, in the words of the trials
    pub accepted_frames: u64,
    /// refused by the interface and not to be tried again (it counts them as `tx_dropped`)
    pub refused_frames: u64,
    /// thrown away by the kernel before the interface had them, and not to be tried again: its queue was stopped, or a rule
    /// took them on their way out
    pub discarded_frames: u64,
    /// refused by the kernel as malformed
    pub invalid_frames: u64,
    /// committed, and not yet known to be accepted or refused; *unsent* once the port is drained
    pub pending_frames: u64,
    /// the interface said "not now" this often; the frames stayed pending and were tried again
    pub busy_answers: u64,
    /// calls of the kernel made
    pub kicks: u64,
}

/// What an `RxPort` saw. (frames)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RxStats {
    /// given to the caller
    pub received_frames: u64,
    /// bytes of them, without FCS (bytes)
    pub received_bytes: u64,
    /// left to the host because the port's filter did not match
    pub foreign_frames: u64,
    /// lost by this port because it was too slow: the sum of the reasons below
    pub dropped_frames: u64,
    /// of these: the ring to this process was full
    pub ring_full_frames: u64,
    /// of these: no free buffer was left for the kernel
    pub no_buffer_frames: u64,
    /// received, but longer than the port's buffers
    pub truncated_frames: u64,
    /// received, but stamped at the poll only because the path gave no stamp
    pub poll_stamped_frames: u64,
}

/// Where a frame's time stamp was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampedBy {
    /// the XDP program, as the first software on the receiving side (`CLOCK_MONOTONIC`)
    Program,
    /// the network stack, converted from `CLOCK_REALTIME` by a measured offset
    Stack,
    /// this process, when it polled
    Poll,
}

/// One received frame, valid until its batch is released.
#[derive(Debug, Clone, Copy)]
pub struct RxFrame<'a> {
    /// from the destination address on, without FCS
    pub bytes: &'a [u8],
    /// when it arrived, on `CLOCK_MONOTONIC` (ns)
    pub stamp_ns: u64,
    /// who stamped it
    pub stamped_by: StampedBy,
}

/// A port that frames can be given to.
///
/// The three `claim`, `slot`, `publish` are for implementors and wrappers; callers use [`reserve`].
pub trait TxPort: Send {
    /// The way frames take.
    fn path(&self) -> &Path;

    /// The largest frame it carries. (bytes, without FCS)
    fn most_bytes(&self) -> usize;

    /// Shows every buffer that is not in use, at its full length, to be filled with what all frames have in common. Done
    /// once before sending it lets callers write only what differs: buffers keep their bytes.
    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8]));

    /// Claims up to `frames` buffers and says how many; replaces an earlier claim that was not published.
    fn claim(&mut self, frames: usize) -> usize;

    /// The buffer of claimed frame `index`, to become a frame of `frame_bytes`. It holds whatever it held when it was
    /// last used.
    ///
    /// # Panics
    /// When the index was not claimed or the frame is longer than `most_bytes`.
    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8];

    /// Commits the first `frames` of the claim, in order; the rest is given back.
    fn publish(&mut self, frames: usize);

    /// How many frames to commit before `flush` when there is no hurry: its call of the kernel has a cost of its own. More
    /// than this gains little; by `AF_XDP`, 128 frames take some 50 us, and 3 % more leave than with 64.
    fn call_frames(&self) -> usize {
        128
    }

    /// The least time from one `flush` to the next where there is no hurry: paths whose calls use up something that the kernel
    /// gives back late. (ns)
    fn call_gap_ns(&self) -> u64 {
        0
    }

    /// Hands committed frames to the interface as far as it takes them now.
    ///
    /// # Errors
    /// When the interface went away or down.
    fn flush(&mut self) -> Result<(), PortError>;

    /// The counters, with what the kernel counts brought up to date.
    ///
    /// # Errors
    /// When the kernel refuses to give its counters.
    fn stats(&mut self) -> Result<TxStats, PortError>;
}

/// A port that frames come from.
///
/// `poll`, `frame` and `release` are for implementors and wrappers; callers use [`receive`].
pub trait RxPort: Send {
    /// The way frames take.
    fn path(&self) -> &Path;

    /// Takes up to `frames` that have arrived, and says how many; releases an earlier batch first. Never waits.
    ///
    /// # Errors
    /// When the interface went away or down.
    fn poll(&mut self, frames: usize) -> Result<usize, PortError>;

    /// Frame `index` of the batch.
    ///
    /// # Panics
    /// When the batch has no such frame.
    fn frame(&self, index: usize) -> RxFrame<'_>;

    /// Gives the buffers of the batch back to the kernel.
    fn release(&mut self);

    /// Waits until frames may have arrived, at most `timeout_ms`; for ports that are not polled all the time.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    fn wait(&mut self, timeout_ms: i32) -> Result<bool, PortError>;

    /// The counters, with what the kernel counts brought up to date.
    ///
    /// # Errors
    /// When the kernel refuses to give its counters.
    fn stats(&mut self) -> Result<RxStats, PortError>;
}

/// Reserves up to `frames` buffers of a port. They are given back unless `Reservation::commit` is called.
#[inline]
pub fn reserve<P: TxPort + ?Sized>(port: &mut P, frames: usize) -> Reservation<'_, P> {
    let granted = port.claim(frames);
    Reservation { port, granted }
}

/// Buffers to fill; dropped without `commit`, nothing is sent.
#[must_use = "reserved frames are given back unless they are committed"]
pub struct Reservation<'a, P: TxPort + ?Sized> {
    port: &'a mut P,
    granted: usize,
}

impl<P: TxPort + ?Sized> Reservation<'_, P> {
    /// How many buffers were granted: fewer than asked when the interface is behind.
    #[inline]
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// The bytes of frame `index`; see [`TxPort::slot`].
    #[inline]
    pub fn frame(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        self.port.slot(index, frame_bytes)
    }

    /// Commits the first `frames`; each must have been asked for with `frame`.
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

/// Takes up to `frames` that have arrived at a port.
///
/// # Errors
/// When the interface went away or down.
#[inline]
pub fn receive<P: RxPort + ?Sized>(port: &mut P, frames: usize) -> Result<Batch<'_, P>, PortError> {
    let arrived = port.poll(frames)?;
    Ok(Batch { port, frames: 0..arrived })
}

/// Received frames, as an iterator that lends; the buffers go back to the kernel when it is dropped.
#[must_use = "the frames of a batch are gone when it is dropped"]
pub struct Batch<'a, P: RxPort + ?Sized> {
    port: &'a mut P,
    frames: Range<usize>,
}

impl<P: RxPort + ?Sized> Batch<'_, P> {
    /// How many frames were not yet looked at.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True when all were looked at.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The next frame; it lives until the next is asked for.
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
