//! Interface properties over route netlink: index, MTU, address, counters, XDP program. Queries apply to the network
//! namespace of the calling thread and change nothing.

use std::os::fd::OwnedFd;

use crate::error::PortError;
use crate::route::{route_socket, Request, HEADER};

const LOOKING: &str = "looking at an interface";

/// The interface counters (`rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceCounters {
    /// Received frames.
    pub rx_frames: u64,
    /// Sent frames.
    pub tx_frames: u64,
    /// Received bytes.
    pub rx_bytes: u64,
    /// Sent bytes.
    pub tx_bytes: u64,
    /// Receive errors (frames).
    pub rx_errors: u64,
    /// Transmit errors (frames).
    pub tx_errors: u64,
    /// Frames dropped on receive.
    pub rx_dropped: u64,
    /// Frames dropped on transmit.
    pub tx_dropped: u64,
}

/// An XDP program attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedProgram {
    /// BPF program id.
    pub program_id: u32,
    /// Attach mode: native, generic or offloaded.
    pub mode: &'static str,
}

/// An interface of the thread's network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Interface name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// MTU (bytes).
    pub mtu_bytes: usize,
    /// MAC address.
    pub address: [u8; 6],
    /// Whether the interface is administratively up.
    pub up: bool,
    /// Number of receive queues in use.
    pub queues: u32,
    /// Number of transmit queues in use.
    pub send_queues: u32,
    /// Attached XDP program, if any.
    pub program: Option<AttachedProgram>,
    /// Interface counters at the time of the query.
    pub counters: InterfaceCounters,
}

impl Interface {
    /// Query an interface by name.
    ///
    /// # Errors
    /// Fails if the name is invalid, the interface does not exist, or the netlink request fails.
    pub fn find(name: &str) -> Result<Self, PortError> {
        if name.is_empty() || name.len() > 15 || name.bytes().any(|byte| byte == b'/' || byte <= b' ') {
            return Err(PortError::BadName { name: name.to_owned() });
        }
        let reply = ask(name).map_err(|seen| Self::not_found(name, seen))?;
        let mut found =
            parse(name, &reply).ok_or_else(|| PortError::NoInterface { name: name.to_owned() })?;
        (found.queues, found.send_queues) = iolab_sys::queues(name);
        Ok(found)
    }

    fn not_found(name: &str, seen: std::io::Error) -> PortError {
        match seen.raw_os_error() {
            Some(libc::ENODEV | libc::EINVAL) => PortError::NoInterface { name: name.to_owned() },
            _ => PortError::System { doing: LOOKING, syscall: "netlink", errno: seen },
        }
    }

    /// Return the maximum frame length with `vlan_tags` tags (bytes, without FCS); the kernel does not count the
    /// first tag against the MTU.
    pub fn most_bytes(&self, vlan_tags: u8) -> usize {
        self.mtu_bytes + 14 + if vlan_tags > 0 { 4 } else { 0 }
    }

    /// Verify that frames of `frame_bytes` can be sent and received on the interface.
    ///
    /// # Errors
    /// Fails if the interface is down, or the frame exceeds its MTU.
    pub fn check(&self, frame_bytes: usize, vlan_tags: u8) -> Result<(), PortError> {
        if !self.up {
            return Err(PortError::Down { name: self.name.clone() });
        }
        let most_bytes = self.most_bytes(vlan_tags);
        if frame_bytes > most_bytes {
            let (name, mtu_bytes) = (self.name.clone(), self.mtu_bytes);
            return Err(PortError::FrameOverMtu { name, frame_bytes, mtu_bytes, most_bytes });
        }
        Ok(())
    }

    /// Read the current counters.
    ///
    /// # Errors
    /// Fails if the interface no longer exists.
    pub fn counters_now(&self) -> Result<InterfaceCounters, PortError> {
        Self::find(&self.name).map(|found| found.counters)
    }
}

const LINK: usize = 16; // struct ifinfomsg
const IFLA_ADDRESS: u16 = 1;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_MTU: u16 = 4;
const IFLA_STATS64: u16 = 23;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_PROG_ID: u16 = 4;
pub(crate) const NLA_F_NESTED: u16 = 0x8000;

/// Create a request about the link with this index.
pub(crate) fn link_request(kind: u16, flags: i32, index: u32) -> Request {
    let mut body = [0; LINK];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    Request::new(kind, flags, &body)
}

fn ask(name: &str) -> std::io::Result<Vec<u8>> {
    ask_through(&route_socket()?, name)
}

fn ask_through(socket: &OwnedFd, name: &str) -> std::io::Result<Vec<u8>> {
    let mut terminated = name.as_bytes().to_vec();
    terminated.push(0);
    link_request(libc::RTM_GETLINK, 0, 0).attribute(IFLA_IFNAME, &terminated).exchange(socket)
}

/// Set the XDP program that is attached by netlink (file descriptor), or remove it (-1).
pub(crate) fn set_program(index: u32, program: i32, flags: u32) -> std::io::Result<()> {
    let nested = Request::inner(&[])
        .attribute(IFLA_XDP_FD, &program.to_ne_bytes())
        .attribute(IFLA_XDP_FLAGS, &flags.to_ne_bytes());
    let request = link_request(libc::RTM_SETLINK, libc::NLM_F_ACK, index);
    request.attribute(IFLA_XDP | NLA_F_NESTED, nested.bytes()).exchange(&route_socket()?).map(drop)
}

/// Queries one interface repeatedly, from any namespace.
#[derive(Debug)]
pub struct InterfaceEye {
    socket: OwnedFd,
    name: String,
}

impl InterfaceEye {
    /// Create a handle for an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// Fails if the netlink socket cannot be opened.
    pub fn new(name: &str) -> Result<Self, PortError> {
        let socket = route_socket().map_err(PortError::of(LOOKING, "socket"))?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// Query the interface, without the numbers of its queues.
    ///
    /// # Errors
    /// Fails if the interface no longer exists.
    pub fn look(&self) -> Result<Interface, PortError> {
        let reply =
            ask_through(&self.socket, &self.name).map_err(|seen| Interface::not_found(&self.name, seen))?;
        parse(&self.name, &reply).ok_or_else(|| PortError::NoInterface { name: self.name.clone() })
    }
}

fn parse(name: &str, reply: &[u8]) -> Option<Interface> {
    let link = reply.get(HEADER..HEADER + LINK)?;
    let index = iolab_sys::read_head::<u32>(&link[4..])?;
    let flags = iolab_sys::read_head::<u32>(&link[8..])?;
    let mut found = Interface {
        name: name.to_owned(),
        index,
        mtu_bytes: 0,
        address: [0; 6],
        up: flags & iolab_sys::unsigned(libc::IFF_UP) != 0,
        queues: 1,
        send_queues: 1,
        program: None,
        counters: InterfaceCounters::default(),
    };
    for (kind, value) in attributes(reply.get(HEADER + LINK..)?) {
        match kind {
            IFLA_MTU => found.mtu_bytes = iolab_sys::read_head::<u32>(value)? as usize,
            IFLA_ADDRESS if value.len() == 6 => found.address.copy_from_slice(value),
            IFLA_STATS64 => found.counters = counters(value)?,
            IFLA_XDP => found.program = program(value),
            _ => {}
        }
    }
    Some(found)
}

/// Return the attributes of a netlink message, each with its type.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(iolab_sys::read_head::<u16>(bytes)?);
        let kind = iolab_sys::read_head::<u16>(bytes.get(2..)?)? & !(0x8000 | 0x4000);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn counters(value: &[u8]) -> Option<InterfaceCounters> {
    let field = |index: usize| iolab_sys::read_head::<u64>(value.get(8 * index..)?);
    Some(InterfaceCounters {
        rx_frames: field(0)?,
        tx_frames: field(1)?,
        rx_bytes: field(2)?,
        tx_bytes: field(3)?,
        rx_errors: field(4)?,
        tx_errors: field(5)?,
        rx_dropped: field(6)?,
        tx_dropped: field(7)?,
    })
}

fn program(value: &[u8]) -> Option<AttachedProgram> {
    let (mut attached, mut program_id) = (0, 0);
    for (kind, value) in attributes(value) {
        match kind {
            IFLA_XDP_ATTACHED => attached = iolab_sys::read_head::<u8>(value)?,
            IFLA_XDP_PROG_ID => program_id = iolab_sys::read_head::<u32>(value)?,
            _ => {}
        }
    }
    let mode = match attached {
        0 => return None,
        1 => "native",
        2 => "generic",
        3 => "offloaded",
        _ => "several modes",
    };
    Some(AttachedProgram { program_id, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback interface is found with the MTU of the kernel, and its counters only grow.
    #[test]
    fn loopback_interface_is_found() {
        let first = Interface::find("lo").unwrap();
        assert_eq!((first.index, first.address, first.program), (1, [0; 6], None));
        assert!(first.mtu_bytes >= 1500);
        assert!(first.counters_now().unwrap().tx_frames >= first.counters.tx_frames);
    }

    /// Invalid interface names and names of missing interfaces give different errors.
    #[test]
    fn invalid_and_unknown_interface_names_give_different_errors() {
        for name in ["", "a-name-of-sixteen", "a b", "a/b"] {
            assert!(matches!(Interface::find(name), Err(PortError::BadName { .. })), "{name:?}");
        }
        let seen = Interface::find("iolab-b-none").unwrap_err();
        assert!(matches!(&seen, PortError::NoInterface { name } if name == "iolab-b-none"), "{seen:?}");
    }

    /// A truncated or invalid reply gives no result, and no panic.
    #[test]
    fn truncated_netlink_replies_give_no_result() {
        let reply = ask("lo").unwrap();
        for length in 0..HEADER + LINK {
            assert_eq!(parse("lo", &reply[..length]), None);
        }
        for length in HEADER + LINK..reply.len() {
            let _ = parse("lo", &reply[..length]);
        }
    }
}
