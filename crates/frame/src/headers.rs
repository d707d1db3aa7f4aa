//! Which headers a frame has between Ethernet and payload, and what its payload is filled with.

use crate::ip_header::IpVersion;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ethernet::EthernetRepr;
use crate::ipv4::Ipv4Repr;
use crate::ipv6::Ipv6Repr;
use crate::udp::UdpRepr;

/// The UDP port of VXLAN (RFC 7348).
pub(crate) const VXLAN_PORT: u16 = 4789;
/// The protocol number of GRE (RFC 2784).
pub(crate) const GRE: u8 = 47;
/// VXLAN's header, and GRE's without options (bytes).
pub(crate) const VXLAN_BYTES: usize = 8;
pub(crate) const GRE_BYTES: usize = 4;

/// What carries the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP: segments of a connection that stands (ACK). Their sequence number stays the same, so that no receive offload puts
    /// several frames together.
    Tcp,
    /// Echo requests of ICMP or `ICMPv6`: the flow's source port is the identifier, the frame's number the sequence number.
    Icmp,
}

impl Transport {
    /// The length of its header (bytes).
    #[inline]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Udp | Self::Icmp => UdpRepr::BYTES,
            Self::Tcp => 20,
        }
    }

    /// Where its checksum is in it (bytes).
    pub(crate) const fn checksum_offset(self) -> usize {
        match self {
            Self::Udp => 6,
            Self::Tcp => 16,
            Self::Icmp => 2,
        }
    }

    /// Its protocol number.
    #[inline]
    pub const fn protocol(self, version: IpVersion) -> u8 {
        match (self, version) {
            (Self::Udp, _) => UdpRepr::PROTOCOL,
            (Self::Tcp, _) => 6,
            (Self::Icmp, IpVersion::V4) => 1,
            (Self::Icmp, IpVersion::V6) => 58,
        }
    }

    /// Whether its checksum covers the addresses.
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

/// Source and destination of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelEnds {
    /// Over IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// Over IPv6.
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

/// What stands around the packet of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// Its ends.
    pub ends: TunnelEnds,
    /// How it wraps.
    pub kind: TunnelKind,
}

/// How a tunnel wraps what is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelKind {
    /// An Ethernet frame in UDP (RFC 7348). The source port tells flows apart; over IPv4 there is no checksum, as the RFC wants.
    Vxlan {
        /// The segment, 24 bits.
        vni: u32,
    },
    /// An IP packet behind a header of four bytes (RFC 2784).
    Gre,
}

impl Tunnel {
    /// The same in the other direction.
    pub(crate) const fn reversed(self) -> Self {
        let ends = match self.ends {
            TunnelEnds::V4(source, destination) => TunnelEnds::V4(destination, source),
            TunnelEnds::V6(source, destination) => TunnelEnds::V6(destination, source),
        };
        Self { ends, ..self }
    }

    /// Everything from the tunnel's IP header to the packet inside (bytes).
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

/// What payloads are filled with, behind the stamp; the same in all frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Payload {
    /// 0, 1, 2 ... (RFC 2544 appendix C): a shifted or zeroed payload is seen.
    #[default]
    Incrementing,
    /// Zeros.
    Zeros,
    /// Bits that are all one.
    Ones,
    /// Random bytes of a seed.
    Random(u64),
    /// These bytes over and over, one at least.
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

/// Number `word` of the sequence of `seed` (`SplitMix64`).
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
    fn payloads_are_what_their_names_say() {
        let filler = |payload: Payload| payload.filler(5).to_vec();
        assert_eq!(filler(Payload::Incrementing), [0, 1, 2, 3, 4]);
        assert_eq!((filler(Payload::Zeros), filler(Payload::Ones)), (vec![0; 5], vec![255; 5]));
        assert_eq!(filler(Payload::Bytes(Box::new([7, 8]))), [7, 8, 7, 8, 7]);
        assert_eq!(filler(Payload::Random(3)), filler(Payload::Random(3)));
        assert_ne!(filler(Payload::Random(3)), filler(Payload::Random(4)));
    }

    #[test]
    fn random_bytes_are_spread_evenly() {
        let mut counts = [0; 256];
        Payload::Random(1).filler(256 * 1000).iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        assert!(counts.iter().all(|&count: &i32| (850..1150).contains(&count)), "{counts:?}");
    }
}
