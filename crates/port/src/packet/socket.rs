//! Shared functions of the `AF_PACKET` ports: socket creation, binding and options.

use std::os::fd::OwnedFd;

use iolab_sys::Plain;

use crate::error::PortError;
use crate::interface::Interface;
use crate::observed::Way;

pub(super) const OPENING: &str = "opening an AF_PACKET socket";

/// Send buffer size, more than any batch needs; without root the kernel limits it, and returns EAGAIN earlier.
const SEND_BUFFER_BYTES: i32 = 512 << 20;

/// Indices in `SO_MEMINFO` of the bytes of sent frames that are not freed, and of their limit.
const IN_FLIGHT: usize = 2;
const MOST_IN_FLIGHT: usize = 3;

/// Open a raw socket without binding it, so that it receives nothing.
pub(super) fn raw() -> Result<OwnedFd, PortError> {
    iolab_sys::socket::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(PortError::of(OPENING, "socket"))
}

pub(super) fn set<T: Plain>(fd: &OwnedFd, name: i32, value: &T) -> Result<(), PortError> {
    iolab_sys::socket::set_option(fd, libc::SOL_PACKET, name, value)
        .map_err(PortError::of(OPENING, "setsockopt"))
}

/// Bind to an interface; with `protocol` 0 the socket receives nothing.
pub(super) fn bind(fd: &OwnedFd, interface: &Interface, protocol: u16) -> Result<(), PortError> {
    let mut address: libc::sockaddr_ll = iolab_sys::zeroed();
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = iolab_sys::signed(interface.index);
    iolab_sys::socket::bind(fd, &address).map_err(PortError::of(OPENING, "bind"))
}

/// Return the number of bytes that can still be queued for transmission.
pub(super) fn room_bytes(fd: &OwnedFd) -> Result<usize, PortError> {
    let (memory, _) = iolab_sys::socket::option::<[u32; 9]>(fd, libc::SOL_SOCKET, libc::SO_MEMINFO)
        .map_err(PortError::of("sending through AF_PACKET", "getsockopt"))?;
    Ok(memory[MOST_IN_FLIGHT].saturating_sub(memory[IN_FLIGHT]) as usize)
}

/// Open a socket that sends without the queueing discipline.
pub(super) fn sender() -> Result<OwnedFd, PortError> {
    let fd = raw()?;
    set(&fd, libc::PACKET_QDISC_BYPASS, &1i32)?;
    let level = libc::SOL_SOCKET;
    if iolab_sys::socket::set_option(&fd, level, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES).is_err() {
        // Only root may exceed the system limit (`wmem_max`); a smaller buffer is slower, but correct.
        let _ = iolab_sys::socket::set_option(&fd, level, libc::SO_SNDBUF, &SEND_BUFFER_BYTES);
    }
    Ok(fd)
}

/// Offset of the packet type for a classic BPF filter (`SKF_AD_OFF` + `SKF_AD_PKTTYPE`, linux/filter.h).
const PACKET_KIND: u32 = 0xffff_f004;
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

#[repr(C)]
#[derive(Clone, Copy)]
struct FilterSpec {
    count: u16,
    instructions: u64,
}

// SAFETY: a `repr(C)` structure of integers.
unsafe impl Plain for FilterSpec {}

/// Filter a socket to packets in one or both directions, truncated to the first `most_bytes`.
pub(super) fn keep_way(fd: &OwnedFd, way: Option<Way>, most_bytes: u32) -> Result<(), PortError> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let kept = |one| if way.is_none_or(|way| way == one) { most_bytes } else { 0 };
    let (leaving, coming) = (kept(Way::Out), kept(Way::In));
    let program = [
        step(LOAD_WORD, 0, 0, PACKET_KIND),
        step(JUMP_IF_EQUAL, 0, 1, u32::from(libc::PACKET_OUTGOING)),
        step(RETURN, 0, 0, leaving),
        step(RETURN, 0, 0, coming),
    ];
    let spec = FilterSpec { count: 4, instructions: program.as_ptr() as u64 };
    // The kernel copies the filter during the call, while `program` is live.
    iolab_sys::socket::set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &spec)
        .map_err(PortError::of(OPENING, "setsockopt"))
}
