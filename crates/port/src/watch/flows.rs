//! Flow counters: the first flows have separate slots, all later flows share the last slot.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;

use iolab_sys::bpf::{Assembler, Condition, Helper, Operation, Register, Width};

use super::{shared, FLOW_RING, FLOW_SLOTS};
use crate::hook::packet::{ethernet_type, read, ETHERNET_BYTES, TCP, UDP};

/// The maps and settings for counting flows.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowMaps {
    pub(super) places: RawFd,
    pub(super) bins: RawFd,
    pub(super) window_us: u32,
    pub(super) most: u32,
}

/// The identity of a flow. Non-IP frames are one flow, with protocol 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port; 0 if the protocol has no ports.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol number (IANA).
    pub protocol: u8,
}

impl FlowKey {
    pub(super) fn parse(bytes: &[u8; shared::KEY_BYTES]) -> Self {
        let address = |from: usize| {
            let octets: [u8; 16] = std::array::from_fn(|at| bytes[from + at]);
            if bytes[37] == 6 {
                return IpAddr::V6(Ipv6Addr::from(octets));
            }
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        };
        Self {
            source: address(0),
            destination: address(16),
            source_port: u16::from_be_bytes([bytes[32], bytes[33]]),
            destination_port: u16::from_be_bytes([bytes[34], bytes[35]]),
            protocol: bytes[36],
        }
    }
}

/// Stack offset of the key while a packet is processed.
const KEY: i16 = -80;
const PLACE: i16 = -88;
const SCRATCH: i16 = -96;
const PROTOCOL: i16 = 16;
/// Mask of the flag MF and the fragment offset (RFC 791): nonzero in a fragment.
const FRAGMENT: u16 = 0x3fff;

/// Emit code that adds R9 to the packet's flow in the window of the microsecond R8; both registers are preserved.
pub(super) fn count(program: &mut Assembler, maps: FlowMaps, words: i32) {
    use Register::{R0, R1, R10, R2, R3, R8, R9};
    let (found, place) = (program.label(), program.label());
    key(program);
    program.set_map(R1, maps.places);
    program.combine(Operation::Move, R2, R10);
    program.compute(Operation::Add, R2, i32::from(KEY));
    program.call(Helper::MapLookup);
    program.jump_if(R0, Condition::NotEqual, 0, found);
    new_place(program, maps, words);
    program.load(Width::Word, R0, R10, PLACE);
    program.jump(place);
    program.bind(found);
    program.load(Width::Word, R0, R0, 0);
    program.bind(place);
    program.compute(Operation::And, R0, i32::try_from(FLOW_SLOTS - 1).unwrap_or(0));
    program.compute(Operation::ShiftLeft, R0, i32::try_from(FLOW_RING.ilog2()).unwrap_or(0));
    program.combine(Operation::Move, R2, R8);
    program.compute(Operation::Divide, R2, i32::try_from(maps.window_us).unwrap_or(i32::MAX));
    program.compute(Operation::And, R2, i32::try_from(FLOW_RING - 1).unwrap_or(0));
    program.combine(Operation::Add, R0, R2);
    program.compute(Operation::ShiftLeft, R0, 3);
    program.set_map_value(R3, maps.bins);
    program.combine(Operation::Add, R3, R0);
    program.add_atomically(R3, 0, R9);
}

/// Emit code that assigns the next free slot to the key on the stack, or the shared slot; the slot number is stored
/// on the stack.
fn new_place(program: &mut Assembler, maps: FlowMaps, words: i32) {
    use Register::{R0, R1, R10, R2, R3, R4, R7};
    let done = program.label();
    let last = i32::try_from(FLOW_SLOTS - 1).unwrap_or(0);
    let most = i32::try_from(maps.most).unwrap_or(last);
    program.store_value(Width::Double, R10, PLACE, last);
    // If all slots are assigned, the counter is not increased, so the counter cannot wrap around.
    program.load(Width::Double, R1, R7, shared::FLOWS);
    program.jump_if(R1, Condition::AtLeast, most, done);
    program.compute(Operation::Move, R1, 1);
    program.fetch_and_add(R7, shared::FLOWS, R1);
    program.jump_if(R1, Condition::AtLeast, most, done);
    program.compute(Operation::And, R1, last);
    program.store(Width::Double, R10, PLACE, R1);
    program.combine(Operation::Move, R0, R1);
    program.compute(Operation::Multiply, R0, i32::try_from(shared::KEY_BYTES).unwrap_or(0));
    program.set_map_value(R3, words);
    program.combine(Operation::Add, R3, R0);
    for word in (0..shared::KEY_BYTES).step_by(8) {
        let word = i16::try_from(word).unwrap_or(0);
        program.load(Width::Double, R2, R10, KEY + word);
        program.store(Width::Double, R3, shared::FLOW_KEYS + word, R2);
    }
    program.set_map(R1, maps.places);
    program.combine(Operation::Move, R2, R10);
    program.compute(Operation::Add, R2, i32::from(KEY));
    program.combine(Operation::Move, R3, R10);
    program.compute(Operation::Add, R3, i32::from(PLACE));
    program.compute(Operation::Move, R4, 0);
    program.call(Helper::MapUpdate);
    program.bind(done);
}

/// Emit code that builds the key of the packet R6 on the stack; unreadable fields stay zero.
fn key(program: &mut Assembler) {
    use Register::{R0, R10, R2, R6};
    const LAYER_3: i16 = SCRATCH;
    const READ: i16 = SCRATCH - 8;
    let (ip, six, ports, made) = (program.label(), program.label(), program.label(), program.label());
    for word in (0..shared::KEY_BYTES).step_by(8) {
        program.store_value(Width::Double, R10, KEY + i16::try_from(word).unwrap_or(0), 0);
    }
    program.store_value(Width::Double, R10, READ, 0);
    program.store_value(Width::Double, R10, LAYER_3, ETHERNET_BYTES);
    program.load(Width::Word, R2, R6, PROTOCOL);
    program.jump_if(R2, Condition::NotEqual, ethernet_type(0x8100), ip);
    program.store_value(Width::Double, R10, LAYER_3, ETHERNET_BYTES + 4);
    program.compute(Operation::Move, R2, ETHERNET_BYTES + 2);
    read(program, READ, 2, made);
    program.load(Width::Half, R2, R10, READ);
    program.bind(ip);
    program.jump_if(R2, Condition::Equal, ethernet_type(0x86dd), six);
    program.jump_if(R2, Condition::NotEqual, ethernet_type(0x0800), made);
    program.store_value(Width::Byte, R10, KEY + 37, 4);
    for (at, place, bytes) in [(9, KEY + 36, 1), (12, KEY, 4), (16, KEY + 16, 4)] {
        program.load(Width::Double, R2, R10, LAYER_3);
        program.compute(Operation::Add, R2, at);
        read(program, place, bytes, made);
    }
    // Only the first fragment of a packet has ports, so the ports of all fragments are ignored.
    program.load(Width::Double, R2, R10, LAYER_3);
    program.compute(Operation::Add, R2, 6);
    read(program, READ, 2, made);
    program.load(Width::Half, R0, R10, READ);
    program.compute(Operation::And, R0, ethernet_type(FRAGMENT));
    program.jump_if(R0, Condition::NotEqual, 0, made);
    program.load(Width::Double, R2, R10, LAYER_3);
    read(program, READ, 1, made);
    program.load(Width::Byte, R0, R10, READ);
    program.compute(Operation::And, R0, 0xf);
    program.compute(Operation::ShiftLeft, R0, 2);
    program.load(Width::Double, R2, R10, LAYER_3);
    program.combine(Operation::Add, R2, R0);
    program.jump(ports);
    program.bind(six);
    program.store_value(Width::Byte, R10, KEY + 37, 6);
    for (at, place, bytes) in [(6, KEY + 36, 1), (8, KEY, 16), (24, KEY + 16, 16)] {
        program.load(Width::Double, R2, R10, LAYER_3);
        program.compute(Operation::Add, R2, at);
        read(program, place, bytes, made);
    }
    program.load(Width::Double, R2, R10, LAYER_3);
    program.compute(Operation::Add, R2, 40);
    program.bind(ports);
    let reads = program.label();
    program.load(Width::Byte, R0, R10, KEY + 36);
    program.jump_if(R0, Condition::Equal, TCP, reads);
    program.jump_if(R0, Condition::NotEqual, UDP, made);
    program.bind(reads);
    read(program, KEY + 32, 4, made);
    program.bind(made);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_key_written_by_the_program_is_parsed_correctly() {
        let mut bytes = [0; shared::KEY_BYTES];
        bytes[..4].copy_from_slice(&[198, 18, 0, 1]);
        bytes[16..20].copy_from_slice(&[198, 18, 0, 2]);
        bytes[32..38].copy_from_slice(&[0x14, 0x51, 0, 80, 6, 4]);
        let key = FlowKey::parse(&bytes);
        assert_eq!(key.source.to_string() + " " + &key.destination.to_string(), "198.18.0.1 198.18.0.2");
        assert_eq!((key.source_port, key.destination_port, key.protocol), (5201, 80, 6));
        bytes[37] = 6;
        assert_eq!(FlowKey::parse(&bytes).source.to_string(), "c612:1::");
    }
}
