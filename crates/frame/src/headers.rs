//! Configuration of the headers between Ethernet and payload, and of the payload fill.

use crate::ip_header::IpVersion;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ethernet::EthernetRepr;
use crate::ipv4::Ipv4Repr;
use crate::ipv6::Ipv6Repr;
use crate::udp::UdpRepr;

/// UDP destination port of VXLAN (RFC 7348).
pub(crate) const VXLAN_PORT: u16 = 4789;
/// IP protocol number of GRE (RFC 2784).
pub(crate) const GRE: u8 = 47;
/// Length of the VXLAN header, and of the GRE header without options (bytes).
pub(crate) const VXLAN_BYTES: usize = 8;
pub(crate) const GRE_BYTES: usize = 4;

/// The transport protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP: ACK segments of an established connection. The sequence number of these segments is constant, so that GRO
    /// and LRO do not merge frames.
    Tcp,
    /// ICMP or `ICMPv6` echo requests: the flow's source port is the identifier, the frame number is the sequence
    /// number.
    Icmp,
}

impl Transport {
    /// Return the length of the transport header (bytes).
    #[inline]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Udp | Self::Icmp => UdpRepr::BYTES,
            Self::Tcp => 20,
        }
    }

    /// Return the offset of the checksum in the transport header (bytes).
    pub(crate) const fn checksum_offset(self) -> usize {
        match self {
            Self::Udp => 6,
            Self::Tcp => 16,
            Self::Icmp => 2,
        }
    }

    /// Return the IP protocol number.
    #[inline]
    pub const fn protocol(self, version: IpVersion) -> u8 {
        match (self, version) {
            (Self::Udp, _) => UdpRepr::PROTOCOL,
            (Self::Tcp, _) => 6,
            (Self::Icmp, IpVersion::V4) => 1,
            (Self::Icmp, IpVersion::V6) => 58,
        }
    }

    /// Whether the checksum covers a pseudo header with the addresses.
    #[inline]
    pub(crate) const fn covers_addresses(self, version: IpVersion) -> bool {
        !matches!((self, version), (Self::Icmp, IpVersion::V4))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Icmp => "ICMP",
        }
    }
}

/// Source and destination address of the outer IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelEnds {
    /// Addresses of a tunnel over IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// Addresses of a tunnel over IPv6.
    V6(Ipv6Addr, Ipv6Addr),
}

impl TunnelEnds {
    pub(crate) const fn ip_bytes(self) -> usize {
        match self {
            Self::V4(..) => Ipv4Repr::BYTES,
            Self::V6(..) => Ipv6Repr::BYTES,
        }
    }
}

/// A tunnel that encapsulates the packets of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// Source and destination address of the tunnel.
    pub ends: TunnelEnds,
    /// Encapsulation of the tunnel.
    pub kind: TunnelKind,
}

/// The encapsulation of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelKind {
    /// VXLAN: an Ethernet frame in UDP (RFC 7348). The UDP source port distinguishes the flows; over IPv4 the UDP
    /// checksum is zero, as the RFC recommends.
    Vxlan {
        /// VXLAN network identifier, 24 bits.
        vni: u32,
    },
    /// GRE: an IP packet after a header of four bytes (RFC 2784).
    Gre,
}

impl Tunnel {
    /// Return the same tunnel in the reverse direction.
    pub(crate) const fn reversed(self) -> Self {
        let ends = match self.ends {
            TunnelEnds::V4(source, destination) => TunnelEnds::V4(destination, source),
            TunnelEnds::V6(source, destination) => TunnelEnds::V6(destination, source),
        };
        Self { ends, ..self }
    }

    /// Return the length of all headers from the outer IP header to the inner packet (bytes).
    pub(crate) const fn bytes(&self) -> usize {
        let around = match self.kind {
            TunnelKind::Vxlan { .. } => UdpRepr::BYTES + VXLAN_BYTES + EthernetRepr::BYTES,
            TunnelKind::Gre => GRE_BYTES,
        };
        self.ends.ip_bytes() + around
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self.kind {
            TunnelKind::Vxlan { .. } => "VXLAN",
            TunnelKind::Gre => "GRE",
        }
    }
}

/// The payload fill after the stamp, identical in all frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Payload {
    /// The byte values 0, 1, 2 ... (RFC 2544 appendix C), which reveal a shifted or zeroed payload.
    #[default]
    Incrementing,
    /// Zero bytes.
    Zeros,
    /// Bytes of 0xff.
    Ones,
    /// Pseudo-random bytes from this seed.
    Random(u64),
    /// These bytes, at least one, repeated to the end of the payload.
    Bytes(Box<[u8]>),
}

impl Payload {
    pub(crate) fn filler(&self, length: usize) -> Box<[u8]> {
        match self {
            Self::Incrementing => (0..=u8::MAX).cycle().take(length).collect(),
            Self::Zeros => vec![0; length].into(),
            Self::Ones => vec![u8::MAX; length].into(),
            Self::Random(seed) => {
                (1..).flat_map(|word| mixed(*seed, word).to_le_bytes()).take(length).collect()
            }
            Self::Bytes(bytes) => bytes.iter().copied().cycle().take(length).collect(),
        }
    }
}

/// Return output number `word` of a `SplitMix64` generator with this `seed`.
const fn mixed(seed: u64, word: u64) -> u64 {
    let state = seed.wrapping_add(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_payload_kind_has_its_bytes() {
        let filler = |payload: Payload| payload.filler(5).to_vec();
        assert_eq!(filler(Payload::Incrementing), [0, 1, 2, 3, 4]);
        assert_eq!((filler(Payload::Zeros), filler(Payload::Ones)), (vec![0; 5], vec![255; 5]));
        assert_eq!(filler(Payload::Bytes(Box::new([7, 8]))), [7, 8, 7, 8, 7]);
        assert_eq!(filler(Payload::Random(3)), filler(Payload::Random(3)));
        assert_ne!(filler(Payload::Random(3)), filler(Payload::Random(4)));
    }

    #[test]
    fn random_payload_bytes_are_uniform() {
        let mut counts = [0; 256];
        Payload::Random(1).filler(256 * 1000).iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        assert!(counts.iter().all(|&count: &i32| (850..1150).contains(&count)), "{counts:?}");
    }
}
