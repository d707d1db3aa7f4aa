//! Super-frames: several segments of one TCP or UDP flow with one header, the GSO format of network stacks and TAP
//! devices (struct `virtio_net_hdr`, virtio 1.2, 5.1.6). This module computes the frame of each segment on a line,
//! and builds super-frames from runs of segments.

use crate::checksum::{update_checksum, OnesComplementSum};
use crate::ip_header::ip_header;
use crate::ip_header::IpVersion;
use crate::sizes::{FCS_BYTES, SMALLEST_FRAME_BYTES};

/// Length of the `virtio_net_hdr` before a frame of a TAP device (bytes).
pub const TAP_HEADER_BYTES: usize = 10;
/// Maximum header length of a segment: Ethernet with two tags, IPv6 with options, TCP with options (bytes).
const MOST_HEADER_BYTES: usize = 256;

const NEEDS_CHECKSUM: u8 = 1;
const TCP_KINDS: [u8; 2] = [1, 4]; // over IPv4, over IPv6
const UDP_KIND: u8 = 5;
const TCP_HEADER_BYTES: usize = 20; // without options (RFC 9293, 3.1)
const UDP_HEADER_BYTES: usize = 8;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const FIN: u8 = 0x01;
const PUSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The segmentation of a frame from a TAP device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Number of segments; 1 for a frame that is not a super-frame.
    pub count: u32,
    header_bytes: usize,
    payload_bytes: usize,
    tcp: bool,
}

/// The headers of a run of segments, with the `virtio_net_hdr` before them.
#[derive(Debug, Clone)]
pub struct RunHeader {
    bytes: [u8; TAP_HEADER_BYTES + MOST_HEADER_BYTES],
    length: usize,
}

impl Default for RunHeader {
    fn default() -> Self {
        Self { bytes: [0; TAP_HEADER_BYTES + MOST_HEADER_BYTES], length: 0 }
    }
}

impl RunHeader {
    /// Return the bytes of the headers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Segments {
    /// Parse the segmentation of `bytes`, a `virtio_net_hdr` and its frame; treat a frame with an invalid GSO header
    /// as one segment.
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_super_frame(bytes).unwrap_or(Self {
            count: 1,
            header_bytes: 0,
            payload_bytes: 0,
            tcp: false,
        })
    }

    fn of_super_frame(bytes: &[u8]) -> Option<Self> {
        let (kind, payload_bytes) = (*bytes.get(1)? & 0x7f, usize::from(native(bytes, 4)?));
        let tcp = TCP_KINDS.contains(&kind);
        if payload_bytes == 0 || !(tcp || kind == UDP_KIND) {
            return None;
        }
        let (frame, transport) = (bytes.get(TAP_HEADER_BYTES..)?, usize::from(native(bytes, 6)?));
        let length = if tcp { usize::from(frame.get(transport + 12)? >> 4) * 4 } else { UDP_HEADER_BYTES };
        let header_bytes = transport + length;
        let payload = frame.len().checked_sub(header_bytes).filter(|&payload| payload > payload_bytes)?;
        // The guest's header is untrusted: a TCP header shorter than the minimum has no checksum field.
        let least = if tcp { TCP_HEADER_BYTES } else { UDP_HEADER_BYTES };
        (header_bytes <= MOST_HEADER_BYTES && length >= least).then_some(())?;
        let count = u32::try_from(payload.div_ceil(payload_bytes)).ok()?;
        Some(Self { count, header_bytes, payload_bytes, tcp })
    }

    /// Return the frame length of segment `index` of `bytes`, without FCS.
    pub fn frame_bytes(&self, bytes: &[u8], index: u32) -> usize {
        let frame = bytes.len().saturating_sub(TAP_HEADER_BYTES);
        if self.count == 1 {
            return frame;
        }
        let before = index as usize * self.payload_bytes;
        self.header_bytes + (frame - self.header_bytes - before).min(self.payload_bytes)
    }

    /// Return the frame length of segment `index` on a line, with FCS.
    pub fn line_bytes(&self, bytes: &[u8], index: u32) -> u32 {
        let with_fcs = self.frame_bytes(bytes, index) + usize::from(FCS_BYTES);
        u32::try_from(with_fcs).unwrap_or(u32::MAX).max(u32::from(SMALLEST_FRAME_BYTES))
    }

    /// Build one TAP frame from segments `first` to `first + count` of `bytes`: write its headers to `header` and
    /// return its payload.
    pub fn run<'a>(&self, bytes: &'a [u8], first: u32, count: u32, header: &mut RunHeader) -> &'a [u8] {
        if count == self.count {
            header.length = 0;
            return bytes;
        }
        let (head, payload) = bytes.split_at(TAP_HEADER_BYTES + self.header_bytes);
        let begin = first as usize * self.payload_bytes;
        let end = (begin + count as usize * self.payload_bytes).min(payload.len());
        header.length = head.len();
        let made = &mut header.bytes[..head.len()];
        made.copy_from_slice(head);
        let transport = TAP_HEADER_BYTES + usize::from(native(head, 6).unwrap_or(0));
        let lengths = (bytes.len() - transport, head.len() - transport + end - begin);
        Self::set_network(made, first, lengths);
        self.set_transport(&mut made[transport..], (first, count), begin, lengths);
        made[2..4].copy_from_slice(&low_word(self.header_bytes).to_ne_bytes());
        if count == 1 {
            made[1] = 0;
            made[4..6].fill(0);
        }
        &payload[begin..end]
    }

    /// Update lengths and identification of the IP header; `before` and `after` are the old and new length of
    /// transport header and payload.
    fn set_network(made: &mut [u8], first: u32, (before, after): (usize, usize)) {
        let Some((version, at)) = ip_header(&made[TAP_HEADER_BYTES..]) else { return };
        let ip = &mut made[TAP_HEADER_BYTES + at..];
        match version {
            IpVersion::V4 => {
                let total = word(ip, 2).wrapping_sub(low_word(before)).wrapping_add(low_word(after));
                replace_word(ip, 2, total, 10);
                let number = word(ip, 4).wrapping_add(low_word(first as usize));
                replace_word(ip, 4, number, 10);
            }
            IpVersion::V6 => {
                let length = word(ip, 4).wrapping_sub(low_word(before)).wrapping_add(low_word(after));
                ip[4..6].copy_from_slice(&length.to_be_bytes());
            }
        }
    }

    fn set_transport(
        &self,
        header: &mut [u8],
        (first, count): (u32, u32),
        begin: usize,
        (before, after): (usize, usize),
    ) {
        // The checksum field contains the pseudo header's sum, not complemented; the length is a part of the sum.
        let place = if self.tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
        let sum = !update_checksum(!word(header, place), low_word(before), low_word(after));
        header[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        if !self.tcp {
            return header[4..6].copy_from_slice(&low_word(after).to_be_bytes());
        }
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let begin = u32::try_from(begin).unwrap_or(0);
        header[4..8].copy_from_slice(&sequence.wrapping_add(begin).to_be_bytes());
        if first + count < self.count {
            header[13] &= !(FIN | PUSH);
        }
        if first > 0 {
            header[13] &= !CWR;
        }
    }
}

/// Complete `bytes`, a `virtio_net_hdr` and one frame: write the transport checksum and clear the header, so that the
/// receiver has no offload to do.
pub fn finish(bytes: &mut [u8]) {
    let (start, offset) =
        (usize::from(native(bytes, 6).unwrap_or(0)), usize::from(native(bytes, 8).unwrap_or(0)));
    let (header, frame) = bytes.split_at_mut(TAP_HEADER_BYTES);
    if header[0] & NEEDS_CHECKSUM != 0 && start + offset + 2 <= frame.len() {
        let checksum = OnesComplementSum::new().add_bytes(&frame[start..]).checksum();
        let checksum = if checksum == 0 && offset == UDP_CHECKSUM { u16::MAX } else { checksum };
        frame[start + offset..start + offset + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    header.fill(0);
}

fn native(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn replace_word(bytes: &mut [u8], at: usize, new: u16, checksum: usize) {
    let updated = update_checksum(word(bytes, checksum), word(bytes, at), new);
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    bytes[checksum..checksum + 2].copy_from_slice(&updated.to_be_bytes());
}

#[allow(clippy::cast_possible_truncation)] // lengths of IP packets fit
const fn low_word(value: usize) -> u16 {
    value as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return a super-frame of TCP over IPv4 with a payload of 1, 2, 3, ...; its checksums are incomplete, as the stack
    /// leaves them for the offload.
    fn super_frame(payload: usize, segment: u16) -> Vec<u8> {
        let mut bytes = vec![NEEDS_CHECKSUM, 1, 0, 0];
        [segment, 34, 16].iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
        bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        let total = u16::try_from(40 + payload).unwrap();
        let mut ip = vec![0x45, 0];
        ip.extend(total.to_be_bytes());
        ip.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        let sum = OnesComplementSum::new().add_bytes(&ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(&ip);
        let mut tcp =
            vec![0x10, 0, 0x20, 0, 0, 0, 0, 100, 0, 0, 0, 9, 0x50, FIN | PUSH | CWR | 0x10, 1, 0, 0, 0, 0, 0];
        tcp[16..18].copy_from_slice(&pseudo(20 + payload).to_be_bytes());
        bytes.extend(&tcp);
        bytes.extend((0..=250u8).cycle().take(payload));
        bytes
    }

    fn pseudo(length: usize) -> u16 {
        let addresses = [198, 18, 0, 1, 198, 18, 0, 2, 0, 6];
        OnesComplementSum::new().add_bytes(&addresses).add_word(u16::try_from(length).unwrap()).folded()
    }

    fn run(bytes: &[u8], first: u32, count: u32) -> Vec<u8> {
        let mut header = RunHeader::default();
        let payload = Segments::of(bytes).run(bytes, first, count, &mut header);
        [header.bytes(), payload].concat()
    }

    #[test]
    fn super_frame_is_split_into_its_frames() {
        let bytes = super_frame(2500, 1000);
        let segments = Segments::of(&bytes);
        assert_eq!(segments.count, 3);
        assert_eq!([0, 1, 2].map(|index| segments.frame_bytes(&bytes, index)), [1054, 1054, 554]);
        assert_eq!(run(&bytes, 0, 3), bytes, "all of it is itself");
        assert_eq!(Segments::of(&super_frame(900, 1000)).count, 1);
        assert_eq!(Segments::of(&bytes[..20]).count, 1, "what makes no sense is one frame");
    }

    /// A part of a super-frame equals the frame that the stack would have built from these bytes.
    #[test]
    fn runs_of_segments_are_valid_packets() {
        let bytes = super_frame(3500, 1000);
        let middle = run(&bytes, 1, 2);
        assert_eq!((middle[1], native(&middle, 4)), (1, Some(1000)));
        let ip = &middle[24..44];
        assert_eq!((word(ip, 2), word(ip, 4)), (2040, 8));
        assert_eq!(OnesComplementSum::new().add_bytes(ip).checksum(), 0, "the header's checksum holds");
        let tcp = &middle[44..64];
        assert_eq!(
            (tcp[7] as usize + 256 * tcp[6] as usize, tcp[13], word(tcp, 16)),
            (1100, 0x10, pseudo(2020))
        );
        assert_eq!(middle[64..], bytes[1064..3064]);
        let last = run(&bytes, 3, 1);
        assert_eq!((last[1], last[57], word(&last, 60)), (0, FIN | PUSH | 0x10, pseudo(520)));
        assert_eq!(run(&bytes, 0, 1)[57], CWR | 0x10, "the first alone says that its window was cut");
    }

    #[test]
    fn finished_frame_has_a_valid_checksum() {
        let mut frame = run(&super_frame(3500, 1000), 2, 1);
        finish(&mut frame);
        assert_eq!(frame[..TAP_HEADER_BYTES], [0; TAP_HEADER_BYTES]);
        let sum = OnesComplementSum::new().add_bytes(&[198, 18, 0, 1, 198, 18, 0, 2, 0, 6]).add_word(1020);
        assert_eq!(sum.add_bytes(&frame[44..]).checksum(), 0);
    }
}
