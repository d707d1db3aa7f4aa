//! Opens `AF_PACKET` ports: on every Linux interface, also without root in a user namespace of one's own.

mod rx;
mod socket;
mod tx_messages;

use crate::error::PortError;
use crate::interface::Interface;
use crate::observed::Way;
pub use rx::{PacketRx, SeenPacket};
pub use tx_messages::PacketMessagesTx;

/// What an `AF_PACKET` port is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfPacket {
    /// the interface's name
    pub interface: String,
    /// the longest frame sent (bytes, without FCS)
    pub frame_bytes: usize,
    /// VLAN tags in the longest frame
    pub vlan_tags: u8,
    /// slots for sending, a power of two (frames)
    pub ring_frames: u32,
}

impl AfPacket {
    /// The usual port: 1518 B frames, 512 slots for sending.
    pub fn new(interface: &str) -> Self {
        Self { interface: interface.to_owned(), frame_bytes: 1514, vlan_tags: 0, ring_frames: 512 }
    }

    /// Opens a port that sends.
    ///
    /// # Errors
    /// When the interface cannot carry the frames, or the kernel refuses.
    pub fn open_tx(&self) -> Result<PacketMessagesTx, PortError> {
        PacketMessagesTx::open(self)
    }

    /// Opens a port that receives.
    ///
    /// # Errors
    /// As [`AfPacket::open_tx`].
    pub fn open_rx(&self) -> Result<PacketRx, PortError> {
        PacketRx::open(self)
    }

    /// Looks at packets of one way of an interface without taking them: of each its first `most_bytes`.
    ///
    /// # Errors
    /// When there is no such interface, or the kernel refuses.
    pub fn look(interface: &str, way: Way, most_bytes: u32) -> Result<PacketRx, PortError> {
        PacketRx::look(&Interface::find(interface)?, Some(way), most_bytes)
    }

    /// As [`AfPacket::look`], at packets of both ways.
    ///
    /// # Errors
    /// As [`AfPacket::look`].
    pub fn look_both(interface: &str, most_bytes: u32) -> Result<PacketRx, PortError> {
        PacketRx::look(&Interface::find(interface)?, None, most_bytes)
    }

    fn check(&self) -> Result<Interface, PortError> {
        let interface = Interface::find(&self.interface)?;
        interface.check(self.frame_bytes, self.vlan_tags)?;
        let (what, allowed) = ("the ring's size in frames", "a power of two from 16 to 32768");
        if !self.ring_frames.is_power_of_two() || !(16..=32768).contains(&self.ring_frames) {
            return Err(PortError::BadValue { what, seen: u64::from(self.ring_frames), allowed });
        }
        Ok(interface)
    }
}
