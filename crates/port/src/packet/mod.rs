//! `AF_PACKET` ports: for every Linux interface, also without root in an unprivileged user namespace.

mod rx;
mod socket;
mod tx_messages;

use crate::error::PortError;
use crate::interface::Interface;
use crate::observed::Way;
pub use rx::{PacketRx, SeenPacket};
pub use tx_messages::PacketMessagesTx;

/// The configuration of an `AF_PACKET` port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfPacket {
    /// Interface name.
    pub interface: String,
    /// Maximum length of sent frames (bytes, without FCS).
    pub frame_bytes: usize,
    /// Number of VLAN tags in the longest frame.
    pub vlan_tags: u8,
    /// Number of transmit slots, a power of two (frames).
    pub ring_frames: u32,
}

impl AfPacket {
    /// Return the default configuration: frames of 1518 B with FCS, 512 transmit slots.
    pub fn new(interface: &str) -> Self {
        Self { interface: interface.to_owned(), frame_bytes: 1514, vlan_tags: 0, ring_frames: 512 }
    }

    /// Open a port for sending.
    ///
    /// # Errors
    /// Fails if the interface cannot carry the frames, or the kernel refuses.
    pub fn open_tx(&self) -> Result<PacketMessagesTx, PortError> {
        PacketMessagesTx::open(self)
    }

    /// Open a port for receiving.
    ///
    /// # Errors
    /// Fails under the same conditions as [`AfPacket::open_tx`].
    pub fn open_rx(&self) -> Result<PacketRx, PortError> {
        PacketRx::open(self)
    }

    /// Capture the first `most_bytes` of each packet in one direction of an interface, without consuming the packets.
    ///
    /// # Errors
    /// Fails if the interface does not exist, or the kernel refuses.
    pub fn look(interface: &str, way: Way, most_bytes: u32) -> Result<PacketRx, PortError> {
        PacketRx::look(&Interface::find(interface)?, Some(way), most_bytes)
    }

    /// Capture packets like [`AfPacket::look`], but in both directions.
    ///
    /// # Errors
    /// Fails under the same conditions as [`AfPacket::look`].
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
