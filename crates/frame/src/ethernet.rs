//! The Ethernet II header. Frames are held without preamble and FCS, as an interface hands them over.

use std::fmt;
use std::str::FromStr;

use crate::error::WireError;
use crate::length::{room, whole};

const HEADER: &str = "Ethernet";

/// A 48-bit MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether it names a group (multicast or broadcast) and so cannot be a sender's.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(to, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || format!("{text:?} is no MAC address; write six bytes in hex, as 02:00:00:00:00:01");
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(refused)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(refused());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| refused())?;
        }
        if parts.next().is_some() {
            return Err(refused());
        }
        Ok(Self(bytes))
    }
}

/// What follows an Ethernet header or a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// A customer's VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// A service provider's VLAN tag (IEEE 802.1ad), the outer one of two.
    pub const QINQ: Self = Self(0x88a8);
}

/// The bytes of a frame read as Ethernet II.
#[derive(Debug, Clone, Copy)]
pub struct EthernetView<'a>(&'a [u8]);

impl<'a> EthernetView<'a> {
    /// Take `bytes` as a frame, if they hold the header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, EthernetRepr::BYTES, bytes).map(Self)
    }

    /// The receiver's address.
    #[inline]
    pub const fn destination(&self) -> MacAddress {
        let b = self.0;
        MacAddress([b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// The sender's address.
    #[inline]
    pub const fn source(&self) -> MacAddress {
        let b = self.0;
        MacAddress([b[6], b[7], b[8], b[9], b[10], b[11]])
    }

    /// The `EtherType`; below 0x0600 it is the length of an IEEE 802.3 frame.
    #[inline]
    pub const fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes([self.0[12], self.0[13]]))
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[EthernetRepr::BYTES..]
    }
}

/// A meaningful Ethernet II header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetRepr {
    /// The receiver.
    pub destination: MacAddress,
    /// The sender.
    pub source: MacAddress,
    /// What follows, at least 0x0600.
    pub ether_type: EtherType,
}

impl EthernetRepr {
    /// The length of the header (bytes).
    pub const BYTES: usize = 14;

    /// The meaning of `view`; frames from a group address and frames with a length for a type are refused.
    pub fn parse(view: &EthernetView<'_>) -> Result<Self, WireError> {
        let repr =
            Self { destination: view.destination(), source: view.source(), ether_type: view.ether_type() };
        if repr.source.is_group() {
            return Err(WireError::Field {
                header: HEADER,
                field: "source",
                seen: u32::from(repr.source.0[0]),
            });
        }
        if repr.ether_type.0 < 0x0600 {
            return Err(WireError::Field {
                header: HEADER,
                field: "type",
                seen: u32::from(repr.ether_type.0),
            });
        }
        Ok(repr)
    }

    /// Write the header to the start of `buffer`; returns its length (bytes).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header = room::<{ Self::BYTES }>(HEADER, buffer)?;
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        header[12..].copy_from_slice(&self.ether_type.0.to_be_bytes());
        Ok(Self::BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        let address: MacAddress = "02:00:5e:a0:ff:01".parse().expect("an address");
        assert_eq!(address, MacAddress([0x02, 0x00, 0x5e, 0xa0, 0xff, 0x01]));
        assert_eq!(address.to_string(), "02:00:5e:a0:ff:01");
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for text in
            ["", "02", "02:00:00:00:00", "02:00:00:00:00:01:02", "+2:00:00:00:00:01", "0g:00:00:00:00:01"]
        {
            let error = text.parse::<MacAddress>().expect_err("not an address");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
