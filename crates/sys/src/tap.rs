//! Tap interfaces and the flags of interfaces, set through ioctl in the network namespace of the calling
//! thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::bpf::{BpfError, Program};
use crate::{check, ethtool, socket, unsigned};

/// Options of a tap interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapKind {
    /// Whether each frame has a virtio header.
    pub vnet_header: bool,
    /// Whether the interface supports several queues.
    pub multi_queue: bool,
    /// Whether reads return immediately if no frame is queued (`O_NONBLOCK`).
    pub never_waits: bool,
}

/// Offloads of a tap: frames that the network stack may pass to its reader unfinished, described by the
/// virtio header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Checksum offload only: the stack segments all super-frames.
    Checksums,
    /// Checksum offload and TCP super-frames; also UDP super-frames if the kernel supports them.
    SuperFrames,
}

/// Open a queue of the tap interface `name`, and create the interface if necessary. The interface exists until the
/// descriptor is closed, unless it is persistent.
///
/// # Errors
/// Returns an error if the name is invalid, the kernel has no tap driver (file not found) or the kernel
/// refuses.
pub fn open_tap(name: &str, kind: TapKind) -> io::Result<OwnedFd> {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    if kind.vnet_header {
        flags |= libc::IFF_VNET_HDR;
    }
    if kind.multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let waiting = if kind.never_waits { libc::O_NONBLOCK } else { 0 };
    let device = File::options().read(true).write(true).custom_flags(waiting).open(TUN_DEVICE)?;
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel accesses only the ifreq.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(device.into())
}

/// Return the name of the interface to which the open tap or macvtap queue `device` belongs.
///
/// # Errors
/// Returns an error if the file is not a tap queue or its interface no longer exists.
pub fn name_of_tap(device: BorrowedFd<'_>) -> io::Result<String> {
    let mut request = ethtool::request_for("").ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel writes only to the ifreq.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNGETIFF as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = request.ifr_name.iter().map(|&letter| letter.to_ne_bytes()[0]);
    let name = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Set the offloads that the reader of a tap supports. Return whether they include UDP super-frames.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn take_unfinished(device: BorrowedFd<'_>, what: Unfinished) -> io::Result<bool> {
    const TUN_F_USO: libc::c_ulong = 0x20 | 0x40; // for IPv4 and IPv6, since Linux 6.2
    let tcp = libc::c_ulong::from(libc::TUN_F_TSO4 | libc::TUN_F_TSO6);
    let checksums = libc::c_ulong::from(libc::TUN_F_CSUM);
    // SAFETY: the request takes an integer, and the descriptor is open.
    let set =
        |flags: libc::c_ulong| unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, flags) };
    if what == Unfinished::Checksums {
        return check(set(checksums)).map(|_| false);
    }
    if set(checksums | tcp | TUN_F_USO) >= 0 {
        return Ok(true);
    }
    check(set(checksums | tcp)).map(|_| false)
}

/// Remove the send buffer limit (`TUNSETSNDBUF`) of a tap, so that any number of written bytes can wait for the
/// receiver.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn unlimited_writes(device: BorrowedFd<'_>) -> io::Result<()> {
    let most = libc::c_int::MAX;
    // SAFETY: the request reads one int, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETSNDBUF as _, &most) })?;
    Ok(())
}

/// Attach `program` to a tap as its filter, which runs on every frame before the frame is queued for the
/// reader. The tap keeps the program.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn filter_by(device: BorrowedFd<'_>, program: &Program) -> Result<(), BpfError> {
    const TUNSETFILTEREBPF: libc::c_ulong = 0x8004_54e1; // _IOR('T', 225, int)
    let descriptor = program.as_raw_fd();
    // SAFETY: the request reads one int, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETFILTEREBPF as _, &descriptor) })
        .map_err(BpfError::of("stamping the frames of a tap", "TUNSETFILTEREBPF"))?;
    Ok(())
}

/// Set the transmit queue length of the interface `name`, in frames.
///
/// # Errors
/// Returns an error if the interface does not exist or the kernel refuses.
pub fn set_queue_frames(name: &str, frames: u16) -> io::Result<()> {
    let socket = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_metric = libc::c_int::from(frames); // ifr_qlen is the same integer
                                                              // SAFETY: the request is a whole ifreq that
                                                              // outlives the call; the kernel only reads it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN as _, &mut request) })?;
    Ok(())
}

/// Bring the interface `name` up.
///
/// # Errors
/// Returns an error if the interface does not exist or the kernel refuses.
pub fn bring_up(name: &str) -> io::Result<()> {
    let socket = socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = request_for(name)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel writes its flags.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above wrote the flags, which are an integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel only reads it.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// An interface's index and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceState {
    /// Interface index.
    pub index: u32,
    /// Whether the interface is up and has a carrier.
    pub running: bool,
}

/// Return index and state of the interface `name` in the network namespace of `socket`.
///
/// # Errors
/// Returns an error if the interface does not exist.
pub fn interface_state(socket: &OwnedFd, name: &str) -> io::Result<InterfaceState> {
    let mut request = request_for(name)?;
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel writes the index.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX as _, &mut request) })?;
    // SAFETY: the call above wrote the index, which is an integer.
    let index = unsigned(unsafe { request.ifr_ifru.ifru_ifindex });
    // SAFETY: the request is a whole ifreq that outlives the call; the kernel writes the flags.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) })?;
    // SAFETY: the call above wrote the flags, which are an integer.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    Ok(InterfaceState { index, running: flags & wanted == wanted })
}

fn request_for(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    ethtool::request_for(name).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The device node that creates tap interfaces.
pub const TUN_DEVICE: &str = "/dev/net/tun";
