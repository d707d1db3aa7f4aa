//! Sending through one `AF_XDP` socket. Sending needs no XDP program, and no root privileges inside a separate user
//! namespace.

use std::sync::Arc;

use super::socket::{Socket, TxRings};
use crate::error::PortError;
use crate::port::{Path, TxPort, TxStats};

/// Alignment of frames to cache lines; small frames share a chunk, so that a batch touches few pages. In a measurement
/// at 60 B, sharing did not change the rate (bytes).
const LINE_BYTES: usize = 64;

/// The sending half of an `AF_XDP` port.
#[derive(Debug)]
pub struct AfXdpTx {
    rings: TxRings,
    socket: Arc<Socket>,
    path: Path,
    most_bytes: usize,
    zero_copy: bool,
    /// start offsets of free frames, most recently used last (bytes from the start of the UMEM)
    free: Vec<u32>,
    /// frame lengths of the current claim (bytes)
    lengths: Vec<u32>,
    claimed: usize,
    stats: TxStats,
}

impl AfXdpTx {
    pub(super) fn new(
        socket: Arc<Socket>,
        rings: TxRings,
        frames: u32,
        most_bytes: usize,
        path: Path,
    ) -> Self {
        let chunk_bytes = socket.umem.chunk_bytes;
        let stride = most_bytes.max(1).next_multiple_of(LINE_BYTES);
        let per_chunk = (chunk_bytes / stride).max(1);
        let start = |frame: usize| frame / per_chunk * chunk_bytes + frame % per_chunk * stride;
        let starts = (0..frames as usize).rev().map(|frame| u32::try_from(start(frame)).unwrap_or(u32::MAX));
        let zero_copy = path.name.ends_with("zero-copy");
        Self {
            rings,
            socket,
            path,
            most_bytes,
            zero_copy,
            free: starts.collect(),
            lengths: vec![0; frames as usize],
            claimed: 0,
            stats: TxStats::default(),
        }
    }

    /// Return the number of frames that the next flush sends.
    pub(crate) fn waiting(&self) -> usize {
        self.rings.tx.outstanding() as usize
    }

    /// Reclaim the frames that the kernel has completed.
    #[inline]
    fn reap(&mut self) {
        let mut done = self.rings.completion.take(u32::MAX);
        for address in done.by_ref() {
            // The kernel returns the submitted addresses, which were `u32`.
            #[allow(clippy::cast_possible_truncation)]
            self.free.push(address as u32);
        }
        self.stats.accepted_frames += u64::from(done.release());
    }

    /// Handle a failed kick; return whether to kick again.
    fn refused(&mut self, seen: std::io::Error) -> Result<bool, PortError> {
        match seen.raw_os_error() {
            // The kernel stops at a frame that the interface dropped: the frame is completed and lost.
            Some(libc::EBUSY) => {
                self.stats.refused_frames += 1;
                Ok(true)
            }
            // The budget of the call is used up, or the interface or the completion ring is full.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                self.stats.busy_answers += 1;
                Ok(true)
            }
            _ => Err(PortError::of("sending through AF_XDP", "sendto")(seen)),
        }
    }
}

impl TxPort for AfXdpTx {
    fn path(&self) -> &Path {
        &self.path
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        self.reap();
        self.claimed = self.free.len();
        for index in 0..self.claimed {
            fill(self.slot(index, self.most_bytes));
        }
        self.claimed = 0;
    }

    #[inline]
    fn claim(&mut self, frames: usize) -> usize {
        if self.free.len() < frames {
            self.reap();
        }
        let wanted = u32::try_from(frames.min(self.free.len())).unwrap_or(u32::MAX);
        self.claimed = self.rings.tx.free(wanted).min(wanted) as usize;
        self.claimed
    }

    #[inline]
    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        assert!(index < self.claimed, "frame {index} of a claim of {}", self.claimed);
        assert!(frame_bytes <= self.most_bytes, "a frame of {frame_bytes} B, at most {}", self.most_bytes);
        let start = self.free[self.free.len() - 1 - index] as usize;
        #[allow(clippy::cast_possible_truncation)] // at most a chunk
        {
            self.lengths[index] = frame_bytes as u32;
        }
        let place = self.socket.umem.place(start, frame_bytes);
        // SAFETY: inside the UMEM (checked by `place`); the frame is in `free`, so neither the kernel nor another
        // slice uses it, its neighbours are `most_bytes` away, and `&mut self` makes the slice exclusive.
        unsafe { std::slice::from_raw_parts_mut(place, frame_bytes) }
    }

    #[inline]
    fn publish(&mut self, frames: usize) {
        let frames = frames.min(self.claimed);
        self.claimed = 0;
        if frames == 0 {
            return;
        }
        let mut slots = self.rings.tx.reserve(u32::try_from(frames).unwrap_or(u32::MAX));
        for &len in &self.lengths[..frames] {
            let Some(start) = self.free.pop() else { break };
            slots.push(libc::xdp_desc { addr: u64::from(start), len, options: 0 });
        }
        self.stats.committed_frames += u64::from(slots.submit());
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        let mut left = self.rings.tx.outstanding();
        while left > 0 && (!self.zero_copy || self.rings.tx.memory().needs_wakeup()) {
            self.stats.kicks += 1;
            if let Err(seen) = iolab_sys::socket::kick_tx(self.socket.raw_fd()) {
                if !self.refused(seen)? {
                    return Ok(());
                }
                self.reap();
            }
            let now = self.rings.tx.outstanding();
            if now == left {
                return Ok(());
            }
            left = now;
        }
        Ok(())
    }

    fn stats(&mut self) -> Result<TxStats, PortError> {
        self.reap();
        let kernel = self.socket.kernel_counters()?;
        let mut now = self.stats;
        now.invalid_frames = kernel.tx_invalid_descs;
        now.accepted_frames -= now.refused_frames;
        now.pending_frames =
            now.committed_frames - now.accepted_frames - now.refused_frames - now.invalid_frames;
        Ok(now)
    }
}
