//! Recorded frames, prepared for replay: a stamp where it fits, and correct checksums.
//!
//! The stamp replaces the first 18 bytes of the payload of UDP, TCP or ICMP echo. Frames with a shorter payload or a
//! different protocol have no stamp. In VXLAN and GRE the inner packet has the stamp. The sum of all data that the
//! checksum covers, except the stamp, is computed once.

use crate::ip_header::IpVersion;
use std::collections::HashMap;
use std::sync::Arc;

use crate::checksum::OnesComplementSum;
use crate::error::{RecordingError, WireError};
use crate::ethernet::MacAddress;
use crate::flows::FLOW_LIMIT;
use crate::headers::Transport;
use crate::locate::{ip_packets, locate, Located};
use crate::sizes::{FCS_BYTES, LARGEST_FRAME_BYTES, SMALLEST_FRAME_BYTES};
use crate::stamp::{StampFront, STAMP_BYTES};
use crate::udp::written;

/// Maximum number of frames in a recording.
pub const MOST_RECORDED_FRAMES: usize = 1_000_000;
/// Length of the entry header before each frame of a recording: time and length (bytes).
const ENTRY_BYTES: usize = 10;

/// One frame, prepared for replay.
#[derive(Debug, Clone, Copy)]
struct Frame {
    begin: u32,
    length: u16,
    /// Offset of the stamp and of its transport checksum in the frame; 0 if the frame has no stamp (bytes).
    stamp: u16,
    checksum: u16,
    /// Sum of the data that the checksum covers, without the stamp.
    sum: u16,
    udp: bool,
    flow: u32,
}

/// All frames of a recording, in recorded order.
#[derive(Debug)]
pub struct Recording {
    bytes: Box<[u8]>,
    frames: Box<[Frame]>,
    times_ns: Box<[u64]>,
    flows: Arc<[u32]>,
    flow_count: u32,
    unstamped_frames: u64,
}

impl Recording {
    /// Parse frames in the controller's format: for each frame its time since the first frame (8 bytes, ns), its
    /// length without FCS (2 bytes), both little-endian, and its bytes.
    pub fn new(bytes: Box<[u8]>) -> Result<Self, RecordingError> {
        let mut bytes = bytes;
        let (mut frames, mut times_ns, mut names) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut at, mut before_ns) = (0, 0);
        while at < bytes.len() {
            let number = frames.len();
            let (time_ns, length) = entry(&bytes[at..]).ok_or(RecordingError::Cut { frame: number })?;
            let begin = at + ENTRY_BYTES;
            let frame = bytes.get_mut(begin..begin + length).ok_or(RecordingError::Cut { frame: number })?;
            let sizes =
                usize::from(SMALLEST_FRAME_BYTES - FCS_BYTES)..=usize::from(LARGEST_FRAME_BYTES - FCS_BYTES);
            if !sizes.contains(&length) {
                return Err(RecordingError::Length { frame: number, seen_bytes: length });
            }
            if time_ns < before_ns {
                return Err(RecordingError::TimeBack { frame: number });
            }
            if number == MOST_RECORDED_FRAMES {
                return Err(RecordingError::Frames { limit: MOST_RECORDED_FRAMES });
            }
            let begin =
                u32::try_from(begin).map_err(|_| RecordingError::Frames { limit: MOST_RECORDED_FRAMES })?;
            frames.push(made(frame, begin, &mut names));
            times_ns.push(time_ns);
            (at, before_ns) = (at + ENTRY_BYTES + length, time_ns);
        }
        let flow_count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        if frames.is_empty() {
            return Err(RecordingError::Empty);
        }
        // Frames without a stamp share one additional flow.
        if flow_count >= FLOW_LIMIT {
            return Err(RecordingError::Flows { seen: flow_count, limit: FLOW_LIMIT - 1 });
        }
        let unstamped = frames.iter_mut().filter(|frame| frame.stamp == 0);
        let unstamped_frames = unstamped.map(|frame| frame.flow = flow_count).count() as u64;
        let flows = frames.iter().map(|frame| frame.flow).collect();
        Ok(Self {
            bytes,
            frames: frames.into(),
            times_ns: times_ns.into(),
            flows,
            flow_count,
            unstamped_frames,
        })
    }

    /// Return the time of each frame since the first frame (ns).
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// Return the flow number of each frame; frames without a stamp share one additional flow after the others.
    pub fn flows(&self) -> Arc<[u32]> {
        Arc::clone(&self.flows)
    }

    /// Return the number of flows of stamped frames: distinct combinations of addresses, ports and protocol.
    pub const fn flow_count(&self) -> u32 {
        self.flow_count
    }

    /// Return the number of frames without a stamp.
    pub const fn unstamped_frames(&self) -> u64 {
        self.unstamped_frames
    }

    /// Return the length of a frame without FCS (bytes), or none if `index` is out of range.
    pub fn memory_bytes(&self, index: usize) -> Option<usize> {
        self.frames.get(index).map(|frame| usize::from(frame.length))
    }

    /// Return the length of the longest frame without FCS (bytes).
    pub fn largest_bytes(&self) -> usize {
        self.frames.iter().map(|frame| usize::from(frame.length)).max().unwrap_or(0)
    }
}

/// A recording with the addresses and the tag for its replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Recorded frames.
    pub recording: Arc<Recording>,
    /// MAC address of the sending interface.
    pub source_mac: MacAddress,
    /// MAC address of the receiver or of the first router.
    pub destination_mac: MacAddress,
    /// Tag of the stamps.
    pub tag: u16,
}

impl Replay {
    /// Write frame `index` of the recording, with sequence number `sequence` of its flow, to the start of `buffer`;
    /// return its length without FCS (bytes).
    pub fn emit(
        &self,
        index: usize,
        sequence: u64,
        tx_time_ns: u64,
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let (what, count, seen_bytes) = ("frame", self.recording.frames.len(), buffer.len());
        let known = self.recording.frames.get(index).ok_or(WireError::Index { what, seen: index, count })?;
        let (begin, needed_bytes) = (known.begin as usize, usize::from(known.length));
        let frame = buffer.get_mut(..needed_bytes).ok_or(WireError::Short {
            header: "frame",
            needed_bytes,
            seen_bytes,
        })?;
        frame.copy_from_slice(&self.recording.bytes[begin..begin + needed_bytes]);
        frame[..6].copy_from_slice(&self.destination_mac.0);
        frame[6..12].copy_from_slice(&self.source_mac.0);
        if known.stamp > 0 {
            let (stamp_at, checksum_at) = (usize::from(known.stamp), usize::from(known.checksum));
            let stamp = StampFront::new(self.tag, known.flow).complete(sequence, tx_time_ns);
            let checksum = stamp.add_to(OnesComplementSum::new().add_word(known.sum)).checksum();
            let checksum = if known.udp { written(checksum) } else { checksum };
            frame[stamp_at..stamp_at + STAMP_BYTES].copy_from_slice(&stamp.to_bytes());
            frame[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        Ok(needed_bytes)
    }
}

fn entry(bytes: &[u8]) -> Option<(u64, usize)> {
    let time_ns = u64::from_le_bytes(*bytes.first_chunk()?);
    let length = u16::from_le_bytes([*bytes.get(8)?, *bytes.get(9)?]);
    Some((time_ns, usize::from(length)))
}

/// The identity of a flow: transport, addresses, and ports or ICMP identifier.
type Name = (Transport, [u8; 16], [u8; 16], [u8; 4]);

/// Prepare a frame for replay: correct its checksums, and return its offsets and partial sum.
fn made(bytes: &mut [u8], begin: u32, names: &mut HashMap<Name, u32>) -> Frame {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let bare = Frame { begin, length, stamp: 0, checksum: 0, sum: 0, udp: false, flow: 0 };
    for at in ip_packets(bytes) {
        mend_header(&mut bytes[at..]);
    }
    let Ok(outer) = locate(bytes) else { return bare };
    let wrapped = outer.unwrapped().is_some();
    let outer_place = Place::of(&outer, bytes);
    if wrapped {
        // The inner checksum compensates for the stamp, so that the outer checksum is the same with and without a
        // stamp.
        if let Ok(inner) = locate(bytes).map(|outer| outer.unwrapped().unwrap_or(outer)) {
            let place = Place::of(&inner, bytes);
            let name = name_of(&inner);
            let found = place.stamped(bytes, bare, name, names);
            outer_place.mend(bytes);
            return found;
        }
    }
    let name = name_of(&outer);
    outer_place.stamped(bytes, bare, name, names)
}

/// Offsets of a transport segment, and the sum of its pseudo header.
#[derive(Debug, Clone, Copy)]
struct Place {
    begin: usize,
    end: usize,
    payload: usize,
    checksum: usize,
    pseudo_sum: u16,
    transport: Transport,
    /// Whether the segment is UDP over IPv4 without a checksum.
    unchecked: bool,
}

impl Place {
    fn of(located: &Located<'_>, frame: &[u8]) -> Self {
        let (transport, length) = (located.transport, located.segment.len());
        let payload = located.payload_offset;
        let begin = payload - (length - located.payload().len());
        let checksum = begin + transport.checksum_offset();
        let pseudo_sum = if transport.covers_addresses(located.version) {
            let bytes = u16::try_from(length).unwrap_or(u16::MAX);
            located.pseudo.sum_of(transport.protocol(located.version), bytes).folded()
        } else {
            0
        };
        let unchecked = transport == Transport::Udp
            && located.version == IpVersion::V4
            && frame[checksum..checksum + 2] == [0, 0];
        Self { begin, end: begin + length, payload, checksum, pseudo_sum, transport, unchecked }
    }

    /// Return the sum of all data that the checksum covers, without the checksum field.
    fn sum(&self, frame: &mut [u8]) -> u16 {
        frame[self.checksum..self.checksum + 2].fill(0);
        OnesComplementSum::new().add_word(self.pseudo_sum).add_bytes(&frame[self.begin..self.end]).folded()
    }

    /// Correct the checksum; leave a zero UDP checksum as it is.
    fn mend(&self, frame: &mut [u8]) {
        if self.unchecked {
            return;
        }
        let checksum = !self.sum(frame);
        let checksum = if self.transport == Transport::Udp { written(checksum) } else { checksum };
        frame[self.checksum..self.checksum + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Correct the checksum, and reserve the start of the payload for a stamp if it fits.
    fn stamped(self, frame: &mut [u8], bare: Frame, name: Name, names: &mut HashMap<Name, u32>) -> Frame {
        if self.end - self.payload < STAMP_BYTES {
            self.mend(frame);
            return bare;
        }
        frame[self.payload..self.payload + STAMP_BYTES].fill(0);
        // The outer checksum of a tunnel requires a correct inner checksum; until the stamp is written, its bytes are
        // zero.
        Self { unchecked: false, ..self }.mend(frame);
        let written = [frame[self.checksum], frame[self.checksum + 1]];
        let sum = self.sum(frame);
        frame[self.checksum..self.checksum + 2].copy_from_slice(&written);
        let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let offset = |at: usize| u16::try_from(at).unwrap_or(0);
        Frame {
            stamp: offset(self.payload),
            checksum: offset(self.checksum),
            sum,
            udp: self.transport == Transport::Udp,
            flow: *names.entry(name).or_insert(next),
            ..bare
        }
    }
}

fn name_of(located: &Located<'_>) -> Name {
    let (source, destination) = located.pseudo.octets();
    let segment = located.segment;
    let ports = match located.transport {
        Transport::Udp | Transport::Tcp => [segment[0], segment[1], segment[2], segment[3]],
        Transport::Icmp => [segment[4], segment[5], 0, 0],
    };
    (located.transport, source, destination, ports)
}

/// Correct the checksum of an IPv4 header.
fn mend_header(packet: &mut [u8]) {
    let length = packet.first().map_or(0, |byte| usize::from(byte & 0x0f) * 4);
    if packet[0] >> 4 != 4 || length < 20 || packet.len() < length {
        return;
    }
    packet[10..12].fill(0);
    let checksum = OnesComplementSum::new().add_bytes(&packet[..length]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}
