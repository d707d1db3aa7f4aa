//! Counting of frames through `AF_PACKET`: works without root, at the cost of a copy of each packet's headers.

use std::collections::HashMap;

use iolab_port::{AfPacket, Beyond, FlowKey, PacketRx, PortError, RxPort, SeenPacket, Way, MOST_FLOWS};

use super::headers::{flow_key, header_bytes};

/// Capture length of a packet: Ethernet with two tags, IPv6, TCP with all options (bytes).
const HEADER_BYTES: u32 = 128;
/// Maximum number of packets read in one batch.
const BATCH: usize = 1024;

/// The packets of an interface in one direction.
#[derive(Debug)]
pub struct PacketSight {
    rx: PacketRx,
    keys: HashMap<FlowKey, usize>,
    flows: usize,
    beyond: Beyond,
}

/// The frames on the line that one packet represents.
#[derive(Debug, Clone, Copy)]
pub struct OnLine {
    pub at_ns: u64,
    pub frames: u64,
    pub bytes: u64,
    /// Flow number, or the number of the shared slot.
    pub flow: usize,
}

impl PacketSight {
    /// Open a counter for an interface of the calling thread's namespace that distinguishes up to `flows` flows.
    pub fn open(interface: &str, way: Way, flows: usize) -> Result<Self, PortError> {
        let rx = AfPacket::look(interface, way, HEADER_BYTES)?;
        Ok(Self { rx, keys: HashMap::new(), flows, beyond: Beyond::default() })
    }

    /// Call `take` for each packet that has arrived.
    pub fn read(&mut self, mut take: impl FnMut(OnLine)) -> Result<(), PortError> {
        loop {
            let count = self.rx.poll(BATCH)?;
            for index in 0..count {
                let seen = self.rx.seen(index);
                let (frames, bytes) = on_line(seen);
                self.beyond.added_frames += frames - 1;
                self.beyond.added_bytes += bytes - seen.whole_bytes as u64;
                let flow = if self.flows == 0 {
                    MOST_FLOWS
                } else {
                    place(&mut self.keys, self.flows, flow_key(seen.bytes))
                };
                take(OnLine { at_ns: seen.stamp_ns, frames, bytes, flow });
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Return the lost frames, and the frames and bytes on the line in excess of the packets; the bytes of lost
    /// packets are unknown.
    pub fn beyond(&mut self) -> Beyond {
        let lost_frames = self.rx.stats().map_or(0, |stats| stats.dropped_frames);
        Beyond { lost_frames, ..self.beyond }
    }

    /// Return the flows with a separate number, in order.
    pub fn flows(&self) -> Vec<FlowKey> {
        let mut found: Vec<_> = self.keys.iter().map(|(&key, &number)| (number, key)).collect();
        found.sort_unstable_by_key(|&(number, _)| number);
        found.into_iter().map(|(_, key)| key).collect()
    }
}

fn place(keys: &mut HashMap<FlowKey, usize>, most: usize, key: FlowKey) -> usize {
    let next = keys.len();
    if next >= most {
        return keys.get(&key).copied().unwrap_or(MOST_FLOWS);
    }
    *keys.entry(key).or_insert(next)
}

/// Return the number of frames and bytes on the line for a packet.
pub fn on_line(seen: SeenPacket<'_>) -> (u64, u64) {
    let (whole, segment) = (seen.whole_bytes as u64, u64::from(seen.segment_bytes));
    let header = header_bytes(seen.bytes).map(|bytes| bytes as u64).filter(|&header| header < whole);
    match header {
        Some(header) if segment > 0 => {
            let frames = (whole - header).div_ceil(segment);
            (frames, whole + (frames - 1) * header)
        }
        _ => (1, whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn super_frame_counts_as_its_frames_on_the_line() {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        bytes.extend([0; 12]);
        bytes.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        let seen = |whole_bytes, segment_bytes| SeenPacket {
            bytes: &bytes,
            stamp_ns: 1,
            whole_bytes,
            segment_bytes,
            way: Way::In,
        };
        assert_eq!(on_line(seen(54 + 3000, 1460)), (3, 3 * 54 + 3000));
        assert_eq!(on_line(seen(54 + 2920, 1460)), (2, 2 * 54 + 2920));
        assert_eq!(on_line(seen(1514, 0)), (1, 1514));
    }

    #[test]
    fn flows_beyond_the_requested_number_are_combined() {
        let mut keys = HashMap::new();
        let key = |port| FlowKey { source_port: port, ..flow_key(&[0; 60]) };
        let places: Vec<_> = [1, 2, 3, 1, 4].map(|port| place(&mut keys, 2, key(port))).into();
        assert_eq!(places, [0, 1, MOST_FLOWS, 0, MOST_FLOWS]);
    }
}
