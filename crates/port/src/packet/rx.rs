//! Reception through an `AF_PACKET` ring (`TPACKET_V3`) with kernel timestamps, also in an unprivileged user
//! namespace. The kernel delivers frames in blocks, at most a millisecond late: timestamps are exact, delivery is
//! delayed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use iolab_sys::clock::{self, RealtimeOffset};
use iolab_sys::Mapping;

use super::socket::{self, OPENING};
use super::AfPacket;
use crate::error::PortError;
use crate::interface::Interface;
use crate::observed::Way;
use crate::port::{Path, RxFrame, RxPort, RxStats, StampedBy};

/// Block size: large enough for hundreds of frames, small enough for the cache (bytes).
const BLOCK_BYTES: usize = 256 << 10;
const BLOCKS: usize = 128;
/// Timeout after which the kernel retires a block that is not full; the minimum of the kernel (ms).
const RETIRE_MS: u32 = 1;
/// Maximum age of the measured offset to the wall clock, which changes only when the clock is set (ns).
const OFFSET_AGE_NS: u64 = 100_000_000;
const VLAN_TAG_BYTES: usize = 4;
/// Length of struct `virtio_net_hdr` (bytes).
const VNET_BYTES: usize = 10;
/// Flag in the GSO type for TCP segments with ECN.
const GSO_ECN: u8 = 0x80;

#[derive(Debug, Clone, Copy)]
struct Arrived {
    /// offset of the frame in the ring (bytes)
    start: usize,
    frame_bytes: usize,
    stamp_ns: u64,
    whole_bytes: usize,
    segment_bytes: u16,
    way: Way,
}

/// A captured packet, received or sent.
#[derive(Debug, Clone, Copy)]
pub struct SeenPacket<'a> {
    /// First bytes of the packet, up to the capture length.
    pub bytes: &'a [u8],
    /// Kernel timestamp on `CLOCK_MONOTONIC` (ns).
    pub stamp_ns: u64,
    /// Packet length with VLAN tags (bytes).
    pub whole_bytes: usize,
    /// Payload per segment of a super-frame; 0 if the packet is one frame (bytes).
    pub segment_bytes: u16,
    /// Direction of the packet.
    pub way: Way,
}

/// A receiving port with a ring shared with the kernel.
#[derive(Debug)]
pub struct PacketRx {
    fd: OwnedFd,
    ring: Mapping,
    path: Path,
    block: usize,
    /// unread frames of the current block, and the offset of the next
    left: u32,
    next: usize,
    open: bool,
    batch: Vec<Arrived>,
    /// whether a `virtio_net_hdr` precedes each packet
    with_segments: bool,
    offset: RealtimeOffset,
    offset_measured_ns: u64,
    stats: RxStats,
}

impl PacketRx {
    pub(super) fn open(port: &AfPacket) -> Result<Self, PortError> {
        let interface = port.check()?;
        let fd = socket::raw()?;
        // Copies of sent frames are not received frames.
        socket::set(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        Self::over(fd, &interface, false)
    }

    /// Capture the first `most_bytes` of packets in one or both directions, without consuming them.
    pub(super) fn look(interface: &Interface, way: Option<Way>, most_bytes: u32) -> Result<Self, PortError> {
        let fd = socket::raw()?;
        socket::keep_way(&fd, way, most_bytes)?;
        socket::set(&fd, libc::PACKET_VNET_HDR, &1i32)?;
        Self::over(fd, interface, true)
    }

    fn over(fd: OwnedFd, interface: &Interface, with_segments: bool) -> Result<Self, PortError> {
        let v3 = libc::tpacket_versions::TPACKET_V3 as i32;
        socket::set(&fd, libc::PACKET_VERSION, &v3)?;
        // Reserve room before each frame to reinsert a VLAN tag that the kernel has stripped.
        socket::set(&fd, libc::PACKET_RESERVE, &8u32)?;
        iolab_sys::socket::set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
            .map_err(PortError::of(OPENING, "setsockopt"))?;
        let mut request: libc::tpacket_req3 = iolab_sys::zeroed();
        request.tp_block_size = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
        request.tp_block_nr = u32::try_from(BLOCKS).unwrap_or(u32::MAX);
        request.tp_frame_size = 2048;
        request.tp_frame_nr = u32::try_from(BLOCK_BYTES / 2048 * BLOCKS).unwrap_or(u32::MAX);
        request.tp_retire_blk_tov = RETIRE_MS;
        socket::set(&fd, libc::PACKET_RX_RING, &request)?;
        let ring = Mapping::shared(&fd, BLOCK_BYTES * BLOCKS, 0).map_err(PortError::of(OPENING, "mmap"))?;
        socket::bind(&fd, interface, u16::try_from(libc::ETH_P_ALL).unwrap_or_default())?;
        Ok(Self {
            fd,
            ring,
            path: Path::new("AF_PACKET rx-ring"),
            block: 0,
            left: 0,
            next: 0,
            open: false,
            batch: Vec::with_capacity(BLOCK_BYTES / 64),
            with_segments,
            offset: RealtimeOffset::measure(),
            offset_measured_ns: clock::now_ns(),
            stats: RxStats::default(),
        })
    }

    fn place<T>(&self, start: usize) -> *mut T {
        assert!(start + size_of::<T>() <= self.ring.bytes(), "frame outside of the ring");
        // SAFETY: the assertion above checked that the value is inside the mapping.
        unsafe { self.ring.start().add(start).cast() }
    }

    fn block_status(&self) -> &AtomicU32 {
        let block: *mut libc::tpacket_block_desc = self.place(self.block * BLOCK_BYTES);
        // SAFETY: a block header, inside the mapping and aligned; kernel and process access the word atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*block).hdr.bh1.block_status) }
    }

    /// Open the next block if the kernel has retired it to user space.
    fn open_block(&mut self) -> bool {
        // Acquire: pairs with the kernel's barrier before it sets the status; the frames are written.
        if self.block_status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        let start = self.block * BLOCK_BYTES;
        let block: *const libc::tpacket_block_desc = self.place(start);
        // SAFETY: inside the mapping, aligned, and owned by this process according to the status.
        let head = unsafe { (*block).hdr.bh1 };
        (self.open, self.left, self.next) = (true, head.num_pkts, start + head.offset_to_first_pkt as usize);
        let now_ns = clock::now_ns();
        if now_ns - self.offset_measured_ns > OFFSET_AGE_NS {
            (self.offset, self.offset_measured_ns) = (RealtimeOffset::measure(), now_ns);
        }
        true
    }

    fn take_one(&mut self) {
        let header: *const libc::tpacket3_hdr = self.place(self.next);
        // SAFETY: inside the mapping; the kernel aligns headers, and this process owns the block.
        let header = unsafe { header.read() };
        let mut start = self.next + usize::from(header.tp_mac);
        let mut frame_bytes = header.tp_snaplen as usize;
        let mut whole_bytes = header.tp_len as usize;
        let segment_bytes = if self.with_segments { self.segment_bytes(start) } else { 0 };
        if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && frame_bytes >= 14 {
            start -= VLAN_TAG_BYTES;
            frame_bytes += VLAN_TAG_BYTES;
            whole_bytes += VLAN_TAG_BYTES;
            self.put_tag_back(start, header.hv1);
        }
        let realtime_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let stamp_ns = self.offset.to_monotonic(realtime_ns);
        let way = self.way(self.next);
        self.batch.push(Arrived { start, frame_bytes, stamp_ns, whole_bytes, segment_bytes, way });
        self.stats.received_bytes += frame_bytes as u64;
        self.stats.truncated_frames += u64::from(header.tp_len > header.tp_snaplen);
        self.left -= 1;
        self.next += header.tp_next_offset as usize;
    }

    /// Return the direction of the packet with its header at offset `header`, from the packet type in the address
    /// after the header (packet(7)).
    fn way(&self, header: usize) -> Way {
        let behind = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
        let address: *const libc::sockaddr_ll = self.place(header + behind);
        // SAFETY: inside the mapping, aligned like the header; this process owns the block.
        let kind = unsafe { (*address).sll_pkttype };
        if kind == libc::PACKET_OUTGOING {
            Way::Out
        } else {
            Way::In
        }
    }

    /// Return the segment size in the `virtio_net_hdr` before a packet; 0 if the packet is not a super-frame.
    fn segment_bytes(&self, start: usize) -> u16 {
        let header: *const [u8; VNET_BYTES] = self.place(start - VNET_BYTES);
        // SAFETY: inside the mapping, before the packet, where the kernel wrote it; this process owns the block.
        let header = unsafe { header.read() };
        let joined = header[1] & !GSO_ECN != 0;
        if joined {
            u16::from_ne_bytes([header[4], header[5]])
        } else {
            0
        }
    }

    /// Return packet `index` of the batch with its capture metadata.
    pub fn seen(&self, index: usize) -> SeenPacket<'_> {
        let Arrived { whole_bytes, segment_bytes, way, .. } = self.batch[index];
        let RxFrame { bytes, stamp_ns, .. } = self.frame(index);
        SeenPacket { bytes, stamp_ns, whole_bytes, segment_bytes, way }
    }

    /// Reinsert the stripped VLAN tag after the MAC addresses, which restores the frame as on the wire.
    fn put_tag_back(&self, start: usize, tag: libc::tpacket_hdr_variant1) {
        let place: *mut [u8; 16] = self.place(start);
        // SAFETY: inside the mapping (the reserve before the frame and its addresses); this process owns the block,
        // and no slice of it is live, because a batch is complete before frames are lent.
        let bytes = unsafe { &mut *place };
        bytes.copy_within(VLAN_TAG_BYTES..16, 0);
        bytes[12..14].copy_from_slice(&tag.tp_vlan_tpid.to_be_bytes());
        bytes[14..16].copy_from_slice(&tag.tp_vlan_tci.to_be_bytes()[2..]);
    }
}

impl RxPort for PacketRx {
    fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn poll(&mut self, frames: usize) -> Result<usize, PortError> {
        self.release();
        if self.open || self.open_block() {
            while self.left > 0 && self.batch.len() < frames.min(self.batch.capacity()) {
                self.take_one();
            }
            self.stats.received_frames += self.batch.len() as u64;
        }
        Ok(self.batch.len())
    }

    #[inline]
    fn frame(&self, index: usize) -> RxFrame<'_> {
        let Arrived { start, frame_bytes, stamp_ns, .. } = self.batch[index];
        assert!(start + frame_bytes <= self.ring.bytes(), "frame outside of the ring");
        let place = self.place::<u8>(start);
        // SAFETY: inside the mapping (checked above); this process owns the block until `release`, which needs `&mut
        // self`.
        let bytes = unsafe { std::slice::from_raw_parts(place, frame_bytes) };
        RxFrame { bytes, stamp_ns, stamped_by: StampedBy::Stack }
    }

    #[inline]
    fn release(&mut self) {
        self.batch.clear();
        if self.open && self.left == 0 {
            // Release: pairs with the kernel's read of the status; all reads of the block are complete.
            self.block_status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % BLOCKS;
            self.open = false;
        }
    }

    fn wait(&mut self, timeout_ms: i32) -> Result<bool, PortError> {
        let fds = [self.fd.as_raw_fd()];
        iolab_sys::socket::wait_readable(&fds, timeout_ms)
            .map_err(PortError::of("waiting for frames", "poll"))
    }

    fn stats(&mut self) -> Result<RxStats, PortError> {
        // The kernel resets its counters on each read.
        let (new, _) = iolab_sys::socket::option::<libc::tpacket_stats_v3>(
            &self.fd,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        )
        .map_err(PortError::of("reading AF_PACKET counters", "getsockopt"))?;
        self.stats.ring_full_frames += u64::from(new.tp_drops);
        self.stats.dropped_frames = self.stats.ring_full_frames;
        Ok(self.stats)
    }
}
