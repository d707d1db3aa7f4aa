//! The IPv6 header (RFC 8200). Extension headers are not parsed: they appear as an unsupported next header.

use std::net::Ipv6Addr;

use crate::error::WireError;
use crate::length::{room, whole};

const HEADER: &str = "IPv6";

/// A read-only view of bytes as an IPv6 packet.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6View<'a>(&'a [u8]);

impl<'a> Ipv6View<'a> {
    /// Create a view of `bytes`; fail if they are shorter than the IPv6 header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, Ipv6Repr::BYTES, bytes).map(Self)
    }

    /// Return the version field; 6 for IPv6.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.0[0] >> 4
    }

    /// Return the traffic class: DSCP and ECN.
    pub const fn traffic_class(&self) -> u8 {
        self.0[0] << 4 | self.0[1] >> 4
    }

    /// Return the flow label, 20 bits.
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.0[1] & 0x0f, self.0[2], self.0[3]])
    }

    /// Return the payload length field (bytes).
    #[inline]
    pub const fn payload_bytes(&self) -> usize {
        u16::from_be_bytes([self.0[4], self.0[5]]) as usize
    }

    /// Return the next header field: the protocol number of the payload.
    #[inline]
    pub const fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Return the hop limit (hops).
    pub const fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Return the source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.address(8))
    }

    /// Return the destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.address(24))
    }

    /// Return the payload; empty if the payload length field is invalid.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.0.get(Ipv6Repr::BYTES..Ipv6Repr::BYTES + self.payload_bytes()).unwrap_or_default()
    }

    /// Verify that the view is one complete IPv6 packet.
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

/// A validated IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Next header: the protocol number of the payload.
    pub next_header: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit (hops).
    pub hop_limit: u8,
    /// Payload length (bytes).
    pub payload_bytes: u16,
}

impl Ipv6Repr {
    /// Length of the header (bytes).
    pub const BYTES: usize = 40;

    /// Parse the header in `view`; refuse a wrong version or length.
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

    /// Write the header to the start of `buffer` and return its length (bytes).
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
