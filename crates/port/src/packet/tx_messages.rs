//! Sends through `AF_PACKET` by sendmmsg(2), past the queueing discipline: many frames by one call, each copied.
//!
//! What the kernel says of a frame (`net/packet/af_packet.c` `packet_snd`, net/core/dev.c `__dev_direct_xmit`):
//! - EAGAIN: the socket has too much in flight. No frame was made; it stays ours.
//! - ENOBUFS: the frame is gone. The interface dropped it and counts it as `tx_dropped` (a veth's far ring is full, there is
//!   no carrier); or it never had it, and counts nothing (its queue is stopped).
//!
//! Of several frames it tells how many went and not why the next did not, so no more are sent at once than have room.

use std::os::fd::{AsRawFd, OwnedFd};

use iolab_sys::Mapping;

use super::socket::{self, OPENING};
use super::AfPacket;
use crate::error::PortError;
use crate::interface::InterfaceEye;
use crate::port::{Path, TxPort, TxStats};

/// The kernel takes no more messages by one call (`UIO_MAXIOV`).
const MOST_MESSAGES: usize = 1024;

/// The most memory that the kernel takes for a frame of so many bytes: its buffer and what it keeps with it, in powers of two
/// or whole pages. (bytes)
const fn memory_bytes(frame_bytes: usize) -> usize {
    2 * frame_bytes.next_power_of_two() + 4096
}

/// A sending port over sendmmsg.
pub struct PacketMessagesTx {
    fd: OwnedFd,
    eye: InterfaceEye,
    /// what the interface had dropped when the port was opened (frames)
    dropped_before: u64,
    memory: Mapping,
    /// lengths and places of the frames; `messages` points here, so it never grows
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    path: Path,
    slot_bytes: usize,
    most_bytes: usize,
    /// first slot not yet committed
    next: usize,
    claimed: usize,
    /// committed and not yet handed over
    waiting: usize,
    /// the kernel took no more when it was last asked
    busy: bool,
    /// handed over and gone (frames)
    gone: u64,
    stats: TxStats,
}

// SAFETY: the raw pointers lead into `parts` and `memory`, which the value owns and no one else uses.
unsafe impl Send for PacketMessagesTx {}

impl PacketMessagesTx {
    pub(super) fn open(port: &AfPacket) -> Result<Self, PortError> {
        let interface = port.check()?;
        let fd = socket::sender()?;
        socket::bind(&fd, &interface, 0)?;
        let slots = (port.ring_frames as usize).min(MOST_MESSAGES);
        // One cache line more than the frame, so that frames do not all start in the same cache sets.
        let slot_bytes = port.frame_bytes.next_multiple_of(64) + 64;
        let memory = Mapping::anonymous(slots * slot_bytes).map_err(PortError::of(OPENING, "mmap"))?;
        // SAFETY: each place lies inside of the mapping.
        let place = |slot: usize| unsafe { memory.start().add(slot * slot_bytes) };
        let mut parts: Vec<_> =
            (0..slots).map(|slot| libc::iovec { iov_base: place(slot).cast(), iov_len: 0 }).collect();
        let start = parts.as_mut_ptr();
        let message = |slot: usize| {
            // SAFETY: a mmsghdr is made of integers and pointers; zeros (null pointers) are valid.
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

    /// Sends what waits, up to the end of the memory and as much as surely has room; at least one frame.
    fn send_stretch(&mut self) -> Result<(), PortError> {
        let slots = self.messages.len();
        // A power of two, as `AfPacket` makes sure.
        let oldest = (self.next + slots - self.waiting) & (slots - 1);
        let sure = 1 + socket::room_bytes(&self.fd)? / memory_bytes(self.most_bytes);
        let wanted = self.waiting.min(slots - oldest).min(sure);
        self.stats.kicks += 1;
        // SAFETY: each message points to its part and this to `memory`, all owned by `self`; lengths were set by
        // `slot`, which keeps them within a slot.
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
        // While the kernel takes none, more would only age here, with the time in them when they should have left.
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
        // SAFETY: `slot` is below the number of slots, so the place lies inside of the mapping.
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
