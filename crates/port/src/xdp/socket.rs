//! One `AF_XDP` socket: its frame memory (UMEM), its four rings, its binding to a queue. Knows nothing of what frames
//! are for; sending and receiving are its users'.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iolab_sys::{Mapping, Plain};

use crate::error::PortError;
use crate::interface::Interface;
use crate::ring::{Consumer, Memory, Producer};

/// What the kernel leaves free before each received frame (`XDP_PACKET_HEADROOM`). (bytes)
pub(super) const HEADROOM_BYTES: usize = 256;

/// Teardown of an earlier socket is asynchronous in the kernel and gives EBUSY meanwhile: for milliseconds where
/// the host is calm, and for more than a second where its kernel threads wait for a CPU.
const BUSY_LIMIT: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// The tx option that lets one call send more than 32 frames; since 6.17, and not yet in the libc crate.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

const OPENING: &str = "opening an AF_XDP socket";

/// Frame memory, cut into chunks of equal size.
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

    /// Where `bytes` bytes at `offset` are.
    ///
    /// # Panics
    /// When they are not inside of the memory.
    #[inline]
    pub(super) fn place(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            offset <= self.memory.bytes() && bytes <= self.memory.bytes() - offset,
            "frame outside of the UMEM"
        );
        // SAFETY: just checked to lie inside of one mapping, or one past its end when `bytes` is 0.
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

// SAFETY: the pointers lead into the mapping, which the value owns; access follows the ring protocol of one producer
// and one consumer, whichever thread has the role.
unsafe impl<T: Send> Send for MappedRing<T> {}

impl<T: Plain> MappedRing<T> {
    fn map(fd: &OwnedFd, slots: u32, at: &libc::xdp_ring_offset, page: i64) -> Result<Self, PortError> {
        let offset = |field: u64| usize::try_from(field).unwrap_or(usize::MAX);
        let bytes = offset(at.desc) + slots as usize * size_of::<T>();
        let mapping = Mapping::shared(fd, bytes, page).map_err(PortError::of(OPENING, "mmap"))?;
        let start = mapping.start();
        // SAFETY: the kernel gave this offset for a mapping of this size, so it lies inside of it.
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

    /// True when the kernel sleeps on this ring until a call wakes it.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: an aligned word inside of the mapping, which lives as long as `self`; only ever used atomically.
        let flags = unsafe { &*self.flags };
        // Relaxed: a hint; a missed wakeup is made good at the next flush.
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Plain> Memory for MappedRing<T> {
    type Item = T;
    type Index = AtomicU32;

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: an aligned word inside of the mapping, which lives as long as `self`; only ever used atomically.
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
        // SAFETY: `slot` is below `slots` and ours to read (the caller's promise); `items` has `slots` items.
        unsafe { self.items.add(slot as usize).read() }
    }

    #[inline]
    unsafe fn write(&self, slot: u32, item: T) {
        debug_assert!(slot < self.slots);
        // SAFETY: `slot` is below `slots` and ours to write (the caller's promise); `items` has `slots` items.
        unsafe { self.items.add(slot as usize).write(item) }
    }
}

/// What one socket is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) chunk_bytes: usize,
    /// frames for sending, and slots of the rings they pass; 0 when the socket does not send
    pub(super) send_frames: u32,
    /// frames for receiving, and slots of the rings they pass; 0 when the socket does not receive
    pub(super) receive_frames: u32,
}

/// A ring that must exist and is not used.
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

/// A socket with its frame memory; the rings are with whoever sends and receives.
#[derive(Debug)]
pub(super) struct Socket {
    // Closed before the memory goes: fields drop in order.
    fd: OwnedFd,
    pub(super) umem: Umem,
}

impl Socket {
    /// Makes the socket and its rings; frames flow after `bind`.
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
        // Until 6.8 the structure had no last field; its older size is understood by every kernel.
        register(&fd, &area)?;
        // Both must exist, even for one direction.
        set(libc::XDP_UMEM_FILL_RING, shape.receive_frames.max(UNUSED_SLOTS))?;
        set(libc::XDP_UMEM_COMPLETION_RING, shape.send_frames.max(UNUSED_SLOTS))?;
        if shape.send_frames > 0 {
            set(libc::XDP_TX_RING, shape.send_frames)?;
            // Fewer calls for the same frames where the kernel has it; elsewhere 32 a call.
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

    /// Binds to a queue, in zero-copy mode first if asked; gives the mode and why it is not the other.
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

    /// The kernel's counters of this socket.
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
