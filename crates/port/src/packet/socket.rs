//! What the AF_PACKET ports share: an interface checked, a socket bound to it, options set.

use std::os::fd::OwnedFd;

use crate::error::PortError;
use crate::interface::Interface;
use crate::sys::{self, Plain};

pub(super) const OPENING: &str = "opening an AF_PACKET socket";

/// More than any batch needs; without root the kernel gives less, and says "not now" earlier.
const SEND_BUFFER_BYTES: i32 = 64 << 20;

/// A raw socket that is not bound yet, so that nothing arrives.
pub(super) fn raw() -> Result<OwnedFd, PortError> {
    sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(PortError::of(OPENING, "socket"))
}

pub(super) fn set<T: Plain>(fd: &OwnedFd, name: i32, value: &T) -> Result<(), PortError> {
    sys::set_option(fd, libc::SOL_PACKET, name, value).map_err(PortError::of(OPENING, "setsockopt"))
}

/// Binds to an interface; `protocol` 0 receives nothing.
pub(super) fn bind(fd: &OwnedFd, interface: &Interface, protocol: u16) -> Result<(), PortError> {
    let mut address: libc::sockaddr_ll = sys::zeroed();
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = sys::signed(interface.index);
    sys::bind(fd, &address).map_err(PortError::of(OPENING, "bind"))
}

/// A socket for sending past the queueing discipline.
pub(super) fn sender() -> Result<OwnedFd, PortError> {
    let fd = raw()?;
    set(&fd, libc::PACKET_QDISC_BYPASS, &1i32)?;
    let level = libc::SOL_SOCKET;
    if sys::set_option(&fd, level, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES).is_err() {
        // Only root may go past the host's limit; less is slower, not wrong.
        let _ = sys::set_option(&fd, level, libc::SO_SNDBUF, &SEND_BUFFER_BYTES);
    }
    Ok(fd)
}
