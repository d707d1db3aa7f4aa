//! Packet input and output on Linux interfaces: `AF_XDP`, `AF_PACKET`, an in-memory port, and ports that wrap other
//! ports. This crate transfers and counts bytes; frame contents, transmit times and loss are the concern of its
//! callers.
//!
//! On a veth pair, the receive processing of the peer runs on the *sender's* CPU unless NAPI is enabled on the peer:
//! attach an XDP program (as a receiving `AF_XDP` port does) or run `ethtool -K DEV gro on`, with `tso off` on the
//! sender. The kernel drops frames redirected by XDP to a veth without an error if NAPI is disabled on the peer.

#![allow(unsafe_code)] // Shared rings and memory: each unsafe block states why it is sound.
#![allow(clippy::cast_ptr_alignment)] // Mappings start at page boundaries, and their contents are aligned.

#[cfg(test)]
extern crate self as iolab_port; // shared test code uses the crate's external name

mod bpf;
mod end;
mod error;
mod hook;
mod interface;
mod live;
mod loopback;
mod observed;
mod packet;
mod pcapng;
mod port;
mod redirect;
mod ring;
mod route;
mod tap;
mod veth;
mod watch;
mod xdp;

pub use bpf::{Attach, Device, DeviceStats, FrameMatch, Rule, Then, WordMatch};
pub use end::End;
pub use error::PortError;
pub use hook::{Hook, Mechanism};
pub use interface::{AttachedProgram, Interface, InterfaceCounters, InterfaceEye};
pub use live::{BpfLive, BpfLiveTx};
pub use loopback::{loopback, LoopbackRx, LoopbackTx};
pub use observed::{Counts, Observe, Observed, Way};
pub use packet::{AfPacket, PacketMessagesTx, PacketRx, SeenPacket};
pub use pcapng::PcapngWriter;
pub use port::{
    receive, reserve, Batch, Path, Reservation, RxFrame, RxPort, RxStats, StampedBy, TxPort, TxStats,
};
pub use redirect::{Network, PortRedirect, Selection};
pub use tap::{Given, TapFrame, TapPort};
pub use veth::{Arrival, VethPort};
pub use watch::{Beyond, FlowKey, KernelWatch, LAG_US, MOST_FLOWS, SHORTEST_FLOW_WINDOW_US};
pub use xdp::{AfXdp, AfXdpRx, AfXdpTx, Direction, ZeroCopy};
