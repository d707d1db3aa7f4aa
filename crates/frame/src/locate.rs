//! Find the UDP payload in a frame: Ethernet, up to two VLAN tags, IPv4 or IPv6, UDP. Checks what tells a whole
//! frame from a damaged one, except the UDP checksum, which the caller may leave out.

use crate::error::WireError;
use crate::ethernet::{EtherType, EthernetRepr, EthernetView};
use crate::ipv4::Ipv4View;
use crate::ipv6::{Ipv6Repr, Ipv6View};
use crate::udp::{Pseudo, UdpRepr, UdpView};
use crate::vlan::{VlanRepr, VlanView};

/// The version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Where the parts of a UDP frame are.
#[derive(Debug, Clone, Copy)]
pub struct Located<'a> {
    /// The number of VLAN tags, 0 to 2.
    pub vlan_tags: usize,
    /// The version of the packet.
    pub version: IpVersion,
    /// The offset of the IP header in the frame [bytes].
    pub ip_offset: usize,
    /// The offset of the UDP payload in the frame [bytes].
    pub payload_offset: usize,
    /// The datagram.
    pub udp: UdpView<'a>,
    /// Its addresses, for the checksum.
    pub pseudo: Pseudo,
}

/// Find the UDP datagram in `frame` (without FCS). Bytes after the IP packet are padding and do not matter.
#[inline]
pub fn locate(frame: &[u8]) -> Result<Located<'_>, WireError> {
    let ethernet = EthernetView::new(frame)?;
    let (mut ether_type, mut ip_offset, mut vlan_tags) = (ethernet.ether_type(), EthernetRepr::BYTES, 0);
    while matches!(ether_type, EtherType::VLAN | EtherType::QINQ) && vlan_tags < 2 {
        ether_type = VlanView::new(&frame[ip_offset..])?.ether_type();
        ip_offset += VlanRepr::BYTES;
        vlan_tags += 1;
    }
    let packet = &frame[ip_offset..];
    let (version, udp_offset, protocol, datagram, pseudo) = match ether_type {
        EtherType::IPV4 => {
            let ip = Ipv4View::new(packet)?;
            ip.check()?;
            let pseudo = Pseudo::V4(ip.source(), ip.destination());
            (IpVersion::V4, ip_offset + ip.header_bytes(), ip.protocol(), ip.payload(), pseudo)
        }
        EtherType::IPV6 => {
            let ip = Ipv6View::new(packet)?;
            ip.check()?;
            let pseudo = Pseudo::V6(ip.source(), ip.destination());
            (IpVersion::V6, ip_offset + Ipv6Repr::BYTES, ip.next_header(), ip.payload(), pseudo)
        }
        EtherType(seen) => return Err(WireError::NotUdp { layer: "EtherType", seen }),
    };
    if protocol != UdpRepr::PROTOCOL {
        return Err(WireError::NotUdp { layer: "IP protocol", seen: u16::from(protocol) });
    }
    let udp = UdpView::new(datagram)?;
    udp.check_length()?;
    Ok(Located { vlan_tags, version, ip_offset, payload_offset: udp_offset + UdpRepr::BYTES, udp, pseudo })
}
