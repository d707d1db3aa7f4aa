//! Sockets for round trips: bound to the address of a lab port, with kernel timestamps.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use iolab_sys::clock::{now_ns, RealtimeOffset};
use nix::cmsg_space;
use nix::sys::socket::{
    bind, connect, recvmsg, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned, MsgFlags,
    SockFlag, SockProtocol, SockType, SockaddrStorage,
};
use nix::sys::time::TimeSpec;

/// Return a number that differs from the numbers of concurrent programs of this kind.
pub fn cookie() -> u64 {
    // Splitmix64 of the time and the process ID: similar inputs differ in half of the output bits.
    let mut mixed = now_ns() ^ (u64::from(std::process::id()) << 32) ^ 0x9E37_79B9_7F4A_7C15;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Open a TCP connection from the local address `source`.
pub fn connect_from(source: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let fd = socket(family_of(to.ip()), SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // `connect` selects the port, so connections to different servers may share it.
    setsockopt(&fd, sockopt::IpBindAddressNoPort, &true)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    let stream = TcpStream::from(fd);
    stream.set_write_timeout(Some(CONNECT_LIMIT))?;
    connect(stream.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(stream)
}

/// Open a raw ICMP socket for echo requests, or a UDP socket, with a kernel timestamp on each received
/// datagram.
pub fn echo_socket(source: IpAddr, to: SocketAddr, icmp: bool) -> io::Result<OwnedFd> {
    let family = family_of(to.ip());
    let fd = if icmp {
        let protocol = if to.is_ipv4() { SockProtocol::Icmp } else { SockProtocol::IcmpV6 };
        // A raw socket requires root. An ICMP datagram socket requires a sysctl setting that few network
        // namespaces have.
        socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?
    } else {
        socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?
    };
    setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&fd, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    let port = if icmp { 0 } else { to.port() };
    connect(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(to.ip(), port)))?;
    Ok(fd)
}

/// Length and arrival time of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Length of the datagram in bytes.
    pub length: usize,
    /// Arrival time at the kernel by `CLOCK_MONOTONIC`, in ns; `None` without a kernel timestamp.
    pub at_ns: Option<u64>,
}

/// Receive the next datagram without waiting; `None` if no datagram is queued.
pub fn receive_stamped(
    fd: &OwnedFd,
    buffer: &mut [u8],
    offset: RealtimeOffset,
) -> io::Result<Option<Arrived>> {
    let mut space = cmsg_space!(TimeSpec);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let received = recvmsg::<()>(fd.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT);
    let message = match received {
        Ok(message) => message,
        Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stamp = message.cmsgs()?.find_map(|each| match each {
        ControlMessageOwned::ScmTimestampns(time) => Some(time),
        _ => None,
    });
    let at_ns = stamp.and_then(|time| {
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        let rest = u64::try_from(time.tv_nsec()).ok()?;
        Some(offset.to_monotonic(seconds * 1_000_000_000 + rest))
    });
    Ok(Some(Arrived { length: message.bytes, at_ns }))
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const RECEIVE_BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_concurrent_programs_are_unique() {
        let many: std::collections::HashSet<u64> = (0..100)
            .map(|_| {
                std::thread::sleep(Duration::from_micros(1));
                cookie()
            })
            .collect();
        assert_eq!(many.len(), 100);
    }
}
