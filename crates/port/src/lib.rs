//! Packet input and output on Linux interfaces: AF_XDP, AF_PACKET, a port in memory, and ports made of other ports.
//! It moves bytes and counts them; what frames mean, when they are due and what loss is, others know.
//!
//! On a veth pair the receiving end works on the *sender's* CPU unless its NAPI is on: give it an XDP program (a
//! receiving AF_XDP port does) or `ethtool -K DEV gro on` with `tso off` at the sender. Frames redirected by XDP to a
//! veth vanish without an error when the other end has neither.

#[cfg(test)]
extern crate self as iolab_port; // what tests share names the crate as its users do

mod bpf;
pub mod clock;
pub mod descriptors;
mod error;
mod interface;
mod live;
mod loopback;
mod namespace;
mod packet;
mod pcapng;
mod port;
mod ring;
mod statistics;
mod sys;
mod tap;
mod tun;
mod xdp;

pub use bpf::{
    keep_program, lost_randomly, Attach, Device, DeviceStats, DropReasons, FrameMatch, Rule, Then, WordMatch,
};
pub use error::PortError;
pub use interface::{AttachedProgram, Interface, InterfaceCounters};
pub use live::{BpfLive, BpfLiveTx};
pub use loopback::{loopback, LoopbackRx, LoopbackTx};
pub use namespace::network_namespace_owner;
pub use packet::{AfPacket, PacketMessagesTx, PacketRx};
pub use pcapng::PcapngWriter;
pub use port::{
    receive, reserve, Batch, Path, Reservation, RxFrame, RxPort, RxStats, StampedBy, TxPort, TxStats,
};
pub use statistics::driver_statistics;
pub use tap::{Counts, Observe, Tap, Way};
pub use tun::{bring_up, name_of_tap, open_tap, TapKind, TUN_DEVICE};
pub use xdp::{AfXdp, AfXdpRx, AfXdpTx, Direction, ZeroCopy};
