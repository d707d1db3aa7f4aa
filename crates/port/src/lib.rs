//! Packet input and output on Linux interfaces: AF_XDP, AF_PACKET, a port in memory, and ports made of other ports.
//! It moves bytes and counts them; what frames mean, when they are due and what loss is, others know.
//!
//! On a veth pair the receiving end works on the *sender's* CPU unless its NAPI is on: give it an XDP program (a
//! receiving AF_XDP port does) or `ethtool -K DEV gro on` with `tso off` at the sender. Frames redirected by XDP to a
//! veth vanish without an error when the other end has neither.

mod bpf;
pub mod clock;
mod error;
mod interface;
mod packet;
mod port;
mod ring;
mod sys;
mod xdp;

pub use bpf::{lost_randomly, Attach, Device, DeviceStats, FrameMatch, Rule, Then, WordMatch};
pub use error::PortError;
pub use interface::{AttachedProgram, Interface, InterfaceCounters};
pub use packet::{AfPacket, PacketMessagesTx, PacketRingTx, PacketRx};
pub use port::{receive, reserve, Batch, Path, Reservation, RxFrame, RxPort, RxStats, StampedBy, TxPort, TxStats};
pub use xdp::{AfXdp, AfXdpRx, AfXdpTx, Direction, ZeroCopy};
