//! One `AF_XDP` socket: its frame memory (UMEM), its four rings and its binding to a queue. Sending and receiving are
//! implemented by its users.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iolab_sys::{Mapping, Plain};

use crate::error::PortError;
use crate::interface::Interface;
use crate::ring::{Consumer, Memory, Producer};

/// Headroom that the kernel leaves before each received frame (`XDP_PACKET_HEADROOM`) (bytes).
pub(super) const HEADROOM_BYTES: usize = 256;

/// Retry limit for EBUSY, because the kernel tears down an earlier socket asynchronously: milliseconds on an idle
/// host, more than a second if kernel threads wait for a CPU.
const BUSY_LIMIT: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// The transmit option for more than 32 frames per call, which exists since Linux 6.17; the libc crate lacks it.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

const OPENING: &str = "opening an AF_XDP socket";

/// Frame memory, divided into chunks of equal size.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Mapping,
    pub(super) chunk_bytes: usize,
    pub(super) chunks: u32,
}

impl Umem {
    fn new(chunk_bytes: usize, chunks: u32) -> Result<Self, PortError> {
        let memory =
            Mapping::anonymous(chunk_bytes * chunks as usize).map_err(PortError::of(OPENING, "mmap"))?;
        Ok(Self { memory, chunk_bytes, chunks })
    }

    /// Return the address of `bytes` bytes at `offset`.
    ///
    /// # Panics
    /// Panics if the range is outside the memory.
    #[inline]
    pub(super) fn place(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            offset <= self.memory.bytes() && bytes <= self.memory.bytes() - offset,
            "frame outside of the UMEM"
        );
        // SAFETY: the assertion above checked that the range is inside one mapping, or one past its end if `bytes` is
        // 0.
        unsafe { self.memory.start().add(offset) }
    }
}

/// A ring shared with the kernel.
#[derive(Debug)]
pub(super) struct MappedRing<T> {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    items: *mut T,
    slots: u32,
    _mapping: Mapping,
}

// SAFETY: the pointers point into the mapping, which the value owns; access follows the ring protocol of one producer
// and one consumer, in any thread.
unsafe impl<T: Send> Send for MappedRing<T> {}

impl<T: Plain> MappedRing<T> {
    fn map(fd: &OwnedFd, slots: u32, at: &libc::xdp_ring_offset, page: i64) -> Result<Self, PortError> {
        let offset = |field: u64| usize::try_from(field).unwrap_or(usize::MAX);
        let bytes = offset(at.desc) + slots as usize * size_of::<T>();
        let mapping = Mapping::shared(fd, bytes, page).map_err(PortError::of(OPENING, "mmap"))?;
        let start = mapping.start();
        // SAFETY: the kernel returned this offset for a mapping of this size, so it is inside the mapping.
        let word = |field: u64| unsafe { start.add(offset(field)) }.cast_const();
        let (producer, consumer, flags) = (word(at.producer), word(at.consumer), word(at.flags));
        Ok(Self {
            producer: producer.cast(),
            consumer: consumer.cast(),
            flags: flags.cast(),
            items: word(at.desc).cast_mut().cast(),
            slots,
            _mapping: mapping,
        })
    }

    /// Whether the kernel needs a wakeup call to process this ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: an aligned word inside the mapping, which lives as long as `self`; all accesses are atomic.
        let flags = unsafe { &*self.flags };
        // Relaxed: the value is only a hint; the next flush makes up for a missed wakeup.
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Plain> Memory for MappedRing<T> {
    type Item = T;
    type Index = AtomicU32;

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: an aligned word inside the mapping, which lives as long as `self`; all accesses are atomic.
        unsafe { &*self.producer }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { &*self.consumer }
    }

    #[inline]
    fn slots(&self) -> u32 {
        self.slots
    }

    #[inline]
    unsafe fn read(&self, slot: u32) -> T {
        debug_assert!(slot < self.slots);
        // SAFETY: the caller guarantees that `slot` is below `slots` and may be read; `items` has `slots` items.
        unsafe { self.items.add(slot as usize).read() }
    }

    #[inline]
    unsafe fn write(&self, slot: u32, item: T) {
        debug_assert!(slot < self.slots);
        // SAFETY: the caller guarantees that `slot` is below `slots` and may be written; `items` has `slots` items.
        unsafe { self.items.add(slot as usize).write(item) }
    }
}

/// The buffer and ring sizes of a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) chunk_bytes: usize,
    /// Number of transmit buffers and of slots in their rings; 0 if the socket does not send.
    pub(super) send_frames: u32,
    /// Number of receive buffers and of slots in their rings; 0 if the socket does not receive.
    pub(super) receive_frames: u32,
}

/// Size of a mandatory ring that is not used.
const UNUSED_SLOTS: u32 = 64;

/// The rings of a sending socket.
#[derive(Debug)]
pub(super) struct TxRings {
    pub(super) tx: Producer<MappedRing<libc::xdp_desc>>,
    pub(super) completion: Consumer<MappedRing<u64>>,
}

/// The rings of a receiving socket.
#[derive(Debug)]
pub(super) struct RxRings {
    pub(super) rx: Consumer<MappedRing<libc::xdp_desc>>,
    pub(super) fill: Producer<MappedRing<u64>>,
}

/// A socket with its frame memory; the sending and receiving halves own the rings.
#[derive(Debug)]
pub(super) struct Socket {
    // Field order: the socket must be closed before the memory is unmapped.
    fd: OwnedFd,
    pub(super) umem: Umem,
}

impl Socket {
    /// Create the socket and its rings; frames are transferred only after `bind`.
    pub(super) fn new(shape: Shape) -> Result<(Self, Option<TxRings>, Option<RxRings>), PortError> {
        let fd = iolab_sys::socket::socket(libc::AF_XDP, libc::SOCK_RAW, 0)
            .map_err(PortError::of(OPENING, "socket"))?;
        let umem = Umem::new(shape.chunk_bytes, shape.send_frames + shape.receive_frames)?;
        let set = |name, value: u32| {
            iolab_sys::socket::set_option(&fd, libc::SOL_XDP, name, &value)
                .map_err(PortError::of(OPENING, "setsockopt"))
        };
        let mut area: libc::xdp_umem_reg = iolab_sys::zeroed();
        area.addr = umem.place(0, 0) as u64;
        area.len = (umem.chunk_bytes * umem.chunks as usize) as u64;
        area.chunk_size = u32::try_from(umem.chunk_bytes).unwrap_or(u32::MAX);
        // Before 6.8 the structure had no last field; every kernel accepts the older size.
        register(&fd, &area)?;
        // Both rings are mandatory, even for one direction.
        set(libc::XDP_UMEM_FILL_RING, shape.receive_frames.max(UNUSED_SLOTS))?;
        set(libc::XDP_UMEM_COMPLETION_RING, shape.send_frames.max(UNUSED_SLOTS))?;
        if shape.send_frames > 0 {
            set(libc::XDP_TX_RING, shape.send_frames)?;
            // With this option, fewer calls send the same frames; without kernel support, a call sends at most 32
            // frames.
            let _ = set(XDP_MAX_TX_SKB_BUDGET, shape.send_frames);
            let _ =
                iolab_sys::socket::set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(64i32 << 20));
        }
        if shape.receive_frames > 0 {
            set(libc::XDP_RX_RING, shape.receive_frames)?;
        }
        let rings = map_rings(&fd, shape)?;
        Ok((Self { fd, umem }, rings.0, rings.1))
    }

    /// Bind to a queue, first in zero-copy mode if requested; return the mode and the reason if it is not zero-copy.
    pub(super) fn bind(
        &self,
        interface: &Interface,
        queue: u32,
        zero_copy: bool,
    ) -> Result<(&'static str, Option<String>), PortError> {
        let mut reason = None;
        if zero_copy {
            match self.bind_as(interface, queue, libc::XDP_ZEROCOPY) {
                Ok(()) => return Ok(("zero-copy", None)),
                Err(PortError::System { errno, .. }) => reason = Some(format!("zero-copy refused: {errno}")),
                Err(other) => return Err(other),
            }
        }
        self.bind_as(interface, queue, libc::XDP_COPY)?;
        Ok(("copy", reason))
    }

    fn bind_as(&self, interface: &Interface, queue: u32, mode: u16) -> Result<(), PortError> {
        let mut address: libc::sockaddr_xdp = iolab_sys::zeroed();
        address.sxdp_family = u16::try_from(libc::AF_XDP).unwrap_or_default();
        address.sxdp_flags = mode | libc::XDP_USE_NEED_WAKEUP;
        address.sxdp_ifindex = interface.index;
        address.sxdp_queue_id = queue;
        let started = Instant::now();
        loop {
            let Err(seen) = iolab_sys::socket::bind(&self.fd, &address) else { return Ok(()) };
            if seen.raw_os_error() != Some(libc::EBUSY) {
                return Err(PortError::of("binding an AF_XDP socket", "bind")(seen));
            }
            let waited = started.elapsed();
            if waited > BUSY_LIMIT {
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                return Err(PortError::QueueBusy { name: interface.name.clone(), queue, waited_ms });
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }

    /// Return the kernel's counters of this socket.
    pub(super) fn kernel_counters(&self) -> Result<libc::xdp_statistics, PortError> {
        iolab_sys::socket::option(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS)
            .map(|(counters, _)| counters)
            .map_err(PortError::of("reading AF_XDP counters", "getsockopt"))
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn register(fd: &OwnedFd, area: &libc::xdp_umem_reg) -> Result<(), PortError> {
    let registered = match iolab_sys::socket::set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, area) {
        Err(seen) if seen.raw_os_error() == Some(libc::EINVAL) => {
            let older = [area.addr, area.len, u64::from(area.chunk_size) | u64::from(area.headroom) << 32, 0];
            iolab_sys::socket::set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &older)
        }
        other => other,
    };
    registered.map_err(|seen: io::Error| PortError::of("registering frame memory", "setsockopt")(seen))
}

fn map_rings(fd: &OwnedFd, shape: Shape) -> Result<(Option<TxRings>, Option<RxRings>), PortError> {
    let (at, _) =
        iolab_sys::socket::option::<libc::xdp_mmap_offsets>(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(PortError::of(OPENING, "getsockopt"))?;
    let page = |offset: u64| i64::try_from(offset).unwrap_or_default();
    let slots = shape.send_frames;
    let tx = if slots > 0 {
        let tx = MappedRing::map(fd, slots, &at.tx, libc::XDP_PGOFF_TX_RING)?;
        let completion = MappedRing::map(fd, slots, &at.cr, page(libc::XDP_UMEM_PGOFF_COMPLETION_RING))?;
        Some(TxRings { tx: Producer::new(tx), completion: Consumer::new(completion) })
    } else {
        None
    };
    let slots = shape.receive_frames;
    let rx = if slots > 0 {
        let rx = MappedRing::map(fd, slots, &at.rx, libc::XDP_PGOFF_RX_RING)?;
        let fill = MappedRing::map(fd, slots, &at.fr, page(libc::XDP_UMEM_PGOFF_FILL_RING))?;
        Some(RxRings { rx: Consumer::new(rx), fill: Producer::new(fill) })
    } else {
        None
    };
    Ok((tx, rx))
}
