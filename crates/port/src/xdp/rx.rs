//! Reception through `AF_XDP` sockets, one per queue of the interface, with an XDP program that stamps each frame.

use std::os::fd::RawFd;
use std::sync::Arc;

use iolab_sys::clock;

use super::socket::{RxRings, Socket};
use crate::bpf::ReceiveProgram;
use crate::error::PortError;
use crate::port::{Path, RxFrame, RxPort, RxStats, StampedBy};

/// Length of the timestamp that the program puts before each frame, if the driver supports metadata (bytes).
const STAMP_BYTES: usize = 8;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) socket: Arc<Socket>,
    pub(super) rings: RxRings,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    queue: u32,
    frame_bytes: u32,
    address: u64,
    stamp_ns: u64,
}

/// The receiving half of an `AF_XDP` port.
#[derive(Debug)]
pub struct AfXdpRx {
    // Field order: the program must be detached before its sockets close.
    program: ReceiveProgram,
    queues: Vec<Queue>,
    path: Path,
    batch: Vec<Arrived>,
    polled_ns: u64,
    turn: usize,
    stats: RxStats,
}

impl AfXdpRx {
    pub(super) fn new(program: ReceiveProgram, queues: Vec<Queue>, path: Path, frames: u32) -> Self {
        let batch = Vec::with_capacity(queues.len() * frames as usize);
        Self { program, queues, path, batch, polled_ns: 0, turn: 0, stats: RxStats::default() }
    }

    /// Return the file descriptor on which to wait for frames of the first queue.
    pub(crate) fn fd(&self) -> RawFd {
        self.queues[0].socket.raw_fd()
    }

    fn take(&mut self, index: usize, frames: usize) {
        let queue = &mut self.queues[index];
        let mut filled = queue.rings.rx.take(u32::try_from(frames).unwrap_or(u32::MAX));
        for desc in filled.by_ref() {
            let address = usize::try_from(desc.addr).unwrap_or(usize::MAX);
            let stamp = queue.socket.umem.place(address - STAMP_BYTES, STAMP_BYTES);
            // SAFETY: inside the UMEM (checked by `place`); this process owns the chunk after taking its descriptor.
            let stamp_ns = unsafe { stamp.cast::<u64>().read_unaligned() };
            #[allow(clippy::cast_possible_truncation)] // only a few queues
            self.batch.push(Arrived {
                queue: index as u32,
                frame_bytes: desc.len,
                address: desc.addr,
                stamp_ns,
            });
            self.stats.received_bytes += u64::from(desc.len);
            self.stats.poll_stamped_frames += u64::from(stamp_ns == 0);
        }
        self.stats.received_frames += u64::from(filled.release());
        if queue.rings.fill.memory().needs_wakeup() {
            iolab_sys::socket::kick_rx(queue.socket.raw_fd());
        }
    }
}

impl RxPort for AfXdpRx {
    fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn poll(&mut self, frames: usize) -> Result<usize, PortError> {
        self.release();
        for _ in 0..self.queues.len() {
            let index = self.turn;
            self.turn = (index + 1) % self.queues.len();
            let room = frames - self.batch.len();
            if room > 0 {
                self.take(index, room);
            }
        }
        if self.batch.iter().any(|arrived| arrived.stamp_ns == 0) {
            self.polled_ns = clock::now_ns();
        }
        Ok(self.batch.len())
    }

    #[inline]
    fn frame(&self, index: usize) -> RxFrame<'_> {
        let arrived = self.batch[index];
        let umem = &self.queues[arrived.queue as usize].socket.umem;
        let frame_bytes = arrived.frame_bytes as usize;
        let place = umem.place(usize::try_from(arrived.address).unwrap_or(usize::MAX), frame_bytes);
        // SAFETY: inside the UMEM (checked by `place`); this process owns the chunk until `release`, which needs
        // `&mut self`.
        let bytes = unsafe { std::slice::from_raw_parts(place, frame_bytes) };
        match arrived.stamp_ns {
            0 => RxFrame { bytes, stamp_ns: self.polled_ns, stamped_by: StampedBy::Poll },
            stamp_ns => RxFrame { bytes, stamp_ns, stamped_by: StampedBy::Program },
        }
    }

    #[inline]
    fn release(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let umem = &queue.socket.umem;
            // The fill ring has a slot for every chunk.
            let mut slots = queue.rings.fill.reserve(u32::try_from(self.batch.len()).unwrap_or(u32::MAX));
            for arrived in self.batch.iter().filter(|arrived| arrived.queue as usize == index) {
                let address = usize::try_from(arrived.address).unwrap_or(usize::MAX);
                let stamp = umem.place(address - STAMP_BYTES, STAMP_BYTES);
                // SAFETY: inside the UMEM; this process still owns the chunk. The timestamp is cleared, because an old
                // timestamp would look like a new one.
                unsafe { stamp.cast::<u64>().write_unaligned(0) };
                slots.push(arrived.address - arrived.address % umem.chunk_bytes as u64);
            }
            slots.submit();
        }
        self.batch.clear();
    }

    fn wait(&mut self, timeout_ms: i32) -> Result<bool, PortError> {
        let fds: Vec<_> = self.queues.iter().map(|queue| queue.socket.raw_fd()).collect();
        iolab_sys::socket::wait_readable(&fds, timeout_ms)
            .map_err(PortError::of("waiting for frames", "poll"))
    }

    fn stats(&mut self) -> Result<RxStats, PortError> {
        let mut now = self.stats;
        for queue in &self.queues {
            let kernel = queue.socket.kernel_counters()?;
            now.ring_full_frames += kernel.rx_ring_full;
            now.no_buffer_frames += kernel.rx_dropped;
        }
        now.dropped_frames = now.ring_full_frames + now.no_buffer_frames;
        now.foreign_frames = self.program.foreign_frames()?;
        Ok(now)
    }
}
