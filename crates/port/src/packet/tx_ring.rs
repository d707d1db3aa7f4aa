//! Sends through an AF_PACKET ring that the kernel reads (PACKET_TX_RING, version 2), past the queueing discipline.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket::{self, OPENING};
use super::AfPacket;
use crate::error::PortError;
use crate::port::{Path, TxPort, TxStats};
use crate::sys::{self, Mapping};

/// Where a frame's bytes begin in its slot: after the header, aligned to 16. [bytes]
const DATA: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();

/// A sending port over a shared ring.
#[derive(Debug)]
pub struct PacketRingTx {
    fd: OwnedFd,
    ring: Mapping,
    path: Path,
    slot_bytes: usize,
    slots: usize,
    most_bytes: usize,
    /// first slot not yet committed
    next: usize,
    /// oldest slot whose fate is not known
    oldest: usize,
    claimed: usize,
    /// committed since the last flush that took all
    waiting: usize,
    stats: TxStats,
}

impl PacketRingTx {
    pub(super) fn open(port: &AfPacket) -> Result<Self, PortError> {
        let interface = port.check()?;
        let slot_bytes = (DATA + port.frame_bytes).next_power_of_two().max(256);
        let slots = port.ring_frames as usize;
        let block_bytes = (slot_bytes * slots).clamp(4096, 1 << 18).max(slot_bytes);
        let fd = socket::sender()?;
        let v2 = libc::tpacket_versions::TPACKET_V2 as i32;
        socket::set(&fd, libc::PACKET_VERSION, &v2)?;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let mut request: libc::tpacket_req = sys::zeroed();
        request.tp_block_size = number(block_bytes);
        request.tp_block_nr = number(slot_bytes * slots / block_bytes);
        request.tp_frame_size = number(slot_bytes);
        request.tp_frame_nr = number(slots);
        socket::set(&fd, libc::PACKET_TX_RING, &request)?;
        let ring = Mapping::shared(&fd, slot_bytes * slots, 0).map_err(PortError::of(OPENING, "mmap"))?;
        socket::bind(&fd, &interface, 0)?;
        Ok(Self {
            fd,
            ring,
            path: Path::new("AF_PACKET tx-ring qdisc-bypass"),
            slot_bytes,
            slots,
            most_bytes: port.frame_bytes,
            next: 0,
            oldest: 0,
            claimed: 0,
            waiting: 0,
            stats: TxStats::default(),
        })
    }

    fn header(&self, slot: usize) -> *mut libc::tpacket2_hdr {
        debug_assert!(slot < self.slots);
        // SAFETY: `slot` is below `slots`, so its header lies inside of the mapping.
        unsafe { self.ring.start().add(slot * self.slot_bytes).cast() }
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: the header's first word, inside of the mapping and aligned; both sides use it atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header(slot)).tp_status) }
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots - 1)
    }

    /// Walks over the slots that the kernel has handed to the interface.
    fn settle(&mut self) {
        while self.waiting > 0 {
            // Acquire: pairs with the kernel's write barrier before it changes the status.
            match self.status(self.oldest).load(Ordering::Acquire) {
                libc::TP_STATUS_SEND_REQUEST => break,
                status if status & libc::TP_STATUS_WRONG_FORMAT != 0 => {
                    // Release: gives the slot to our own later claim; the kernel has let go of it.
                    self.status(self.oldest).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
                    self.stats.invalid_frames += 1;
                }
                _ => self.stats.accepted_frames += 1,
            }
            self.waiting -= 1;
            self.oldest = self.after(self.oldest);
        }
    }
}

impl TxPort for PacketRingTx {
    fn path(&self) -> &Path {
        &self.path
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        for index in 0..self.claim(self.slots) {
            fill(self.slot(index, self.most_bytes));
        }
        self.claimed = 0;
    }

    #[inline]
    fn claim(&mut self, frames: usize) -> usize {
        let room = self.slots - self.waiting;
        let mut slot = self.next;
        self.claimed = 0;
        // Acquire: pairs with the kernel's release of the slot when the frame's memory is no longer in use.
        while self.claimed < frames.min(room)
            && self.status(slot).load(Ordering::Acquire) == libc::TP_STATUS_AVAILABLE
        {
            self.claimed += 1;
            slot = self.after(slot);
        }
        self.claimed
    }

    #[inline]
    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        assert!(index < self.claimed, "frame {index} of a claim of {}", self.claimed);
        assert!(frame_bytes <= self.most_bytes, "a frame of {frame_bytes} B, at most {}", self.most_bytes);
        let header = self.header((self.next + index) & (self.slots - 1));
        // SAFETY: inside of the mapping; the slot is claimed, so the kernel does not read it.
        unsafe { (*header).tp_len = u32::try_from(frame_bytes).unwrap_or(0) };
        // SAFETY: `DATA` + `most_bytes` fit a slot, as it was made.
        let place = unsafe { header.cast::<u8>().add(DATA) };
        // SAFETY: inside of the mapping; the kernel does not read a claimed slot, and `&mut self` keeps the slice the
        // only one.
        unsafe { std::slice::from_raw_parts_mut(place, frame_bytes) }
    }

    #[inline]
    fn publish(&mut self, frames: usize) {
        let frames = frames.min(self.claimed);
        for _ in 0..frames {
            // Release: pairs with the kernel's acquire of the status; length and bytes are written before it.
            self.status(self.next).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.next = self.after(self.next);
        }
        self.claimed = 0;
        self.waiting += frames;
        self.stats.committed_frames += frames as u64;
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        if self.waiting == 0 {
            return Ok(());
        }
        self.stats.kicks += 1;
        let answer = sys::kick_tx(self.fd.as_raw_fd());
        self.settle();
        match answer {
            Ok(_) => Ok(()),
            Err(seen) => match seen.raw_os_error() {
                // The frame was refused and stays in its slot; the next flush tries it again.
                Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => {
                    self.stats.busy_answers += 1;
                    Ok(())
                }
                _ => Err(PortError::of("sending through the AF_PACKET ring", "sendto")(seen)),
            },
        }
    }

    fn stats(&mut self) -> Result<TxStats, PortError> {
        self.settle();
        let mut now = self.stats;
        now.pending_frames = self.waiting as u64;
        Ok(now)
    }
}
