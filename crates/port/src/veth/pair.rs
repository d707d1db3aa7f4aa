//! A veth pair with its far end in a private network namespace of this process; it is removed on drop, and by the
//! kernel when the process ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use iolab_sys::{tap, thread};

use crate::error::PortError;
use crate::interface::{link_request, Interface, IFLA_IFNAME, IFLA_MTU, NLA_F_NESTED};
use crate::route::{route_socket, Request};

/// The delivery of frames to the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Frames are delivered individually, as soon as they are sent.
    Apart,
    /// Frames sent together may be merged by the stack (GRO), which reduces its cost; for streams.
    Joined,
}

/// Name of the far end in its namespace.
pub const FAR: &str = "far";

const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const VETH_INFO_PEER: u16 = 1;

/// Length of the Ethernet header: frame length minus MTU (bytes).
const ETHERNET_BYTES: usize = 14;

/// Offloads disabled on an end, because the far end forwards frames unchanged: checksums and out-of-band VLAN tags,
/// and with them TSO. If the far end has no TSO, all its frames, live or not, go to the NAPI queue of the near end;
/// with TSO, frames of a socket use the CPU's backlog queue (`veth_skb_is_eligible_for_gro`).
const UNFINISHED: [(&str, bool); 4] = [
    ("tx-checksum-ip-generic", false),
    ("tx-checksum-sctp", false),
    ("tx-vlan-hw-insert", false),
    ("tx-vlan-stag-hw-insert", false),
];
/// Feature that enables NAPI on the near end; without NAPI, this end drops frames that have no skb.
const TAKES_IN: [(&str, bool); 1] = [("rx-gro", true)];

/// A veth pair.
#[derive(Debug)]
pub struct Pair {
    /// Index of the near end and a netlink socket in its namespace, for removal.
    near: (u32, OwnedFd),
    namespace: File,
}

impl Pair {
    /// Create the near end `name` in the calling thread's namespace, for frames of up to `frame_bytes`, and run
    /// `work` in the namespace of the far end.
    pub fn new<T: Send>(
        name: &str,
        frame_bytes: usize,
        arrival: Arrival,
        work: impl FnOnce() -> Result<T, PortError> + Send,
    ) -> Result<(Self, T), PortError> {
        let doing = "making a veth pair";
        let namespace = in_a_thread(quiet_network).map_err(PortError::of(doing, "unshare"))?;
        let socket = route_socket().map_err(PortError::of(doing, "socket"))?;
        make(name, frame_bytes, &namespace, &socket).map_err(PortError::of(doing, "RTM_NEWLINK"))?;
        let this = Self { near: (Interface::find(name)?.index, socket), namespace };
        let switch = |name: &str, switches: &[(&str, bool)]| {
            iolab_sys::set_features(name, switches).map_err(PortError::of(doing, "ETHTOOL_SFEATURES"))
        };
        switch(name, &UNFINISHED)?;
        switch(name, &TAKES_IN)?;
        let far = || {
            thread::enter_network(&this.namespace).map_err(PortError::of(doing, "setns"))?;
            if arrival == Arrival::Joined {
                switch(FAR, &UNFINISHED)?;
            }
            tap::bring_up(FAR).map_err(PortError::of(doing, "SIOCSIFFLAGS"))?;
            work()
        };
        let done = in_a_thread(far)?;
        Ok((this, done))
    }
}

impl Drop for Pair {
    /// Remove the pair at once: the namespace ends some time later, but the name must be free now.
    fn drop(&mut self) {
        let _ = link_request(libc::RTM_DELLINK, libc::NLM_F_ACK, self.near.0).exchange(&self.near.1);
    }
}

fn make(name: &str, frame_bytes: usize, namespace: &File, socket: &OwnedFd) -> io::Result<()> {
    let mtu = u32::try_from(frame_bytes - ETHERNET_BYTES).unwrap_or(u32::MAX).to_ne_bytes();
    let single = |request: Request| {
        let one = 1u32.to_ne_bytes();
        request.attribute(IFLA_NUM_TX_QUEUES, &one).attribute(IFLA_NUM_RX_QUEUES, &one)
    };
    let named = |request: Request, name: &str| {
        single(request.attribute(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat()))
    };
    // The attributes of the peer also follow a struct ifinfomsg.
    let peer = named(Request::inner(&[0; 16]), FAR)
        .attribute(IFLA_MTU, &mtu)
        .attribute(IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
    let data = Request::inner(&[]).attribute(VETH_INFO_PEER | NLA_F_NESTED, peer.bytes());
    let info = Request::inner(&[])
        .attribute(IFLA_INFO_KIND, b"veth\0")
        .attribute(IFLA_INFO_DATA | NLA_F_NESTED, data.bytes());
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    named(link_request(libc::RTM_NEWLINK, flags, 0), name)
        .attribute(IFLA_LINKINFO | NLA_F_NESTED, info.bytes())
        .exchange(socket)
        .map(drop)
}

/// Create a network namespace without IPv6, whose interfaces send no frames by themselves.
fn quiet_network() -> io::Result<File> {
    let namespace = thread::new_network()?;
    match std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(namespace),
    }
}

/// Run `work` in a temporary thread, so that the calling thread stays in its namespace.
fn in_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
