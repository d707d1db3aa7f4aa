//! Calls of the kernel that the standard library does not offer, each as a safe function over plain values.
//! Knows no protocol: what a socket option or a ring means is said where it is used.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

/// Marks plain C structures of the kernel's interface: any bytes are a valid value and there is no padding that
/// matters.
///
/// # Safety
/// The type must be `repr(C)` and valid for every bit pattern.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ty),+ $(,)?) => {
        // SAFETY: each is an integer, an array of integers or a `repr(C)` structure of integers.
        $(unsafe impl $crate::sys::Plain for $name {})+
    };
}
pub(crate) use plain;

plain!(u8, u16, u32, u64, i32, i64, [u32; 9]);
plain!(
    libc::sockaddr_xdp,
    libc::sockaddr_ll,
    libc::xdp_mmap_offsets,
    libc::xdp_umem_reg,
    libc::xdp_statistics
);
plain!(libc::tpacket_req3, libc::tpacket_stats_v3, libc::xdp_desc);

/// The same 32 bits as a signed number.
pub(crate) const fn signed(bits: u32) -> i32 {
    i32::from_ne_bytes(bits.to_ne_bytes())
}

/// The same 32 bits as an unsigned number.
pub(crate) const fn unsigned(bits: i32) -> u32 {
    u32::from_ne_bytes(bits.to_ne_bytes())
}

/// A value whose every byte is zero.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain` promises that any bytes, so also zeros, are a valid value.
    unsafe { std::mem::zeroed() }
}

/// The plain value at the head of `bytes`, if they are enough.
pub(crate) fn read_head<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, `read_unaligned` needs no alignment, `Plain` makes any bytes a value.
    Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A new socket, closed on exec.
pub(crate) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel just gave this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets one socket option.
pub(crate) fn set_option<T: Plain>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = length_of::<T>();
    // SAFETY: pointer and length describe `value`, which outlives the call; the kernel only reads it.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Reads one socket option and how many bytes of it the kernel filled.
pub(crate) fn option<T: Plain>(fd: &OwnedFd, level: i32, name: i32) -> io::Result<(T, usize)> {
    let mut value: T = zeroed();
    let mut length = length_of::<T>();
    let place = ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes into `value`, and the new length into `length`; both outlive it.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, place, &mut length) })?;
    Ok((value, length as usize))
}

/// Binds a socket to an address of any family.
pub(crate) fn bind<T: Plain>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `address`, which outlives the call; the kernel only reads it.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(address).cast(), length_of::<T>()) })?;
    Ok(())
}

/// Tells the kernel to look at a transmit ring, without waiting.
pub(crate) fn kick_tx(fd: RawFd) -> io::Result<usize> {
    // SAFETY: no data and no address are passed, so no memory is touched.
    let sent = unsafe { libc::sendto(fd, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Tells the kernel to look at a receive ring, without waiting.
pub(crate) fn kick_rx(fd: RawFd) {
    // SAFETY: a null buffer of length 0 is never written.
    unsafe { libc::recvfrom(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut()) };
}

/// Sends messages without waiting; gives how many were taken.
///
/// # Safety
/// Every part of every message must point to live memory of its length.
pub(crate) unsafe fn send_many(fd: RawFd, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    // SAFETY: pointer and count describe `messages`; what they point to is the caller's promise.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sends bytes to a connected or kernel socket.
pub(crate) fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `bytes`; the kernel only reads them.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Receives one message; gives how many bytes it had.
pub(crate) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `buffer`, which is ours alone during the call.
    let got = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Waits until one of the descriptors can be read, at most `timeout_ms`; true when one can.
pub(crate) fn wait_readable(fds: &[RawFd], timeout_ms: i32) -> io::Result<bool> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: pointer and count describe `polled`, which is ours alone during the call.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    match check(ready) {
        Ok(count) => Ok(count > 0),
        Err(seen) if seen.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(seen) => Err(seen),
    }
}

/// One call of bpf(2) that gives a number (a descriptor, or zero).
///
/// # Safety
/// Every address inside `attributes` must be valid for what `command` does with it, for the length stated there.
pub(crate) unsafe fn bpf<T: Plain>(command: u32, attributes: &mut T) -> io::Result<RawFd> {
    let place = ptr::from_mut(attributes);
    // SAFETY: pointer and size describe `attributes`; what it points to in turn is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, place, size_of::<T>()) };
    i32::try_from(result).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)
}

/// Takes a descriptor that a call above just returned.
///
/// # Safety
/// `fd` must be open and owned by nobody else.
pub(crate) unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The time of one of the kernel's clocks. [ns]
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result; the clocks passed here exist on every kernel.
    unsafe { libc::clock_gettime(clock, &mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The CPU's cycle counter, or 0 where it has none that programs may read.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it touches no memory.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

/// Keeps the calling thread on one CPU.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    // SAFETY: a cpu_set_t is an array of integers; zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `cpu` was checked to lie within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: pointer and size describe `set`; 0 means the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })?;
    Ok(())
}

/// Lets the calling thread run before every other that is not real-time, or of less priority.
pub(crate) fn run_first(priority: i32) -> io::Result<()> {
    let order = libc::sched_param { sched_priority: priority };
    // SAFETY: `order` outlives the call, which reads it only; 0 means the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &order) })?;
    Ok(())
}

/// Moves the calling thread to a new network namespace.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: takes a flag and changes nothing but this thread's namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}

/// How many queues an interface receives from and sends through (ETHTOOL_GCHANNELS); one each when its driver does not say.
pub(crate) fn queues(fd: &OwnedFd, name: &str) -> (u32, u32) {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    // cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    // SAFETY: `channels` is as large as struct ethtool_channels, which is all that is answered.
    match unsafe { ethtool(fd, name, &mut channels) } {
        Ok(()) => ((channels[5] + channels[8]).max(1), (channels[6] + channels[8]).max(1)),
        Err(_) => (1, 1),
    }
}

/// Asks an interface's driver; the answer is written over the question in `words`.
///
/// # Safety
/// `words` has room for all that the kernel answers to that question.
pub(crate) unsafe fn ethtool(fd: &OwnedFd, name: &str, words: &mut [u32]) -> io::Result<()> {
    let mut request = request_for(name).ok_or(io::ErrorKind::InvalidInput)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request names an interface and points to `words`, which lives and is large enough (the caller's promise).
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub(crate) fn request_for(name: &str) -> Option<libc::ifreq> {
    // SAFETY: an ifreq is made of integers and a pointer; zeros (a null pointer) are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    Some(request)
}

#[allow(clippy::cast_possible_truncation)] // structures of the kernel's interface are far below 4 GiB
const fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

/// Memory that is mapped as long as the value lives: a UMEM or a ring shared with the kernel.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory that no thread owns; who may touch which part is decided by the rings above it.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives out raw pointers only, no references.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of new, zeroed memory, present at once.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// Maps `bytes` of what `fd` shares at `offset`.
    pub(crate) fn shared(fd: &OwnedFd, bytes: usize, offset: i64) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(bytes: usize, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so no existing memory is affected.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes are mapped.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those mmap gave; every user of the memory holds this value and is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
