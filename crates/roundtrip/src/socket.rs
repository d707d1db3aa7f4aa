//! Sockets as round trips need them: bound to the address of a port of the lab, with stamps of the kernel.

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

/// A number that no other program of this kind has now.
pub fn cookie() -> u64 {
    // Splitmix of the time and the process: neighbours differ in half of their bits.
    let mut mixed = now_ns() ^ (u64::from(std::process::id()) << 32) ^ 0x9E37_79B9_7F4A_7C15;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A connection from an address of this host.
pub fn connect_from(source: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let fd = socket(family_of(to.ip()), SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // Its port is chosen when it connects: then the same one serves for several servers.
    setsockopt(&fd, sockopt::IpBindAddressNoPort, &true)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    let stream = TcpStream::from(fd);
    stream.set_write_timeout(Some(CONNECT_LIMIT))?;
    connect(stream.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(stream)
}

/// A socket for echo requests of the kernel's own ICMP, or for datagrams, which says when each answer arrived.
pub fn echo_socket(source: IpAddr, to: SocketAddr, icmp: bool) -> io::Result<OwnedFd> {
    let family = family_of(to.ip());
    let fd = if icmp {
        let protocol = if to.is_ipv4() { SockProtocol::Icmp } else { SockProtocol::IcmpV6 };
        // A raw socket needs root; one of datagrams a setting that few namespaces have.
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

/// What arrived, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Of the datagram. (bytes)
    pub length: usize,
    /// When the kernel had it, by `CLOCK_MONOTONIC`; `None`: it did not say. (ns)
    pub at_ns: Option<u64>,
}

/// Takes the next datagram without waiting; `None`: there is none.
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
    fn cookies_differ() {
        let many: std::collections::HashSet<u64> = (0..100)
            .map(|_| {
                std::thread::sleep(Duration::from_micros(1));
                cookie()
            })
            .collect();
        assert_eq!(many.len(), 100);
    }
}
