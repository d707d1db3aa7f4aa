//! Parser that finds the payload of a frame: Ethernet, up to two VLAN tags, IPv4 or IPv6, then UDP, TCP or ICMP echo,
//! also inside GRE or IP-in-IP. The parser verifies lengths and the IPv4 header checksum. The transport checksum is a
//! separate call, which the caller may omit.

use crate::error::WireError;
use crate::ethernet::{EtherType, EthernetRepr, EthernetView};
use crate::headers::{Transport, GRE, VXLAN_BYTES, VXLAN_PORT};
use crate::ip_header::{ip_header, IpVersion};
use crate::ipv4::Ipv4View;
use crate::ipv6::{Ipv6Repr, Ipv6View};
use crate::udp::{Pseudo, UdpRepr, UdpView};
use crate::vlan::{VlanRepr, VlanView};

/// Maximum number of nested IP packets.
const DEEPEST: usize = 3;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const IP_IN_IP: [u8; 2] = [4, 41];
const ECHOES: [u8; 4] = [0, 8, 128, 129];
/// `EtherType` of Ethernet in GRE (RFC 7637).
const BRIDGED: u16 = 0x6558;

/// The offsets and slices of the parts of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Located<'a> {
    /// The number of VLAN tags, 0 to 2.
    pub vlan_tags: usize,
    /// IP version of the innermost packet.
    pub version: IpVersion,
    /// Offset of the innermost IP header in the frame (bytes).
    pub ip_offset: usize,
    /// Offset of the payload in the frame (bytes).
    pub payload_offset: usize,
    /// Transport protocol.
    pub transport: Transport,
    /// Complete transport segment: header and payload.
    pub segment: &'a [u8],
    /// Pseudo header of the transport checksum.
    pub pseudo: Pseudo,
    header_bytes: usize,
}

impl<'a> Located<'a> {
    /// Return the payload of the transport segment.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.segment.get(self.header_bytes..).unwrap_or_default()
    }

    /// Verify the transport checksum; accept a zero UDP checksum over IPv4.
    #[inline]
    pub fn check_checksum(&self) -> Result<(), WireError> {
        if self.transport == Transport::Udp {
            return UdpView::new(self.segment)?.check_checksum(self.pseudo);
        }
        let length = u16::try_from(self.segment.len()).unwrap_or(u16::MAX);
        let before = if self.transport.covers_addresses(self.version) {
            self.pseudo.sum_of(self.transport.protocol(self.version), length)
        } else {
            crate::checksum::OnesComplementSum::new()
        };
        match before.add_bytes(self.segment).folded() {
            0xffff => Ok(()),
            _ => Err(WireError::Checksum { header: self.transport.name() }),
        }
    }

    /// Return the inner Ethernet frame, if the datagram is VXLAN (RFC 7348).
    fn inner_frame(&self) -> Option<&'a [u8]> {
        let udp = UdpView::new(self.segment).ok().filter(|_| self.transport == Transport::Udp)?;
        let inside = self.payload();
        (udp.destination_port() == VXLAN_PORT && *inside.first()? & 8 != 0).then_some(())?;
        inside.get(VXLAN_BYTES..)
    }

    /// Locate the inner packet of a VXLAN datagram, if the frame is VXLAN.
    pub(crate) fn unwrapped(&self) -> Option<Self> {
        let frame = self.inner_frame()?;
        let before = self.payload_offset + VXLAN_BYTES;
        let inner = locate(frame).ok()?;
        Some(Self {
            ip_offset: before + inner.ip_offset,
            payload_offset: before + inner.payload_offset,
            ..inner
        })
    }
}

/// Locate the transport segment in `frame` (without FCS). Bytes after the IP packet are ignored as padding.
#[inline]
pub fn locate(frame: &[u8]) -> Result<Located<'_>, WireError> {
    let ethernet = EthernetView::new(frame)?;
    let (mut ether_type, mut ip_offset, mut vlan_tags) = (ethernet.ether_type(), EthernetRepr::BYTES, 0);
    while matches!(ether_type, EtherType::VLAN | EtherType::QINQ) && vlan_tags < 2 {
        ether_type = VlanView::new(&frame[ip_offset..])?.ether_type();
        ip_offset += VlanRepr::BYTES;
        vlan_tags += 1;
    }
    packet(frame, ether_type, ip_offset, vlan_tags, DEEPEST)
}

#[inline]
fn packet(
    frame: &[u8],
    ether_type: EtherType,
    ip_offset: usize,
    vlan_tags: usize,
    depth: usize,
) -> Result<Located<'_>, WireError> {
    let bytes = frame.get(ip_offset..).unwrap_or_default();
    let (version, offset, protocol, segment, pseudo) = match ether_type {
        EtherType::IPV4 => {
            let ip = Ipv4View::new(bytes)?;
            ip.check()?;
            let pseudo = Pseudo::V4(ip.source(), ip.destination());
            (IpVersion::V4, ip_offset + ip.header_bytes(), ip.protocol(), ip.payload(), pseudo)
        }
        EtherType::IPV6 => {
            let ip = Ipv6View::new(bytes)?;
            ip.check()?;
            let pseudo = Pseudo::V6(ip.source(), ip.destination());
            (IpVersion::V6, ip_offset + Ipv6Repr::BYTES, ip.next_header(), ip.payload(), pseudo)
        }
        EtherType(seen) => return Err(WireError::Other { layer: "EtherType", seen }),
    };
    let (transport, header_bytes, segment) = if protocol == UdpRepr::PROTOCOL {
        let udp = UdpView::new(segment)?;
        udp.check_length()?;
        (Transport::Udp, UdpRepr::BYTES, &segment[..usize::from(udp.length_bytes())])
    } else if let Some((transport, header_bytes)) = other_transport(protocol, segment)? {
        (transport, header_bytes, segment)
    } else {
        return inside(frame, protocol, offset, vlan_tags, depth);
    };
    let payload_offset = offset + header_bytes;
    Ok(Located { vlan_tags, version, ip_offset, payload_offset, transport, segment, pseudo, header_bytes })
}

/// Return the offsets of all IP headers of a frame, outermost first, up to the first unsupported header (bytes).
pub(crate) fn ip_packets(frame: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    follow(frame, 0, &mut found);
    found
}

fn follow(frame: &[u8], ethernet: usize, found: &mut Vec<usize>) {
    let Some((_, ip)) = frame.get(ethernet..).and_then(ip_header) else { return };
    let mut at = ethernet + ip;
    while found.len() < DEEPEST {
        let Some(packet) = frame.get(at..).filter(|packet| packet.len() >= Ipv6Repr::BYTES) else { return };
        found.push(at);
        let (protocol, header) = match packet[0] >> 4 {
            4 => (packet[9], usize::from(packet[0] & 0x0f) * 4),
            6 => (packet[6], Ipv6Repr::BYTES),
            _ => return,
        };
        let Some(rest) = packet.get(header..) else { return };
        let word = |at: usize| rest.get(at..at + 2).map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]));
        at += header;
        if protocol == UdpRepr::PROTOCOL && word(2) == VXLAN_PORT && found.len() == 1 {
            return follow(frame, at + UdpRepr::BYTES + VXLAN_BYTES, found);
        }
        if protocol == GRE {
            let options = rest.first().map_or(0, |flags| (flags & 0b1011_0000).count_ones() as usize);
            at += 4 + 4 * options;
            if word(2) == BRIDGED {
                return follow(frame, at, found);
            }
        } else if !IP_IN_IP.contains(&protocol) {
            return;
        }
    }
}

/// Return the transport and header length of a TCP segment or ICMP echo; none for other protocols.
fn other_transport(protocol: u8, segment: &[u8]) -> Result<Option<(Transport, usize)>, WireError> {
    let short = |header, needed_bytes| WireError::Short { header, needed_bytes, seen_bytes: segment.len() };
    match protocol {
        TCP => {
            let length = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
            let least = Transport::Tcp.header_bytes();
            if segment.len() < least || length < least || segment.len() < length {
                return Err(short("TCP", length.max(least)));
            }
            Ok(Some((Transport::Tcp, length)))
        }
        ICMP | ICMP_V6 => match segment.first() {
            Some(kind) if ECHOES.contains(kind) && segment.len() >= Transport::Icmp.header_bytes() => {
                Ok(Some((Transport::Icmp, Transport::Icmp.header_bytes())))
            }
            Some(&kind) if !ECHOES.contains(&kind) => {
                Err(WireError::Other { layer: "ICMP", seen: u16::from(kind) })
            }
            _ => Err(short("ICMP", Transport::Icmp.header_bytes())),
        },
        _ => Ok(None),
    }
}

/// Locate the segment in the packet that the tunnel protocol `protocol` encapsulates; the tunnel header starts at
/// `offset`.
#[cold]
fn inside(
    frame: &[u8],
    protocol: u8,
    offset: usize,
    vlan_tags: usize,
    depth: usize,
) -> Result<Located<'_>, WireError> {
    let other = WireError::Other { layer: "IP protocol", seen: u16::from(protocol) };
    if depth <= 1 {
        return Err(other);
    }
    if IP_IN_IP.contains(&protocol) {
        let inner = if protocol == IP_IN_IP[0] { EtherType::IPV4 } else { EtherType::IPV6 };
        return packet(frame, inner, offset, vlan_tags, depth - 1);
    }
    if protocol != GRE {
        return Err(other);
    }
    let head: [u8; 4] = *frame.get(offset..).and_then(<[u8]>::first_chunk).ok_or(other)?;
    // Checksum, key and sequence number are optional, four bytes each (RFC 2784, RFC 2890).
    let options = (head[0] & 0b1011_0000).count_ones() as usize;
    let (kind, begin) = (u16::from_be_bytes([head[2], head[3]]), offset + 4 + 4 * options);
    if kind != BRIDGED {
        return packet(frame, EtherType(kind), begin, vlan_tags, depth - 1);
    }
    let ethernet = EthernetView::new(frame.get(begin..).unwrap_or_default())?;
    packet(frame, ethernet.ether_type(), begin + EthernetRepr::BYTES, vlan_tags, depth - 1)
}
