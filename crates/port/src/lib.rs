//! Packet input and output on Linux interfaces: `AF_XDP`, `AF_PACKET`, a port in memory, and ports made of other ports.
//! It moves bytes and counts them; what frames mean, when they are due and what loss is, others know.
//!
//! On a veth pair the receiving end works on the *sender's* CPU unless its NAPI is on: give it an XDP program (a
//! receiving `AF_XDP` port does) or `ethtool -K DEV gro on` with `tso off` at the sender. Frames redirected by XDP to a
//! veth vanish without an error when the other end has neither.

#![allow(unsafe_code)] // Rings and memory shared with the kernel: each block says why it is sound.
#![allow(clippy::cast_ptr_alignment)] // Mappings begin at pages, and what lies in them at multiples of its alignment.

#[cfg(test)]
extern crate self as iolab_port; // what tests share names the crate as its users do

mod bpf;
mod end;
mod error;
mod interface;
mod live;
mod loopback;
mod observed;
mod packet;
mod pcapng;
mod port;
mod ring;
mod route;
mod tap;
mod veth;
mod watch;
mod xdp;

pub use bpf::{Attach, Device, DeviceStats, FrameMatch, Rule, Then, WordMatch};
pub use end::End;
pub use error::PortError;
pub use interface::{AttachedProgram, Interface, InterfaceCounters, InterfaceEye};
pub use live::{BpfLive, BpfLiveTx};
pub use loopback::{loopback, LoopbackRx, LoopbackTx};
pub use observed::{Counts, Observe, Observed, Way};
pub use packet::{AfPacket, PacketMessagesTx, PacketRx, SeenPacket};
pub use pcapng::PcapngWriter;
pub use port::{
    receive, reserve, Batch, Path, Reservation, RxFrame, RxPort, RxStats, StampedBy, TxPort, TxStats,
};
pub use tap::{Given, TapFrame, TapPort};
pub use veth::{Arrival, VethPort};
pub use watch::{Beyond, FlowKey, Hook, KernelWatch, Mechanism, LAG_US, MOST_FLOWS, SHORTEST_FLOW_WINDOW_US};
pub use xdp::{AfXdp, AfXdpRx, AfXdpTx, Direction, ZeroCopy};
