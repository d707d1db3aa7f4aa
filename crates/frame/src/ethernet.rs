//! The Ethernet II header. Frames in memory have neither preamble nor FCS, like the frames that the kernel passes.

use std::fmt;
use std::str::FromStr;

use crate::error::WireError;
use crate::length::{room, whole};

const HEADER: &str = "Ethernet";

/// A 48-bit MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether the address is a group address (multicast or broadcast), which is invalid as a source.
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

/// An `EtherType`: the protocol number in an Ethernet header or a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// The `EtherType` of IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// The `EtherType` of ARP.
    pub const ARP: Self = Self(0x0806);
    /// The `EtherType` (TPID) of a customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// The `EtherType` of IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// The `EtherType` (TPID) of a service VLAN tag (IEEE 802.1ad), the outer tag of `QinQ`.
    pub const QINQ: Self = Self(0x88a8);
}

/// A read-only view of bytes as an Ethernet II frame.
#[derive(Debug, Clone, Copy)]
pub struct EthernetView<'a>(&'a [u8]);

impl<'a> EthernetView<'a> {
    /// Create a view of `bytes`; fail if they are shorter than the Ethernet header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        whole(HEADER, EthernetRepr::BYTES, bytes).map(Self)
    }

    /// Return the destination MAC address.
    #[inline]
    pub const fn destination(&self) -> MacAddress {
        let b = self.0;
        MacAddress([b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// Return the source MAC address.
    #[inline]
    pub const fn source(&self) -> MacAddress {
        let b = self.0;
        MacAddress([b[6], b[7], b[8], b[9], b[10], b[11]])
    }

    /// Return the `EtherType`; a value below 0x0600 is the length of an IEEE 802.3 frame.
    #[inline]
    pub const fn ether_type(&self) -> EtherType {
        EtherType(u16::from_be_bytes([self.0[12], self.0[13]]))
    }

    /// Return the bytes after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[EthernetRepr::BYTES..]
    }
}

/// A validated Ethernet II header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Destination MAC address.
    pub destination: MacAddress,
    /// Source MAC address.
    pub source: MacAddress,
    /// `EtherType` of the payload, 0x0600 or more.
    pub ether_type: EtherType,
}

impl EthernetRepr {
    /// Length of the header (bytes).
    pub const BYTES: usize = 14;

    /// Parse the header in `view`; refuse group source addresses and IEEE 802.3 length fields.
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

    /// Write the header to the start of `buffer` and return its length (bytes).
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
    fn mac_address_is_parsed_and_formatted() {
        let address: MacAddress = "02:00:5e:a0:ff:01".parse().expect("an address");
        assert_eq!(address, MacAddress([0x02, 0x00, 0x5e, 0xa0, 0xff, 0x01]));
        assert_eq!(address.to_string(), "02:00:5e:a0:ff:01");
    }

    #[test]
    fn invalid_mac_address_is_refused_by_name() {
        for text in
            ["", "02", "02:00:00:00:00", "02:00:00:00:00:01:02", "+2:00:00:00:00:01", "0g:00:00:00:00:01"]
        {
            let error = text.parse::<MacAddress>().expect_err("not an address");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
