//! Sending through `AF_PACKET` with sendmmsg(2) and qdisc bypass: many frames per system call, each copied.
//!
//! The kernel's results for a frame (`net/packet/af_packet.c` `packet_snd`, net/core/dev.c `__dev_direct_xmit`):
//! - EAGAIN: the socket has reached its limit of queued bytes. The frame was not sent and can be retried.
//! - ENOBUFS: the frame is lost. Either the interface dropped it and counted it as `tx_dropped` (the ring of a veth
//!   peer is full, or there is no carrier), or the interface queue was stopped and no counter includes the frame.
//!
//! For several frames, the kernel returns the number of sent frames but not the error of the next one, so no call
//! sends more frames than the socket has room for.

use std::os::fd::{AsRawFd, OwnedFd};

use iolab_sys::Mapping;

use super::socket::{self, OPENING};
use super::AfPacket;
use crate::error::PortError;
use crate::interface::InterfaceEye;
use crate::port::{Path, TxPort, TxStats};

/// Maximum number of messages per call (`UIO_MAXIOV`).
const MOST_MESSAGES: usize = 1024;

/// Return the maximum kernel memory for a frame of `frame_bytes`: its buffer and metadata, rounded to powers of two
/// or pages (bytes).
const fn memory_bytes(frame_bytes: usize) -> usize {
    2 * frame_bytes.next_power_of_two() + 4096
}

/// A sending port with sendmmsg(2).
pub struct PacketMessagesTx {
    fd: OwnedFd,
    eye: InterfaceEye,
    /// frames dropped by the interface when the port was opened
    dropped_before: u64,
    memory: Mapping,
    /// addresses and lengths of the frames; `messages` points into this vector, so it must not grow
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    path: Path,
    slot_bytes: usize,
    most_bytes: usize,
    /// first slot that is not committed
    next: usize,
    claimed: usize,
    /// number of committed frames that are not sent
    waiting: usize,
    /// whether the kernel accepted no frame in the last call
    busy: bool,
    /// number of lost frames
    gone: u64,
    stats: TxStats,
}

// SAFETY: the raw pointers point into `parts` and `memory`, which the value owns exclusively.
unsafe impl Send for PacketMessagesTx {}

impl PacketMessagesTx {
    pub(super) fn open(port: &AfPacket) -> Result<Self, PortError> {
        let interface = port.check()?;
        let fd = socket::sender()?;
        socket::bind(&fd, &interface, 0)?;
        let slots = (port.ring_frames as usize).min(MOST_MESSAGES);
        // The slot is one cache line longer than the frame, so that frames start in different cache sets.
        let slot_bytes = port.frame_bytes.next_multiple_of(64) + 64;
        let memory = Mapping::anonymous(slots * slot_bytes).map_err(PortError::of(OPENING, "mmap"))?;
        // SAFETY: each slot is inside the mapping.
        let place = |slot: usize| unsafe { memory.start().add(slot * slot_bytes) };
        let mut parts: Vec<_> =
            (0..slots).map(|slot| libc::iovec { iov_base: place(slot).cast(), iov_len: 0 }).collect();
        let start = parts.as_mut_ptr();
        let message = |slot: usize| {
            // SAFETY: a mmsghdr consists of integers and pointers; zeros (null pointers) are valid.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            // SAFETY: `slot` is below the length of `parts`.
            message.msg_hdr.msg_iov = unsafe { start.add(slot) };
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = (0..slots).map(message).collect();
        let path = Path::new("AF_PACKET sendmmsg qdisc-bypass");
        let (most_bytes, stats) = (port.frame_bytes, TxStats::default());
        Ok(Self {
            fd,
            eye: InterfaceEye::new(&interface.name)?,
            dropped_before: interface.counters.tx_dropped,
            memory,
            parts,
            messages,
            path,
            slot_bytes,
            most_bytes,
            next: 0,
            claimed: 0,
            waiting: 0,
            busy: false,
            gone: 0,
            stats,
        })
    }

    /// Send queued frames up to the end of the slot memory and the known room of the socket; at least one frame.
    fn send_stretch(&mut self) -> Result<(), PortError> {
        let slots = self.messages.len();
        // The number of slots is a power of two, which `AfPacket` checks.
        let oldest = (self.next + slots - self.waiting) & (slots - 1);
        let sure = 1 + socket::room_bytes(&self.fd)? / memory_bytes(self.most_bytes);
        let wanted = self.waiting.min(slots - oldest).min(sure);
        self.stats.kicks += 1;
        // SAFETY: each message points to its part, and the part to `memory`, all owned by `self`; `slot` set the
        // lengths and keeps them within a slot.
        let answer = unsafe {
            iolab_sys::socket::send_many(self.fd.as_raw_fd(), &mut self.messages[oldest..oldest + wanted])
        };
        let (sent, gone) = match answer {
            Ok(sent) => (sent, usize::from(sent < wanted)),
            Err(seen) if seen.raw_os_error() == Some(libc::ENOBUFS) => (0, 1),
            Err(seen) => return Err(PortError::of("sending through AF_PACKET", "sendmmsg")(seen)),
        };
        self.waiting -= sent + gone;
        self.stats.accepted_frames += sent as u64;
        self.gone += gone as u64;
        Ok(())
    }
}

impl TxPort for PacketMessagesTx {
    fn path(&self) -> &Path {
        &self.path
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        for index in 0..self.claim(usize::MAX) {
            fill(self.slot(index, self.most_bytes));
        }
        self.claimed = 0;
    }

    #[inline]
    fn claim(&mut self, frames: usize) -> usize {
        // While the kernel accepts no frames, further frames would only age in the slots, and their transmit stamps
        // with them.
        let room = if self.busy { 0 } else { self.messages.len() - self.waiting };
        self.claimed = frames.min(room);
        self.claimed
    }

    #[inline]
    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        assert!(index < self.claimed, "frame {index} of a claim of {}", self.claimed);
        assert!(frame_bytes <= self.most_bytes, "a frame of {frame_bytes} B, at most {}", self.most_bytes);
        let slot = (self.next + index) & (self.messages.len() - 1);
        self.parts[slot].iov_len = frame_bytes;
        // SAFETY: `slot` is below the number of slots, so the address is inside the mapping.
        let place = unsafe { self.memory.start().add(slot * self.slot_bytes) };
        // SAFETY: `frame_bytes` is below `slot_bytes`; the kernel reads only during a call that needs `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(place, frame_bytes) }
    }

    #[inline]
    fn publish(&mut self, frames: usize) {
        let frames = frames.min(self.claimed);
        self.next = (self.next + frames) & (self.messages.len() - 1);
        self.claimed = 0;
        self.waiting += frames;
        self.stats.committed_frames += frames as u64;
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        self.busy = false;
        while self.waiting > 0 {
            match self.send_stretch() {
                Ok(()) => {}
                Err(seen) if seen.is_busy() => {
                    self.busy = true;
                    self.stats.busy_answers += 1;
                    return Ok(());
                }
                Err(seen) => return Err(seen),
            }
        }
        Ok(())
    }

    fn stats(&mut self) -> Result<TxStats, PortError> {
        let mut now = self.stats;
        now.pending_frames = self.waiting as u64;
        if self.gone > 0 {
            let dropped = self.eye.look()?.counters.tx_dropped;
            now.refused_frames = dropped.saturating_sub(self.dropped_before).min(self.gone);
            now.discarded_frames = self.gone - now.refused_frames;
        }
        Ok(now)
    }
}
