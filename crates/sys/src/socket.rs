//! Sockets of all address families, over plain values. The callers define the meaning of options and
//! addresses.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::check;
use crate::plain::{zeroed, Plain};

/// Open a new socket with close-on-exec.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes only integers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel has just opened this descriptor for this process, and no other code knows its
    // number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Set a socket option.
pub fn set_option<T: Plain>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = length_of::<T>();
    // SAFETY: pointer and length describe `value`, which outlives the call; the kernel only reads it.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Return the value of a socket option and the number of bytes that the kernel wrote.
pub fn option<T: Plain>(fd: &OwnedFd, level: i32, name: i32) -> io::Result<(T, usize)> {
    let mut value: T = zeroed();
    let mut length = length_of::<T>();
    let place = ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes into `value`, and the new length into `length`; both
    // outlive the call.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, place, &raw mut length) })?;
    Ok((value, length as usize))
}

/// Bind a socket to an address of any family.
pub fn bind<T: Plain>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `address`, which outlives the call; the kernel only reads it.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(address).cast(), length_of::<T>()) })?;
    Ok(())
}

/// Set the congestion control `name` on a temporary TCP socket, so that the kernel loads its module, and
/// close the socket.
///
/// # Errors
/// Returns an error if the kernel lacks this congestion control or this process is not permitted to use it.
pub fn control_congestion(name: &str) -> io::Result<()> {
    let mut wanted = [0_u8; 16]; // TCP_CA_NAME_MAX
    let room = wanted.get_mut(..name.len()).ok_or(io::ErrorKind::InvalidInput)?;
    room.copy_from_slice(name.as_bytes());
    let tcp = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
    set_option(&tcp, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &wanted)
}

/// Notify the kernel of new descriptors in a transmit ring, without waiting.
pub fn kick_tx(fd: RawFd) -> io::Result<usize> {
    // SAFETY: the call passes no data and no address, so it accesses no memory.
    let sent = unsafe { libc::sendto(fd, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Notify the kernel of new descriptors in a receive ring, without waiting.
pub fn kick_rx(fd: RawFd) {
    // SAFETY: the kernel never writes to a null buffer of length 0.
    unsafe { libc::recvfrom(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut()) };
}

/// Send messages without waiting, and return the number of messages that the kernel accepted.
///
/// # Safety
/// Every part of every message must point to live memory of the stated length.
pub unsafe fn send_many(fd: RawFd, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    // SAFETY: pointer and count describe `messages`; the caller guarantees the memory that they point to.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Send bytes to a connected socket or to a kernel socket.
pub fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `bytes`; the kernel only reads them.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Receive one message and return its length in bytes.
pub fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `buffer`, to which this function has exclusive access during the
    // call.
    let got = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Wait until a descriptor is readable, for at most `timeout_ms`. Return whether a descriptor is readable.
pub fn wait_readable(fds: &[RawFd], timeout_ms: i32) -> io::Result<bool> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: pointer and count describe `polled`, to which this function has exclusive access during the
    // call.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    match check(ready) {
        Ok(count) => Ok(count > 0),
        Err(seen) if seen.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(seen) => Err(seen),
    }
}

/// Wait until a descriptor is readable, for at most `timeout_ns`. Return whether a descriptor is readable.
pub fn wait_readable_ns(fds: &[RawFd], timeout_ns: u64) -> io::Result<bool> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: a timespec consists of integers.
    let mut timeout: libc::timespec = unsafe { std::mem::zeroed() };
    timeout.tv_sec = libc::time_t::try_from(timeout_ns / 1_000_000_000).unwrap_or(libc::time_t::MAX);
    timeout.tv_nsec = libc::c_long::try_from(timeout_ns % 1_000_000_000).unwrap_or(0);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: pointer and count describe `polled`, to which this function has exclusive access during the
    // call; the signal mask is null.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
    match check(ready) {
        Ok(count) => Ok(count > 0),
        Err(seen) if seen.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(seen) => Err(seen),
    }
}

#[allow(clippy::cast_possible_truncation)] // structures of the kernel's interface are far below 4 GiB
const fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}
