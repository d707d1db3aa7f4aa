//! A veth pair whose far end is in a network namespace that only this process knows: gone when it is dropped, and with the
//! process in any case.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use iolab_sys::{tap, thread};

use crate::error::PortError;
use crate::interface::{link_request, Interface, IFLA_IFNAME, IFLA_MTU, NLA_F_NESTED};
use crate::route::{route_socket, Request};

/// How frames arrive at the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Each by itself, as soon as it is sent.
    Apart,
    /// Those that are sent together may be joined by the stack (GRO), which costs it less: for streams.
    Joined,
}

/// The far end's name, in its namespace.
pub const FAR: &str = "far";

const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const VETH_INFO_PEER: u16 = 1;

/// What is put behind a packet of IP at most is a frame of so much more (bytes).
const ETHERNET_BYTES: usize = 14;

/// What is not left to the other end, which hands frames on as they are: checksums, and tags beside the frame; nor, therefore,
/// super-frames. A far end without TSO gives all frames to the queue of the near end's NAPI, live ones or not; with TSO those
/// of a socket take the shorter way by the CPU's own queue (`veth_skb_is_eligible_for_gro`).
const UNFINISHED: [(&str, bool); 4] = [
    ("tx-checksum-ip-generic", false),
    ("tx-checksum-sctp", false),
    ("tx-vlan-hw-insert", false),
    ("tx-vlan-stag-hw-insert", false),
];
/// Without it the near end takes in no frames that come without a packet buffer of the stack (its NAPI is off).
const TAKES_IN: [(&str, bool); 1] = [("rx-gro", true)];

/// The pair.
#[derive(Debug)]
pub struct Pair {
    /// To remove the near end: its number, and a socket of its namespace.
    near: (u32, OwnedFd),
    namespace: File,
}

impl Pair {
    /// Make the near end `name` in the calling thread's namespace, for frames of up to `frame_bytes`, and do `work` in the far
    /// end's.
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
    /// The namespace goes some time later, and the name is to be free at once.
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
    // struct ifinfomsg comes before the attributes of the peer, too.
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

/// A new namespace whose interfaces say nothing of their own.
fn quiet_network() -> io::Result<File> {
    let namespace = thread::new_network()?;
    match std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(namespace),
    }
}

/// Do `work` in a thread that ends with it: the calling one stays in its namespace.
fn in_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
