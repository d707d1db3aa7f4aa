//! Sends through one AF_XDP socket. Needs no XDP program and no root in a user namespace of its own.

use std::sync::Arc;

use super::socket::{Socket, TxRings};
use crate::error::PortError;
use crate::port::{Path, TxPort, TxStats};
use crate::sys;

/// Frames of one chunk size start at the same bits of their address and would share few cache sets; each start is
/// moved by this much more, as far as the chunk has room. Measured with 60 B frames: see docs of the bench.
const COLOUR_BYTES: usize = 64;

/// The sending half of an AF_XDP port.
#[derive(Debug)]
pub struct AfXdpTx {
    rings: TxRings,
    socket: Arc<Socket>,
    path: Path,
    most_bytes: usize,
    zero_copy: bool,
    /// chunks that neither the kernel nor a claim has, the warmest last
    free: Vec<u32>,
    /// start of each chunk's frame [bytes from the start of the UMEM]
    starts: Vec<u32>,
    /// lengths asked for in the current claim [bytes]
    lengths: Vec<u32>,
    claimed: usize,
    stats: TxStats,
}

impl AfXdpTx {
    pub(super) fn new(
        socket: Arc<Socket>,
        rings: TxRings,
        chunks: u32,
        most_bytes: usize,
        path: Path,
    ) -> Self {
        let chunk_bytes = socket.umem.chunk_bytes;
        let colours = (chunk_bytes - most_bytes) / COLOUR_BYTES + 1;
        let start = |chunk: u32| chunk as usize * chunk_bytes + (chunk as usize % colours) * COLOUR_BYTES;
        let starts = (0..chunks).map(|chunk| u32::try_from(start(chunk)).unwrap_or(u32::MAX)).collect();
        let zero_copy = path.name.ends_with("zero-copy");
        Self {
            rings,
            socket,
            path,
            most_bytes,
            zero_copy,
            free: (0..chunks).rev().collect(),
            starts,
            lengths: vec![0; chunks as usize],
            claimed: 0,
            stats: TxStats::default(),
        }
    }

    /// Takes back the chunks the kernel is done with.
    #[inline]
    fn reap(&mut self) {
        let chunk_bytes = self.socket.umem.chunk_bytes as u64;
        let mut done = self.rings.completion.take(u32::MAX);
        for address in done.by_ref() {
            #[allow(clippy::cast_possible_truncation)] // a UMEM has fewer than 2^32 chunks
            self.free.push((address / chunk_bytes) as u32);
        }
        self.stats.accepted_frames += u64::from(done.release());
    }

    /// What one refused kick means; true when kicking again makes sense.
    fn refused(&mut self, seen: std::io::Error) -> Result<bool, PortError> {
        match seen.raw_os_error() {
            // The kernel stops at a frame that the interface dropped: it was completed, and is lost.
            Some(libc::EBUSY) => {
                self.stats.refused_frames += 1;
                Ok(true)
            }
            // The call's budget is used up, or the interface or the completion ring is full.
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
        let chunk = self.free[self.free.len() - 1 - index] as usize;
        #[allow(clippy::cast_possible_truncation)] // at most a chunk
        {
            self.lengths[index] = frame_bytes as u32;
        }
        let place = self.socket.umem.place(self.starts[chunk] as usize, frame_bytes);
        // SAFETY: inside of the UMEM (checked by `place`); the chunk is in `free`, so neither the kernel nor another
        // slice has it, and `&mut self` keeps the slice the only one.
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
            let Some(chunk) = self.free.pop() else { break };
            slots.push(libc::xdp_desc { addr: u64::from(self.starts[chunk as usize]), len, options: 0 });
        }
        self.stats.committed_frames += u64::from(slots.submit());
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        let mut left = self.rings.tx.outstanding();
        while left > 0 && (!self.zero_copy || self.rings.tx.memory().needs_wakeup()) {
            self.stats.kicks += 1;
            if let Err(seen) = sys::kick_tx(self.socket.raw_fd()) {
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
