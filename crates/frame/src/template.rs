//! Frames ready to send: everything that does not change is built once; a frame is a copy and a few patches.
//!
//! The checksum is always there and right, that of UDP over IPv4 too: what does not change is summed beforehand, so it
//! costs the sum of the 18 bytes of the stamp, and the receiver can check every byte. A template is a pure function of its
//! configuration: the same size, flow, sequence and time give the same bytes.

use crate::checksum::OnesComplementSum;
use crate::error::{TemplateError, WireError};
use crate::flows::FlowFields;
use crate::head::{prefix_sum, to_u16, vxlan_source, Head, Layout};
use crate::headers::{Transport, Tunnel, TunnelEnds, TunnelKind};
use crate::ip_header::IpVersion;
use crate::ipv4::Ipv4Repr;
use crate::ipv6::Ipv6Repr;
use crate::sizes::FCS_BYTES;
use crate::stamp::{StampFront, StampWords, STAMP_BYTES};
use crate::template_config::TemplateConfig;
use crate::udp::written;

/// Ethernet, IPv4 and UDP: what every frame has at least before the stamp (bytes).
const LEAST_HEADER_BYTES: usize = 14 + 20 + 8;

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
    transport: Transport,
    tunnel: Option<Tunnel>,
    layout: Layout,
    stamped: bool,
    tag: u16,
}

impl FrameTemplate {
    /// Build the frames of `config`, or say what does not fit.
    pub fn new(config: &TemplateConfig) -> Result<Self, TemplateError> {
        check(config)?;
        let flows = config.flows.fields(config.transport)?;
        let layout = Layout::of(config);
        let smallest_bytes = config.sizes.shares().iter().map(|share| share.frame_bytes).min().unwrap_or(0);
        let room_bytes = usize::from(smallest_bytes.saturating_sub(FCS_BYTES)).checked_sub(layout.payload);
        let stamped = room_bytes.is_some_and(|bytes| bytes >= STAMP_BYTES);
        let fits = stamped || config.may_go_unstamped && room_bytes.is_some();
        if !fits {
            let needed = layout.payload + if config.may_go_unstamped { 0 } else { STAMP_BYTES };
            return Err(TemplateError::NoRoom {
                seen_bytes: smallest_bytes,
                headers: in_words(config),
                smallest_bytes: to_u16(needed) + FCS_BYTES,
            });
        }
        let head_bytes = layout.payload + if stamped { STAMP_BYTES } else { 0 };
        let filler_bytes = usize::from(config.sizes.largest_bytes() - FCS_BYTES) - head_bytes;
        let filler = config.payload.filler(filler_bytes);
        let heads = config.sizes.shares().iter().map(|share| {
            let memory_bytes = usize::from(share.frame_bytes - FCS_BYTES);
            Head::new(config, layout, memory_bytes, &filler[..memory_bytes - head_bytes])
        });
        let heads = heads
            .collect::<Result<_, _>>()
            .map_err(|error| TemplateError::SizeMix { seen: error.to_string() })?;
        let version = config.flows.version();
        let prefixes = prefix_sum(config.flows.addresses);
        let covered = config.transport.covers_addresses(version);
        let flows = (0..)
            .zip(flows.iter())
            .map(|(flow, &fields)| Flow::new(fields, prefixes, covered, StampFront::new(config.tag, flow)));
        let flows = flows.collect();
        let (transport, tunnel, tag) = (config.transport, config.tunnel, config.tag);
        Ok(Self { heads, flows, filler, version, transport, tunnel, layout, stamped, tag })
    }

    /// Write the frame number `sequence` of `flow` in the size number `size`, sent at `tx_time_ns`, to the start of
    /// `buffer`; returns its length without FCS (bytes).
    #[inline]
    pub fn emit(
        &self,
        size: usize,
        flow: u32,
        sequence: u64,
        tx_time_ns: u64,
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let length = self.emit_primed(size, flow, sequence, tx_time_ns, buffer)?;
        let head_bytes = self.head_bytes();
        buffer[head_bytes..length].copy_from_slice(&self.filler[..length - head_bytes]);
        Ok(length)
    }

    /// Prepare a buffer of at least [`Self::largest_bytes`] for [`Self::emit_primed`].
    pub fn prime(&self, buffer: &mut [u8]) -> Result<(), WireError> {
        let seen_bytes = buffer.len();
        let head_bytes = self.head_bytes();
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

    /// The length of a frame of the size number `size` without FCS (bytes); none when there is no such size.
    pub fn memory_bytes(&self, size: usize) -> Option<usize> {
        self.heads.get(size).map(|head| head.memory_bytes)
    }

    /// The length of the largest frame without FCS (bytes).
    pub const fn largest_bytes(&self) -> usize {
        self.head_bytes() + self.filler.len()
    }

    /// Whether its frames carry a stamp.
    pub const fn is_stamped(&self) -> bool {
        self.stamped
    }

    const fn head_bytes(&self) -> usize {
        self.layout.payload + if self.stamped { STAMP_BYTES } else { 0 }
    }

    /// Where the stamp begins in a frame as sent (bytes).
    pub const fn stamp_offset(&self) -> usize {
        self.layout.payload
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
        flow: u32,
        sequence: u64,
        tx_time_ns: u64,
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let head = self.heads.get(size).ok_or(WireError::Index {
            what: "size",
            seen: size,
            count: self.heads.len(),
        })?;
        let fields = self.flows.get(flow as usize).ok_or(WireError::Index {
            what: "flow",
            seen: flow as usize,
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
        if self.layout.payload > LEAST_HEADER_BYTES {
            let rest = LEAST_HEADER_BYTES..self.layout.payload;
            frame[rest.clone()].copy_from_slice(&head.bytes[rest]);
        }
        if let (Some(tunnel), Some(at)) = (self.tunnel, self.layout.tunnel) {
            self.patch_tunnel(tunnel, head, (flow, fields), &mut frame[at..]);
        }
        let stamp = self.stamped.then(|| fields.stamp.complete(sequence, tx_time_ns));
        let packet = &mut frame[self.layout.ip..];
        let segment = match self.version {
            IpVersion::V4 => patch_v4(head, fields, packet),
            IpVersion::V6 => patch_v6(fields, packet),
        };
        match self.transport {
            Transport::Udp => {
                patch_segment::<0, 6, 8>(head.segment_sum, fields.ports(), fields, stamp, segment);
                let checksum = [segment[6], segment[7]];
                segment[6..8].copy_from_slice(&written(u16::from_be_bytes(checksum)).to_be_bytes());
            }
            Transport::Tcp => {
                patch_segment::<0, 16, 20>(head.segment_sum, fields.ports(), fields, stamp, segment);
            }
            Transport::Icmp => {
                let number = (sequence & 0xffff) as u16;
                let names = fields.ports() | u32::from(number);
                let sum = head.segment_sum.add_word(number);
                patch_segment::<4, 2, 8>(sum, names, fields, stamp, segment);
            }
        }
        Ok(head.memory_bytes)
    }

    /// What of a VXLAN tunnel differs by flow.
    fn patch_tunnel(&self, tunnel: Tunnel, head: &Head, (flow, fields): (u32, &Flow), packet: &mut [u8]) {
        let TunnelKind::Vxlan { .. } = tunnel.kind else { return };
        let udp = &mut packet[tunnel.ends.ip_bytes()..];
        let source = vxlan_source(flow);
        udp[..2].copy_from_slice(&source.to_be_bytes());
        if let TunnelEnds::V6(..) = tunnel.ends {
            // What makes the sum of a segment and its addresses nothing: those of an IPv6 header are in it once more.
            let rest = match self.version {
                IpVersion::V4 if self.transport.covers_addresses(self.version) => !fields.address_sum,
                _ => 0,
            };
            let checksum = written(head.tunnel_sum.add_word(source).add_word(rest).checksum());
            udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

#[inline]
fn patch_v4<'a>(head: &Head, flow: &Flow, packet: &'a mut [u8]) -> &'a mut [u8] {
    let (ip, segment) = packet.split_at_mut(Ipv4Repr::BYTES);
    let checksum = head.ip_sum.add_word(flow.address_sum).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip[12..16].copy_from_slice(&flow.fields.source.to_be_bytes()[4..]);
    ip[16..20].copy_from_slice(&flow.fields.destination.to_be_bytes()[4..]);
    segment
}

#[inline]
fn patch_v6<'a>(flow: &Flow, packet: &'a mut [u8]) -> &'a mut [u8] {
    let (ip, segment) = packet.split_at_mut(Ipv6Repr::BYTES);
    ip[16..24].copy_from_slice(&flow.fields.source.to_be_bytes());
    ip[32..40].copy_from_slice(&flow.fields.destination.to_be_bytes());
    segment
}

/// Write what names the flow, the stamp, and the checksum of all; each where the transport has it.
#[inline]
fn patch_segment<const NAMES: usize, const CHECKSUM: usize, const HEADER: usize>(
    sum: OnesComplementSum,
    names: u32,
    flow: &Flow,
    stamp: Option<StampWords>,
    segment: &mut [u8],
) {
    let mut sum = sum.add_word(flow.constant_sum);
    if let Some(stamp) = stamp {
        let segment = &mut segment[..HEADER + STAMP_BYTES];
        segment[HEADER..].copy_from_slice(&stamp.to_bytes());
        sum = stamp.add_to(sum);
    }
    let header = &mut segment[..HEADER];
    header[NAMES..NAMES + 4].copy_from_slice(&names.to_be_bytes());
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.checksum().to_be_bytes());
}

impl Flow {
    fn new(fields: FlowFields, prefixes: OnesComplementSum, covered: bool, stamp: StampFront) -> Self {
        let sum = |bytes: &[u8]| OnesComplementSum::new().add_bytes(bytes).folded();
        let addresses = prefixes
            .add_word(sum(&fields.source.to_be_bytes()))
            .add_word(sum(&fields.destination.to_be_bytes()));
        let before = if covered { addresses } else { OnesComplementSum::new() };
        let constants = before.add_word(sum(&fields.ports.to_be_bytes()));
        Self { fields, address_sum: addresses.folded(), constant_sum: constants.folded(), stamp }
    }

    #[inline]
    const fn ports(&self) -> u32 {
        self.fields.ports
    }
}

fn check(config: &TemplateConfig) -> Result<(), TemplateError> {
    if config.source_mac.is_group() {
        return Err(TemplateError::GroupSource { seen: config.source_mac.to_string() });
    }
    if config.vlans.len() > 2 {
        return Err(TemplateError::VlanTags { seen: config.vlans.len() });
    }
    if let Some(TunnelKind::Vxlan { vni: seen @ 0x100_0000.. }) = config.tunnel.map(|tunnel| tunnel.kind) {
        return Err(TemplateError::Vni { seen });
    }
    match config.vlans.iter().find(|tag| !tag.is_valid()) {
        Some(tag) => Err(TemplateError::VlanTag { id: tag.id, priority: tag.priority }),
        None => Ok(()),
    }
}

fn in_words(config: &TemplateConfig) -> String {
    let ip = match config.flows.version() {
        IpVersion::V4 => "IPv4",
        IpVersion::V6 => "IPv6",
    };
    let tags = match config.vlans.len() {
        0 => String::new(),
        1 => ", a VLAN tag".to_owned(),
        tags => format!(", {tags} VLAN tags"),
    };
    let tunnel = config.tunnel.map_or_else(String::new, |tunnel| format!(", {}", tunnel.name()));
    format!("Ethernet{tags}{tunnel}, {ip}, {}", config.transport.name())
}
