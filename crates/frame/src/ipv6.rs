//! The IPv6 header (RFC 8200). Extension headers are not followed: they read as a foreign next header.

use std::net::Ipv6Addr;

use crate::error::WireError;
use crate::length::{room, whole};

const HEADER: &str = "IPv6";

/// Bytes read as an IPv6 packet.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6View<'a>(&'a [u8]);

impl<'a> Ipv6View<'a> {
    /// Take `bytes` as a packet, if they hold the header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, Ipv6Repr::BYTES, bytes).map(Self)
    }

    /// The version, 6 when it is IPv6.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.0[0] >> 4
    }

    /// DSCP and ECN.
    pub const fn traffic_class(&self) -> u8 {
        self.0[0] << 4 | self.0[1] >> 4
    }

    /// The flow label, 20 bits.
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.0[1] & 0x0f, self.0[2], self.0[3]])
    }

    /// The length of what follows the header, as it says itself (bytes).
    #[inline]
    pub const fn payload_bytes(&self) -> usize {
        u16::from_be_bytes([self.0[4], self.0[5]]) as usize
    }

    /// The protocol number of what follows.
    #[inline]
    pub const fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// The hop limit (hops).
    pub const fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.address(8))
    }

    /// The receiver.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.address(24))
    }

    /// The bytes between header and end of packet; none where the length is nonsense.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.0.get(Ipv6Repr::BYTES..Ipv6Repr::BYTES + self.payload_bytes()).unwrap_or_default()
    }

    /// Refuse what is not one whole IPv6 packet.
    #[inline]
    pub fn check(&self) -> Result<(), WireError> {
        if self.version() != 6 {
            return Err(WireError::Field {
                header: HEADER,
                field: "version",
                seen: u32::from(self.version()),
            });
        }
        let needed_bytes = Ipv6Repr::BYTES + self.payload_bytes();
        whole(HEADER, needed_bytes, self.0)?;
        Ok(())
    }

    fn address(&self, at: usize) -> [u8; 16] {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.0[at..at + 16]);
        octets
    }
}

/// A meaningful IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
    /// The protocol number of what follows.
    pub next_header: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The hop limit (hops).
    pub hop_limit: u8,
    /// The length of what follows (bytes).
    pub payload_bytes: u16,
}

impl Ipv6Repr {
    /// The length of the header (bytes).
    pub const BYTES: usize = 40;

    /// The meaning of `view`: the version and the length are right.
    pub fn parse(view: &Ipv6View<'_>) -> Result<Self, WireError> {
        view.check()?;
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            next_header: view.next_header(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            hop_limit: view.hop_limit(),
            payload_bytes: u16::try_from(view.payload_bytes()).unwrap_or(u16::MAX),
        })
    }

    /// Write the header to the start of `buffer`; returns its length (bytes).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header = room::<{ Self::BYTES }>(HEADER, buffer)?;
        if self.flow_label > 0xf_ffff {
            return Err(WireError::Field { header: HEADER, field: "flow label", seen: self.flow_label });
        }
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&self.payload_bytes.to_be_bytes());
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..40].copy_from_slice(&self.destination.octets());
        Ok(Self::BYTES)
    }
}
