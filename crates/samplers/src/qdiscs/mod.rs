//! Counters of the queueing disciplines in the calling thread's namespace, asked from the kernel over rtnetlink.

mod message;

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};

use iolab_protocol::observations::QdiscCounts;
use nix::sys::socket::{recv, send, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

use crate::SampleError;

/// Read the counters of every queueing discipline.
///
/// # Errors
/// When the kernel refuses or its answer cannot be understood.
pub fn read() -> Result<Vec<QdiscCounts>, SampleError> {
    let mut qdiscs = Vec::new();
    dump_qdiscs(|part| message::parse(part, &mut qdiscs))?;
    let names = interface_names()?;
    Ok(qdiscs.into_iter().filter_map(|qdisc| qdisc.named(&names)).collect())
}

fn dump_qdiscs(
    mut take: impl FnMut(&[u8]) -> Result<message::Progress, SampleError>,
) -> Result<(), SampleError> {
    let refused = |errno| SampleError::Netlink { doing: "asking the kernel for its qdiscs", errno };
    let channel: OwnedFd =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .map_err(refused)?;
    send(channel.as_raw_fd(), &message::dump_request(), MsgFlags::empty()).map_err(refused)?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let length = recv(channel.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(refused)?;
        if take(&buffer[..length])? == message::Progress::Done {
            return Ok(());
        }
    }
}

fn interface_names() -> Result<HashMap<u32, String>, SampleError> {
    let refused =
        |errno| SampleError::Netlink { doing: "asking the kernel for the interfaces' names", errno };
    let interfaces = nix::net::if_::if_nameindex().map_err(refused)?;
    Ok(interfaces.iter().map(|each| (each.index(), each.name().to_string_lossy().into_owned())).collect())
}

/// The kernel fills at most this much of a dump into one datagram, see `netlink_dump`.
const DATAGRAM_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_is_understood() {
        read().unwrap();
    }
}
