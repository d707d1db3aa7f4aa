//! Tap interfaces and the state of interfaces, set of the kernel with ioctl. In the namespace of the calling thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::{ethtool, socket};

/// How a tap is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapKind {
    /// frames carry a virtio header
    pub vnet_header: bool,
    /// it may have several queues
    pub multi_queue: bool,
}

/// Opens the tap interface `name`, making it if need be, or one more queue of it. It lives as long as the descriptor, unless
/// it was made persistent.
///
/// # Errors
/// When the name is none, the kernel has no taps (no such file) or refuses.
pub fn open_tap(name: &str, kind: TapKind) -> io::Result<OwnedFd> {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    if kind.vnet_header {
        flags |= libc::IFF_VNET_HDR;
    }
    if kind.multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let device = File::options().read(true).write(true).open(TUN_DEVICE)?;
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel reads and writes no more than it.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(device.into())
}

/// The name of the interface that the open tap or macvtap `device` is a queue of.
///
/// # Errors
/// When it is none, or its interface has gone.
pub fn name_of_tap(device: BorrowedFd<'_>) -> io::Result<String> {
    let mut request = ethtool::request_for("").ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel writes no more than it.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNGETIFF as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = request.ifr_name.iter().map(|&letter| letter.to_ne_bytes()[0]);
    let name = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Brings the interface `name` up.
///
/// # Errors
/// When there is none of that name or the kernel refuses.
pub fn bring_up(name: &str) -> io::Result<()> {
    let socket = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = request_for(name)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel writes its flags.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above filled the flags, which are an integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: as above; the kernel only reads.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn request_for(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    ethtool::request_for(name).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The device taps are made with.
pub const TUN_DEVICE: &str = "/dev/net/tun";
