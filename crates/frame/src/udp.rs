//! The UDP header (RFC 768) and its checksum over IPv4 and IPv6 (where it is mandatory: RFC 8200 8.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::OnesComplementSum;
use crate::error::WireError;
use crate::length::whole;

const HEADER: &str = "UDP";

/// The addresses that a UDP checksum also covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// Source and destination over IPv4, where a checksum of zero means that there is none.
    V4(Ipv4Addr, Ipv4Addr),
    /// Source and destination over IPv6, where there is always a checksum.
    V6(Ipv6Addr, Ipv6Addr),
}

impl Pseudo {
    /// The sum of the pseudo header of a datagram of `udp_bytes` (header and payload).
    #[inline]
    pub fn sum(&self, udp_bytes: u16) -> OnesComplementSum {
        self.sum_of(UdpRepr::PROTOCOL, udp_bytes)
    }

    /// Source and destination, those of IPv4 filled up with zeros.
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

    /// The sum of the pseudo header of a segment of another protocol.
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

/// The checksum of a `datagram` (header and payload, the checksum field as zero), as it is written: never zero.
pub fn udp_checksum(pseudo: Pseudo, datagram: &[u8]) -> u16 {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    written(pseudo.sum(length).add_bytes(datagram).checksum())
}

/// A computed checksum of zero is written as its other form, because zero means none (RFC 768).
#[inline]
pub(crate) const fn written(checksum: u16) -> u16 {
    if checksum == 0 {
        0xffff
    } else {
        checksum
    }
}

/// Bytes read as a UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct UdpView<'a>(&'a [u8]);

impl<'a> UdpView<'a> {
    /// Take `bytes` as a datagram, if they hold the header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, UdpRepr::BYTES, bytes).map(Self)
    }

    /// The sender's port.
    pub const fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    /// The receiver's port.
    pub const fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// The length of header and payload, as it says itself (bytes).
    #[inline]
    pub const fn length_bytes(&self) -> u16 {
        u16::from_be_bytes([self.0[4], self.0[5]])
    }

    /// The checksum as written.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// The payload; none where the length is nonsense.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.0.get(UdpRepr::BYTES..usize::from(self.length_bytes())).unwrap_or_default()
    }

    /// Refuse lengths that do not hold a header or leave the bytes.
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

    /// Refuse a wrong checksum, and none over IPv6. The length was checked before.
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

/// A meaningful UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRepr {
    /// The sender's port; 0 says that there is none.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The length of the payload, at most 65527 (bytes).
    pub payload_bytes: u16,
}

impl UdpRepr {
    /// The length of the header (bytes).
    pub const BYTES: usize = 8;
    /// UDP's protocol number.
    pub const PROTOCOL: u8 = 0x11;

    /// The meaning of `view` between the addresses of `pseudo`: length and checksum are right.
    pub fn parse(view: &UdpView<'_>, pseudo: Pseudo) -> Result<Self, WireError> {
        view.check_length()?;
        view.check_checksum(pseudo)?;
        Ok(Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_bytes: view.length_bytes() - 8,
        })
    }

    /// Write the header to the start of `datagram`, whose payload is already there and is summed into the
    /// checksum; returns the header's length (bytes).
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
