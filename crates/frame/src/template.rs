//! Frames ready to send: everything that does not change is built once; a frame is a copy and a few patches.
//!
//! The UDP checksum is always there and right, over IPv4 too: what does not change is summed beforehand, so it costs
//! the sum of the 18 bytes of the stamp, and the receiver can check every byte. A template is a pure function of its
//! configuration: the same size, flow, sequence and time give the same bytes.

use std::net::Ipv4Addr;

use crate::checksum::OnesComplementSum;
use crate::error::{TemplateError, WireError};
use crate::ethernet::{EtherType, EthernetRepr, MacAddress};
use crate::flows::{Addresses, FlowFields, FlowList};
use crate::ipv4::Ipv4Repr;
use crate::ipv6::Ipv6Repr;
use crate::locate::IpVersion;
use crate::sizes::{SizeMix, FCS_BYTES};
use crate::stamp::{StampFront, StampWords, STAMP_BYTES};
use crate::udp::{written, Pseudo, UdpRepr};
use crate::vlan::{VlanRepr, VlanTag};

/// Ethernet, two tags, IPv6, UDP and stamp: the most that is patched [bytes].
const LONGEST_HEAD_BYTES: usize = 14 + 8 + 40 + 8 + STAMP_BYTES;
/// Ethernet, IPv4 and UDP: what every frame has at least before the stamp [bytes].
const LEAST_HEADER_BYTES: usize = 14 + 20 + 8;

/// What the frames of a template look like.
#[derive(Debug, Clone)]
pub struct TemplateConfig {
    /// The sizes.
    pub sizes: SizeMix,
    /// The sender's MAC address.
    pub source_mac: MacAddress,
    /// The receiver's (or the first router's) MAC address.
    pub destination_mac: MacAddress,
    /// VLAN tags from the outside in: none, one (802.1Q), or two (802.1ad around 802.1Q).
    pub vlans: Vec<VlanTag>,
    /// Addresses and ports.
    pub flows: FlowList,
    /// DSCP and ECN of the packets.
    pub traffic_class: u8,
    /// Time to live, or hop limit [hops].
    pub hop_limit: u8,
    /// The tag of the stamps: names the trial and the direction.
    pub tag: u16,
}

impl TemplateConfig {
    /// The frames of the other direction: MAC addresses, addresses and ports swapped, stamped with `tag`.
    #[must_use]
    pub fn reversed(&self, tag: u16) -> Self {
        Self {
            source_mac: self.destination_mac,
            destination_mac: self.source_mac,
            flows: self.flows.reversed(),
            tag,
            ..self.clone()
        }
    }
}

/// One size, ready to be patched.
#[derive(Debug, Clone)]
struct Head {
    bytes: [u8; LONGEST_HEAD_BYTES],
    memory_bytes: usize,
    /// Sum of the IPv4 header without addresses and checksum.
    ip_sum: OnesComplementSum,
    /// Sum of pseudo header, UDP header and filler without addresses, ports, checksum and stamp.
    udp_sum: OnesComplementSum,
}

/// One flow, ready to be written.
#[derive(Debug, Clone, Copy)]
struct Flow {
    fields: FlowFields,
    address_sum: u16,
    /// addresses and ports
    constant_sum: u16,
    stamp: StampFront,
}

/// Frames of one stream, ready to be written to buffers.
#[derive(Debug, Clone)]
pub struct FrameTemplate {
    heads: Box<[Head]>,
    flows: Box<[Flow]>,
    filler: Box<[u8]>,
    version: IpVersion,
    ip_offset: usize,
    stamp_offset: usize,
    tag: u16,
}

impl FrameTemplate {
    /// Build the frames of `config`, or say what does not fit.
    pub fn new(config: &TemplateConfig) -> Result<Self, TemplateError> {
        check(config)?;
        let flows = config.flows.fields()?;
        let (version, ip_bytes) = match config.flows.addresses {
            Addresses::V4(..) => (IpVersion::V4, Ipv4Repr::BYTES),
            Addresses::V6(..) => (IpVersion::V6, Ipv6Repr::BYTES),
        };
        let ip_offset = EthernetRepr::BYTES + config.vlans.len() * VlanRepr::BYTES;
        let stamp_offset = ip_offset + ip_bytes + UdpRepr::BYTES;
        let smallest_bytes = to_u16(stamp_offset + STAMP_BYTES) + FCS_BYTES;
        for share in config.sizes.shares() {
            if share.frame_bytes < smallest_bytes {
                return Err(TemplateError::NoRoomForStamp {
                    seen_bytes: share.frame_bytes,
                    headers: in_words(version, config.vlans.len()),
                    smallest_bytes,
                });
            }
        }
        let head_bytes = stamp_offset + STAMP_BYTES;
        let filler_bytes = usize::from(config.sizes.largest_bytes() - FCS_BYTES) - head_bytes;
        // RFC 2544 appendix C fills its frames with rising octets; a zeroed or shifted payload is then seen.
        let filler: Box<[u8]> = (0..=u8::MAX).cycle().take(filler_bytes).collect();
        let heads = config.sizes.shares().iter().map(|share| {
            let memory_bytes = usize::from(share.frame_bytes - FCS_BYTES);
            head(config, ip_offset, stamp_offset, memory_bytes, &filler[..memory_bytes - head_bytes])
        });
        let heads = heads
            .collect::<Result<_, _>>()
            .map_err(|error| TemplateError::SizeMix { seen: error.to_string() })?;
        let prefixes = prefix_sum(config.flows.addresses);
        let numbered = (0..=u16::MAX).zip(flows.iter());
        let flows =
            numbered.map(|(flow, &fields)| Flow::new(fields, prefixes, StampFront::new(config.tag, flow)));
        let flows = flows.collect();
        Ok(Self { heads, flows, filler, version, ip_offset, stamp_offset, tag: config.tag })
    }

    /// Write the frame number `sequence` of `flow` in the size number `size`, sent at `tx_time_ns`, to the start of
    /// `buffer`; returns its length without FCS [bytes].
    #[inline]
    pub fn emit(
        &self,
        size: usize,
        flow: u16,
        sequence: u64,
        tx_time_ns: u64,
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let length = self.emit_primed(size, flow, sequence, tx_time_ns, buffer)?;
        let head_bytes = self.stamp_offset + STAMP_BYTES;
        buffer[head_bytes..length].copy_from_slice(&self.filler[..length - head_bytes]);
        Ok(length)
    }

    /// Prepare a buffer of at least [`Self::largest_bytes`] for [`Self::emit_primed`].
    pub fn prime(&self, buffer: &mut [u8]) -> Result<(), WireError> {
        let seen_bytes = buffer.len();
        let head_bytes = self.stamp_offset + STAMP_BYTES;
        let place = buffer.get_mut(head_bytes..self.largest_bytes()).ok_or_else(|| WireError::Short {
            header: "frame",
            needed_bytes: self.largest_bytes(),
            seen_bytes,
        })?;
        place.copy_from_slice(&self.filler);
        Ok(())
    }

    /// The number of flows.
    pub const fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// The length of a frame of the size number `size` without FCS [bytes]; none when there is no such size.
    pub fn memory_bytes(&self, size: usize) -> Option<usize> {
        self.heads.get(size).map(|head| head.memory_bytes)
    }

    /// The length of the largest frame without FCS [bytes].
    pub const fn largest_bytes(&self) -> usize {
        self.stamp_offset + STAMP_BYTES + self.filler.len()
    }

    /// Where the stamp begins in a frame as sent [bytes].
    pub const fn stamp_offset(&self) -> usize {
        self.stamp_offset
    }

    /// The tag of the stamps.
    pub const fn tag(&self) -> u16 {
        self.tag
    }

    /// As [`Self::emit`] for a buffer that [`Self::prime`] was called on: only headers and stamp are written,
    /// whatever frame of this template the buffer held before. The cost does not grow with the size.
    #[inline]
    pub fn emit_primed(
        &self,
        size: usize,
        flow: u16,
        sequence: u64,
        tx_time_ns: u64,
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let head = self.heads.get(size).ok_or(WireError::Index {
            what: "size",
            seen: size,
            count: self.heads.len(),
        })?;
        let fields = self.flows.get(usize::from(flow)).ok_or_else(|| WireError::Index {
            what: "flow",
            seen: usize::from(flow),
            count: self.flows.len(),
        })?;
        let seen_bytes = buffer.len();
        let frame = buffer.get_mut(..head.memory_bytes).ok_or(WireError::Short {
            header: "frame",
            needed_bytes: head.memory_bytes,
            seen_bytes,
        })?;
        // The shortest headers are copied without a call; others have a rest.
        frame[..LEAST_HEADER_BYTES].copy_from_slice(&head.bytes[..LEAST_HEADER_BYTES]);
        if self.stamp_offset > LEAST_HEADER_BYTES {
            let rest = LEAST_HEADER_BYTES..self.stamp_offset;
            frame[rest.clone()].copy_from_slice(&head.bytes[rest]);
        }
        let stamp = fields.stamp.complete(sequence, tx_time_ns);
        let packet = &mut frame[self.ip_offset..];
        match self.version {
            IpVersion::V4 => patch_v4(head, fields, stamp, packet),
            IpVersion::V6 => patch_v6(head, fields, stamp, packet),
        }
        Ok(head.memory_bytes)
    }
}

#[inline]
fn patch_v4(head: &Head, flow: &Flow, stamp: StampWords, packet: &mut [u8]) {
    let (ip, datagram) = packet.split_at_mut(Ipv4Repr::BYTES);
    let checksum = head.ip_sum.add_word(flow.address_sum).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip[12..16].copy_from_slice(&flow.fields.source.to_be_bytes()[4..]);
    ip[16..20].copy_from_slice(&flow.fields.destination.to_be_bytes()[4..]);
    patch_datagram(head, flow, stamp, datagram);
}

#[inline]
fn patch_v6(head: &Head, flow: &Flow, stamp: StampWords, packet: &mut [u8]) {
    let (ip, datagram) = packet.split_at_mut(Ipv6Repr::BYTES);
    ip[16..24].copy_from_slice(&flow.fields.source.to_be_bytes());
    ip[32..40].copy_from_slice(&flow.fields.destination.to_be_bytes());
    patch_datagram(head, flow, stamp, datagram);
}

#[inline]
fn patch_datagram(head: &Head, flow: &Flow, stamp: StampWords, datagram: &mut [u8]) {
    let datagram = &mut datagram[..UdpRepr::BYTES + STAMP_BYTES];
    let sum = stamp.add_to(head.udp_sum.add_word(flow.constant_sum));
    datagram[..4].copy_from_slice(&flow.fields.ports.to_be_bytes());
    datagram[6..8].copy_from_slice(&written(sum.checksum()).to_be_bytes());
    datagram[8..].copy_from_slice(&stamp.to_bytes());
}

impl Flow {
    fn new(fields: FlowFields, prefixes: OnesComplementSum, stamp: StampFront) -> Self {
        let sum = |bytes: &[u8]| OnesComplementSum::new().add_bytes(bytes).folded();
        let addresses = prefixes
            .add_word(sum(&fields.source.to_be_bytes()))
            .add_word(sum(&fields.destination.to_be_bytes()));
        let constants = addresses.add_word(sum(&fields.ports.to_be_bytes()));
        Self { fields, address_sum: addresses.folded(), constant_sum: constants.folded(), stamp }
    }
}

/// The sum of the upper halves of IPv6 addresses, which all flows share.
fn prefix_sum(addresses: Addresses) -> OnesComplementSum {
    match addresses {
        Addresses::V4(..) => OnesComplementSum::new(),
        Addresses::V6(source, destination) => OnesComplementSum::new()
            .add_bytes(&source.first.octets()[..8])
            .add_bytes(&destination.first.octets()[..8]),
    }
}

fn check(config: &TemplateConfig) -> Result<(), TemplateError> {
    if config.source_mac.is_group() {
        return Err(TemplateError::GroupSource { seen: config.source_mac.to_string() });
    }
    if config.vlans.len() > 2 {
        return Err(TemplateError::VlanTags { seen: config.vlans.len() });
    }
    match config.vlans.iter().find(|tag| !tag.is_valid()) {
        Some(tag) => Err(TemplateError::VlanTag { id: tag.id, priority: tag.priority }),
        None => Ok(()),
    }
}

/// The headers of frames of `memory_bytes` that end in `filler`, with addresses, ports and checksums of flow 0.
fn head(
    config: &TemplateConfig,
    ip_offset: usize,
    stamp_offset: usize,
    memory_bytes: usize,
    filler: &[u8],
) -> Result<Head, WireError> {
    let mut bytes = [0; LONGEST_HEAD_BYTES];
    emit_ethernet(config, &mut bytes)?;
    let udp_bytes = to_u16(memory_bytes - stamp_offset + UdpRepr::BYTES);
    let packet = &mut bytes[ip_offset..];
    match config.flows.addresses {
        Addresses::V4(source, destination) => Ipv4Repr {
            source: source.first,
            destination: destination.first,
            protocol: UdpRepr::PROTOCOL,
            traffic_class: config.traffic_class,
            identification: 0,
            dont_fragment: true,
            ttl: config.hop_limit,
            payload_bytes: udp_bytes,
        }
        .emit(packet)?,
        Addresses::V6(source, destination) => Ipv6Repr {
            source: source.first,
            destination: destination.first,
            next_header: UdpRepr::PROTOCOL,
            traffic_class: config.traffic_class,
            flow_label: 0,
            hop_limit: config.hop_limit,
            payload_bytes: udp_bytes,
        }
        .emit(packet)?,
    };
    let udp_offset = stamp_offset - UdpRepr::BYTES;
    bytes[udp_offset + 4..udp_offset + 6].copy_from_slice(&udp_bytes.to_be_bytes());
    let ip_sum = OnesComplementSum::new().add_bytes(&bytes[ip_offset..ip_offset + 10]);
    let unaddressed = Pseudo::V4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
    let udp_sum = unaddressed.sum(udp_bytes).add_word(udp_bytes).add_bytes(filler);
    Ok(Head { bytes, memory_bytes, ip_sum, udp_sum })
}

fn emit_ethernet(config: &TemplateConfig, bytes: &mut [u8]) -> Result<(), WireError> {
    let inner = match config.flows.addresses {
        Addresses::V4(..) => EtherType::IPV4,
        Addresses::V6(..) => EtherType::IPV6,
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

fn in_words(version: IpVersion, tags: usize) -> String {
    let ip = match version {
        IpVersion::V4 => "IPv4",
        IpVersion::V6 => "IPv6",
    };
    match tags {
        0 => format!("Ethernet, {ip}, UDP"),
        1 => format!("Ethernet, a VLAN tag, {ip}, UDP"),
        _ => format!("Ethernet, {tags} VLAN tags, {ip}, UDP"),
    }
}

fn to_u16(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}
