//! Frame templates: all constant bytes are built once; each frame is a copy with a few patched fields.
//!
//! Every frame has a correct transport checksum, also for UDP over IPv4. The constant part is summed in advance, so
//! each frame costs only the sum over the 18 bytes of the stamp, and the receiver can verify every byte. A template
//! is deterministic: the same size, flow, sequence number and time give the same bytes.

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

/// Minimum length of the headers before the stamp: Ethernet, IPv4 and UDP (bytes).
const LEAST_HEADER_BYTES: usize = 14 + 20 + 8;

/// Precomputed fields and sums of one flow.
#[derive(Debug, Clone, Copy)]
struct Flow {
    fields: FlowFields,
    address_sum: u16,
    /// sum of addresses and ports
    constant_sum: u16,
    stamp: StampFront,
}

/// The frames of one stream, ready to be written to buffers.
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
    /// Build the template for `config`; return an error if the configuration is invalid.
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

    /// Write frame number `sequence` of `flow`, with size index `size` and transmit time `tx_time_ns`, to the start
    /// of `buffer`; return its length without FCS (bytes).
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

    /// Write the payload fill to a buffer of at least [`Self::largest_bytes`] bytes, as [`Self::emit_primed`]
    /// requires.
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

    /// Return the number of flows.
    pub const fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Return the length of a frame with size index `size` without FCS (bytes), or none if the index is out of range.
    pub fn memory_bytes(&self, size: usize) -> Option<usize> {
        self.heads.get(size).map(|head| head.memory_bytes)
    }

    /// Return the length of the largest frame without FCS (bytes).
    pub const fn largest_bytes(&self) -> usize {
        self.head_bytes() + self.filler.len()
    }

    /// Whether the frames of the template have a stamp.
    pub const fn is_stamped(&self) -> bool {
        self.stamped
    }

    const fn head_bytes(&self) -> usize {
        self.layout.payload + if self.stamped { STAMP_BYTES } else { 0 }
    }

    /// Return the offset of the stamp in a sent frame (bytes).
    pub const fn stamp_offset(&self) -> usize {
        self.layout.payload
    }

    /// Return the tag of the stamps.
    pub const fn tag(&self) -> u16 {
        self.tag
    }

    /// Write a frame like [`Self::emit`], into a buffer that [`Self::prime`] has filled: only headers and stamp are
    /// written, whichever frame of this template the buffer contained before. The cost is independent of the frame
    /// size.
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
        // The constant minimum length lets the compiler inline the copy of the shortest headers; longer headers need
        // a second copy.
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

    /// Patch the fields of a VXLAN tunnel that differ between flows: the UDP source port and, over IPv6, the UDP
    /// checksum.
    fn patch_tunnel(&self, tunnel: Tunnel, head: &Head, (flow, fields): (u32, &Flow), packet: &mut [u8]) {
        let TunnelKind::Vxlan { .. } = tunnel.kind else { return };
        let udp = &mut packet[tunnel.ends.ip_bytes()..];
        let source = vxlan_source(flow);
        udp[..2].copy_from_slice(&source.to_be_bytes());
        if let TunnelEnds::V6(..) = tunnel.ends {
            // The inner segment sums to the complement of its pseudo header. An inner IPv6 header contains the
            // addresses once more, which cancels them out.
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

/// Write the flow's port or identifier fields, the stamp and the transport checksum.
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
