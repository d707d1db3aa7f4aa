//! The IPv4 header (RFC 791). Parsing skips options and refuses fragments; no options are written.

use std::net::Ipv4Addr;

use crate::checksum::OnesComplementSum;
use crate::error::WireError;
use crate::length::{room, whole};

const HEADER: &str = "IPv4";

/// A read-only view of bytes as an IPv4 packet.
#[derive(Debug, Clone, Copy)]
pub struct Ipv4View<'a>(&'a [u8]);

impl<'a> Ipv4View<'a> {
    /// Create a view of `bytes`; fail if they are shorter than a header without options.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, Ipv4Repr::BYTES, bytes).map(Self)
    }

    /// Return the version field; 4 for IPv4.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.0[0] >> 4
    }

    /// Return the header length with options, from the IHL field (bytes).
    #[inline]
    pub const fn header_bytes(&self) -> usize {
        (self.0[0] & 0x0f) as usize * 4
    }

    /// Return the traffic class: DSCP and ECN.
    pub const fn traffic_class(&self) -> u8 {
        self.0[1]
    }

    /// Return the packet length, from the total length field (bytes).
    #[inline]
    pub const fn total_bytes(&self) -> usize {
        u16::from_be_bytes([self.0[2], self.0[3]]) as usize
    }

    /// Return the identification field.
    pub const fn identification(&self) -> u16 {
        u16::from_be_bytes([self.0[4], self.0[5]])
    }

    /// Whether the flag DF (don't fragment) is set.
    pub const fn dont_fragment(&self) -> bool {
        self.0[6] & 0x40 != 0
    }

    /// Whether the packet is a fragment.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        u16::from_be_bytes([self.0[6], self.0[7]]) & 0x3fff != 0
    }

    /// Return the time to live (hops).
    pub const fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Return the IP protocol number of the payload.
    #[inline]
    pub const fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Return the header checksum field.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.0[10], self.0[11]])
    }

    /// Return the source address.
    #[inline]
    pub const fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[12], self.0[13], self.0[14], self.0[15])
    }

    /// Return the destination address.
    #[inline]
    pub const fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[16], self.0[17], self.0[18], self.0[19])
    }

    /// Return the bytes after the header up to the total length; empty if the length fields are invalid.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.0.get(self.header_bytes()..self.total_bytes()).unwrap_or_default()
    }

    /// Verify that the view is one complete, intact, unfragmented IPv4 packet.
    #[inline]
    pub fn check(&self) -> Result<(), WireError> {
        let (header_bytes, total_bytes) = (self.header_bytes(), self.total_bytes());
        if self.version() != 4 {
            return Err(WireError::Field {
                header: HEADER,
                field: "version",
                seen: u32::from(self.version()),
            });
        }
        if header_bytes < Ipv4Repr::BYTES {
            return Err(WireError::Field { header: HEADER, field: "IHL", seen: u32::from(self.0[0] & 0x0f) });
        }
        if total_bytes < header_bytes {
            let seen = u32::from(u16::from_be_bytes([self.0[2], self.0[3]]));
            return Err(WireError::Field { header: HEADER, field: "total length", seen });
        }
        whole(HEADER, total_bytes, self.0)?;
        if OnesComplementSum::new().add_bytes(&self.0[..header_bytes]).folded() != 0xffff {
            return Err(WireError::Checksum { header: HEADER });
        }
        if self.is_fragment() {
            return Err(WireError::Fragment);
        }
        Ok(())
    }
}

/// A validated IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// IP protocol number of the payload.
    pub protocol: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Identification field; 0 in packets with the flag DF (RFC 6864).
    pub identification: u16,
    /// Whether the flag DF (don't fragment) is set.
    pub dont_fragment: bool,
    /// Time to live (hops).
    pub ttl: u8,
    /// Length of the payload, at most 65515 (bytes).
    pub payload_bytes: u16,
}

impl Ipv4Repr {
    /// Length of the header without options (bytes).
    pub const BYTES: usize = 20;

    /// Parse the header in `view`; refuse wrong versions, lengths or checksums, and fragments.
    pub fn parse(view: &Ipv4View<'_>) -> Result<Self, WireError> {
        view.check()?;
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            traffic_class: view.traffic_class(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            ttl: view.ttl(),
            payload_bytes: u16::try_from(view.payload().len()).unwrap_or(u16::MAX),
        })
    }

    /// Write the header with its checksum to the start of `buffer` and return its length (bytes).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header = room::<{ Self::BYTES }>(HEADER, buffer)?;
        let total = self.payload_bytes.checked_add(20).ok_or_else(|| WireError::Field {
            header: HEADER,
            field: "total length",
            seen: u32::from(self.payload_bytes) + 20,
        })?;
        header[0] = 0x45;
        header[1] = self.traffic_class;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6..8].copy_from_slice(&(u16::from(self.dont_fragment) << 14).to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = OnesComplementSum::new().add_bytes(header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        Ok(Self::BYTES)
    }
}
