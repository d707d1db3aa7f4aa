//! The UDP header (RFC 768) and its checksum over IPv4, and over IPv6, where it is mandatory (RFC 8200 8.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::OnesComplementSum;
use crate::error::WireError;
use crate::length::whole;

const HEADER: &str = "UDP";

/// The addresses of the pseudo header, which the transport checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// Source and destination over IPv4, where a UDP checksum of zero means no checksum.
    V4(Ipv4Addr, Ipv4Addr),
    /// Source and destination over IPv6, where the checksum is mandatory.
    V6(Ipv6Addr, Ipv6Addr),
}

impl Pseudo {
    /// Return the sum of the pseudo header for a datagram of `udp_bytes` (header and payload).
    #[inline]
    pub fn sum(&self, udp_bytes: u16) -> OnesComplementSum {
        self.sum_of(UdpRepr::PROTOCOL, udp_bytes)
    }

    /// Return source and destination address; IPv4 addresses are padded with zeros.
    pub(crate) fn octets(&self) -> ([u8; 16], [u8; 16]) {
        let filled = |address: &Ipv4Addr| {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        match self {
            Self::V4(source, destination) => (filled(source), filled(destination)),
            Self::V6(source, destination) => (source.octets(), destination.octets()),
        }
    }

    /// Return the sum of the pseudo header for a segment of `protocol`.
    #[inline]
    pub(crate) fn sum_of(&self, protocol: u8, segment_bytes: u16) -> OnesComplementSum {
        let lengths = OnesComplementSum::new().add_word(u16::from(protocol)).add_word(segment_bytes);
        match self {
            Self::V4(source, destination) => {
                lengths.add_bytes(&source.octets()).add_bytes(&destination.octets())
            }
            Self::V6(source, destination) => {
                lengths.add_bytes(&source.octets()).add_bytes(&destination.octets())
            }
        }
    }
}

/// Compute the UDP checksum of a `datagram` (header with a zero checksum field, and payload); the result is never
/// zero.
pub fn udp_checksum(pseudo: Pseudo, datagram: &[u8]) -> u16 {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    written(pseudo.sum(length).add_bytes(datagram).checksum())
}

/// Replace a computed checksum of zero with 0xffff, because zero means no checksum (RFC 768).
#[inline]
pub(crate) const fn written(checksum: u16) -> u16 {
    if checksum == 0 {
        0xffff
    } else {
        checksum
    }
}

/// A read-only view of bytes as a UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct UdpView<'a>(&'a [u8]);

impl<'a> UdpView<'a> {
    /// Create a view of `bytes`; fail if they are shorter than the UDP header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, UdpRepr::BYTES, bytes).map(Self)
    }

    /// Return the source port.
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    /// Return the destination port.
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// Return the length field: length of header and payload (bytes).
    #[inline]
    pub const fn length_bytes(&self) -> u16 {
        u16::from_be_bytes([self.0[4], self.0[5]])
    }

    /// Return the checksum field.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// Return the payload; empty if the length field is invalid.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.0.get(UdpRepr::BYTES..usize::from(self.length_bytes())).unwrap_or_default()
    }

    /// Verify that the length field is not below the header length and not above the available bytes.
    #[inline]
    pub fn check_length(&self) -> Result<(), WireError> {
        let length = usize::from(self.length_bytes());
        if length < UdpRepr::BYTES {
            let seen = u32::from(self.length_bytes());
            return Err(WireError::Field { header: HEADER, field: "length", seen });
        }
        whole(HEADER, length, self.0)?;
        Ok(())
    }

    /// Verify the checksum; refuse a zero checksum over IPv6. The caller has verified the length.
    #[inline]
    pub fn check_checksum(&self, pseudo: Pseudo) -> Result<(), WireError> {
        let wrong = Err(WireError::Checksum { header: HEADER });
        if self.checksum() == 0 {
            return if matches!(pseudo, Pseudo::V4(..)) { Ok(()) } else { wrong };
        }
        let Some(datagram) = self.0.get(..usize::from(self.length_bytes())) else { return wrong };
        match pseudo.sum(self.length_bytes()).add_bytes(datagram).folded() {
            0xffff => Ok(()),
            _ => wrong,
        }
    }
}

/// A validated UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port; 0 if unused.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Length of the payload, at most 65527 (bytes).
    pub payload_bytes: u16,
}

impl UdpRepr {
    /// Length of the header (bytes).
    pub const BYTES: usize = 8;
    /// IP protocol number of UDP.
    pub const PROTOCOL: u8 = 0x11;

    /// Parse the header in `view`, with the addresses in `pseudo`; refuse a wrong length or checksum.
    pub fn parse(view: &UdpView<'_>, pseudo: Pseudo) -> Result<Self, WireError> {
        view.check_length()?;
        view.check_checksum(pseudo)?;
        Ok(Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_bytes: view.length_bytes() - 8,
        })
    }

    /// Write the header to the start of `datagram`, whose payload must be in place because the checksum covers it;
    /// return the header length (bytes).
    pub fn emit(&self, pseudo: Pseudo, datagram: &mut [u8]) -> Result<usize, WireError> {
        let length = self.payload_bytes.checked_add(8).ok_or_else(|| WireError::Field {
            header: HEADER,
            field: "length",
            seen: u32::from(self.payload_bytes) + 8,
        })?;
        let seen_bytes = datagram.len();
        let datagram = datagram.get_mut(..usize::from(length)).ok_or_else(|| WireError::Short {
            header: HEADER,
            needed_bytes: usize::from(length),
            seen_bytes,
        })?;
        datagram[..2].copy_from_slice(&self.source_port.to_be_bytes());
        datagram[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        datagram[4..6].copy_from_slice(&length.to_be_bytes());
        datagram[6..8].fill(0);
        let checksum = udp_checksum(pseudo, datagram);
        datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
        Ok(Self::BYTES)
    }
}
