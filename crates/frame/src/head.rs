//! Prebuilt headers of frames of one size: addresses, ports and checksums are those of flow 0 and are patched for
//! each frame.

use crate::checksum::OnesComplementSum;
use crate::error::WireError;
use crate::ethernet::{EtherType, EthernetRepr};
use crate::flows::Addresses;
use crate::headers::{Transport, TunnelEnds, TunnelKind, GRE, VXLAN_BYTES, VXLAN_PORT};
use crate::ip_header::IpVersion;
use crate::ipv4::Ipv4Repr;
use crate::ipv6::Ipv6Repr;
use crate::stamp::STAMP_BYTES;
use crate::template_config::TemplateConfig;
use crate::udp::{Pseudo, UdpRepr};
use crate::vlan::VlanRepr;

/// Maximum length of the patched part: Ethernet, two VLAN tags, IPv6, UDP, VXLAN, Ethernet, IPv6, TCP and stamp
/// (bytes).
const LONGEST_HEAD_BYTES: usize = 14 + 8 + 40 + 8 + 8 + 14 + 40 + 20 + STAMP_BYTES;
/// First UDP source port of VXLAN, whose source port distinguishes the flows (RFC 7348 recommends 49152 to 65535).
const FIRST_VXLAN_SOURCE: u16 = 0xc000;
/// TCP data offset without options, and the flag ACK.
const TCP_LENGTH_AND_FLAGS: [u8; 2] = [5 << 4, 0x10];
const ECHO_REQUEST: [u8; 2] = [8, 128]; // over IPv4, over IPv6

/// Offsets of the headers in a frame (bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Offset of the outer IP header, if the frame is tunnelled.
    pub tunnel: Option<usize>,
    /// Offset of the IP header of the flow.
    pub ip: usize,
    /// Offset of the UDP, TCP or ICMP header of the flow.
    pub transport: usize,
    /// Offset of the payload, which starts with the stamp if it fits.
    pub payload: usize,
}

impl Layout {
    pub(crate) fn of(config: &TemplateConfig) -> Self {
        let first = EthernetRepr::BYTES + config.vlans.len() * VlanRepr::BYTES;
        let ip = first + config.tunnel.map_or(0, |tunnel| tunnel.bytes());
        let transport = ip + ip_bytes(config.flows.version());
        Self {
            tunnel: config.tunnel.map(|_| first),
            ip,
            transport,
            payload: transport + config.transport.header_bytes(),
        }
    }
}

/// The headers of one frame size, ready to be patched.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub bytes: [u8; LONGEST_HEAD_BYTES],
    pub memory_bytes: usize,
    /// Sum of the IPv4 header without addresses and checksum.
    pub ip_sum: OnesComplementSum,
    /// Sum of pseudo header, transport header and payload fill, without addresses, ports, checksum and stamp.
    pub segment_sum: OnesComplementSum,
    /// Sum of the data that the tunnel's UDP checksum covers, without the fields that differ between flows.
    pub tunnel_sum: OnesComplementSum,
}

impl Head {
    /// Build the headers of frames of `memory_bytes` whose payload ends with `filler`.
    pub(crate) fn new(
        config: &TemplateConfig,
        layout: Layout,
        memory_bytes: usize,
        filler: &[u8],
    ) -> Result<Self, WireError> {
        let mut bytes = [0; LONGEST_HEAD_BYTES];
        emit_ethernet(config, &mut bytes)?;
        let mut tunnel_sum = OnesComplementSum::new();
        if let Some(at) = layout.tunnel {
            tunnel_sum = emit_tunnel(config, at, layout, memory_bytes, &mut bytes)?;
        }
        let version = config.flows.version();
        let segment_bytes = to_u16(memory_bytes - layout.transport);
        let protocol = config.transport.protocol(version);
        let (source, destination) = config.flows.first();
        emit_ip(config, (source, destination), (protocol, segment_bytes), &mut bytes[layout.ip..])?;
        emit_transport(
            config.transport,
            version,
            segment_bytes,
            &mut bytes[layout.transport..layout.payload],
        );
        let ip_sum = OnesComplementSum::new().add_bytes(&bytes[layout.ip..layout.ip + 10]);
        let segment = OnesComplementSum::new().add_bytes(&bytes[layout.transport..layout.payload]);
        // The payload fill starts at an even offset, after the headers and the 18-byte stamp.
        let mut segment_sum = segment.add_bytes(filler);
        if config.transport.covers_addresses(version) {
            segment_sum = segment_sum.add_word(u16::from(protocol)).add_word(segment_bytes);
        }
        Ok(Self { bytes, memory_bytes, ip_sum, segment_sum, tunnel_sum })
    }
}

/// Return the outer UDP source port of a flow in VXLAN.
#[inline]
pub(crate) const fn vxlan_source(flow: u32) -> u16 {
    FIRST_VXLAN_SOURCE | (flow & 0x3fff) as u16
}

pub(crate) const fn ip_bytes(version: IpVersion) -> usize {
    match version {
        IpVersion::V4 => Ipv4Repr::BYTES,
        IpVersion::V6 => Ipv6Repr::BYTES,
    }
}

const fn ether_type(version: IpVersion) -> EtherType {
    match version {
        IpVersion::V4 => EtherType::IPV4,
        IpVersion::V6 => EtherType::IPV6,
    }
}

fn emit_ethernet(config: &TemplateConfig, bytes: &mut [u8]) -> Result<(), WireError> {
    let inner = match config.tunnel.map(|tunnel| tunnel.ends) {
        None => ether_type(config.flows.version()),
        Some(TunnelEnds::V4(..)) => EtherType::IPV4,
        Some(TunnelEnds::V6(..)) => EtherType::IPV6,
    };
    let outer = match config.vlans.len() {
        0 => inner,
        1 => EtherType::VLAN,
        _ => EtherType::QINQ,
    };
    let header =
        EthernetRepr { destination: config.destination_mac, source: config.source_mac, ether_type: outer };
    let mut offset = header.emit(bytes)?;
    for (index, &tag) in config.vlans.iter().enumerate() {
        let ether_type = if index + 1 < config.vlans.len() { EtherType::VLAN } else { inner };
        offset += VlanRepr { tag, ether_type }.emit(&mut bytes[offset..])?;
    }
    Ok(())
}

/// Write an IP header with `addresses` of one family, for `payload_bytes` bytes of `protocol`.
fn emit_ip(
    config: &TemplateConfig,
    addresses: (std::net::IpAddr, std::net::IpAddr),
    (protocol, payload_bytes): (u8, u16),
    bytes: &mut [u8],
) -> Result<usize, WireError> {
    use std::net::IpAddr::{V4, V6};
    match addresses {
        (V4(source), V4(destination)) => Ipv4Repr {
            source,
            destination,
            protocol,
            traffic_class: config.traffic_class,
            identification: 0,
            dont_fragment: true,
            ttl: config.hop_limit,
            payload_bytes,
        }
        .emit(bytes),
        (V6(source), V6(destination)) => Ipv6Repr {
            source,
            destination,
            next_header: protocol,
            traffic_class: config.traffic_class,
            flow_label: 0,
            hop_limit: config.hop_limit,
            payload_bytes,
        }
        .emit(bytes),
        _ => unreachable!("both are of one family"),
    }
}

fn emit_transport(transport: Transport, version: IpVersion, segment_bytes: u16, bytes: &mut [u8]) {
    match transport {
        Transport::Udp => bytes[4..6].copy_from_slice(&segment_bytes.to_be_bytes()),
        Transport::Tcp => {
            bytes[4..12].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
            bytes[12..14].copy_from_slice(&TCP_LENGTH_AND_FLAGS);
            bytes[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        }
        Transport::Icmp => bytes[0] = ECHO_REQUEST[usize::from(version == IpVersion::V6)],
    }
}

/// Write the tunnel headers from the outer IP header at `at` up to the inner packet; return the sum for the outer UDP
/// checksum, empty for GRE.
fn emit_tunnel(
    config: &TemplateConfig,
    at: usize,
    layout: Layout,
    memory_bytes: usize,
    bytes: &mut [u8],
) -> Result<OnesComplementSum, WireError> {
    let Some(tunnel) = config.tunnel else { return Ok(OnesComplementSum::new()) };
    let inside = at + tunnel.ends.ip_bytes();
    let payload_bytes = to_u16(memory_bytes - inside);
    let (protocol, addresses) = (
        match tunnel.kind {
            TunnelKind::Vxlan { .. } => UdpRepr::PROTOCOL,
            TunnelKind::Gre => GRE,
        },
        match tunnel.ends {
            TunnelEnds::V4(source, destination) => (source.into(), destination.into()),
            TunnelEnds::V6(source, destination) => (source.into(), destination.into()),
        },
    );
    emit_ip(config, addresses, (protocol, payload_bytes), &mut bytes[at..])?;
    let packet = ether_type(config.flows.version());
    let TunnelKind::Vxlan { vni } = tunnel.kind else {
        bytes[inside + 2..inside + 4].copy_from_slice(&packet.0.to_be_bytes());
        return Ok(OnesComplementSum::new());
    };
    bytes[inside + 2..inside + 4].copy_from_slice(&VXLAN_PORT.to_be_bytes());
    bytes[inside + 4..inside + 6].copy_from_slice(&payload_bytes.to_be_bytes());
    let vxlan = inside + UdpRepr::BYTES;
    bytes[vxlan] = 8; // flag I: the VNI is valid
    bytes[vxlan + 4..vxlan + 8].copy_from_slice(&(vni << 8).to_be_bytes());
    let (destination, source) = (config.destination_mac, config.source_mac);
    EthernetRepr { destination, source, ether_type: packet }.emit(&mut bytes[vxlan + VXLAN_BYTES..])?;
    let pseudo = match tunnel.ends {
        TunnelEnds::V4(source, destination) => Pseudo::V4(source, destination),
        TunnelEnds::V6(source, destination) => Pseudo::V6(source, destination),
    };
    let covered = pseudo.sum(payload_bytes).add_bytes(&bytes[inside..layout.ip]);
    Ok(add_packet(config, to_u16(memory_bytes - layout.transport), covered))
}

/// Add the inner packet to `sum`, except the flow's addresses. The checksums of the inner packet are correct, so its
/// sum is known without reading its bytes: an IPv4 header sums to zero, and a segment sums to the complement of its
/// pseudo header.
fn add_packet(config: &TemplateConfig, segment_bytes: u16, sum: OnesComplementSum) -> OnesComplementSum {
    let version = config.flows.version();
    let protocol = u16::from(config.transport.protocol(version));
    match version {
        IpVersion::V4 if !config.transport.covers_addresses(version) => sum,
        IpVersion::V4 => sum.add_word(!protocol).add_word(!segment_bytes),
        IpVersion::V6 => {
            // Both the IPv6 header and the pseudo header contain length and protocol; only the IPv6 header contains
            // version, traffic class and hop limit.
            let class = u16::from(config.traffic_class);
            sum.add_word(6 << 12 | class << 4)
                .add_word(segment_bytes)
                .add_word(protocol << 8 | u16::from(config.hop_limit))
                .add_word(!protocol)
                .add_word(!segment_bytes)
        }
    }
}

/// Return the sum of the upper 64 bits of both IPv6 addresses, which all flows share.
pub(crate) fn prefix_sum(addresses: Addresses) -> OnesComplementSum {
    match addresses {
        Addresses::V4(..) => OnesComplementSum::new(),
        Addresses::V6(source, destination) => OnesComplementSum::new()
            .add_bytes(&source.first.octets()[..8])
            .add_bytes(&destination.first.octets()[..8]),
    }
}

pub(crate) fn to_u16(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}
