//! The instructions of a watch program: read the clock, find the bin, add once. Only super-frames and packets with an
//! out-of-band VLAN tag take a longer code path.

use std::os::fd::RawFd;

use iolab_sys::bpf::{Assembler, Condition, Helper, Label, Operation, Register, Width};

use super::flows::{self, FlowMaps};
use super::{shared, FLOW_RING, FLOW_SLOTS, FRAME_BITS, RING_US};
use crate::hook::packet::{ethernet_type, read, ETHERNET_BYTES, TCP, UDP};
use crate::hook::NEXT;

/// Offsets of the fields of struct __`sk_buff` (bytes).
mod context {
    pub(super) const LEN: i16 = 0;
    pub(super) const PROTOCOL: i16 = 16;
    pub(super) const VLAN_PRESENT: i16 = 20;
    pub(super) const STAMP: i16 = 152;
    pub(super) const GSO_SEGS: i16 = 164;
    pub(super) const GSO_SIZE: i16 = 176;
}

const VLAN_BYTES: i32 = 4;

/// Reciprocal of 125: n / 125 = n * RECIPROCAL >> 35 for every n below 2^32; a division would cost more than all
/// other instructions.
const RECIPROCAL: i32 = 0x1062_4dd3;
const RECIPROCAL_SHIFT: i32 = 35;
/// Maximum age of a timestamp, less than the time by which the reader stays behind the clock (ns).
const OLDEST_STAMP_NS: i32 = 50_000_000;
/// Maximum time by which a timestamp may appear to be in the future: the uncertainty of the clock offset (ns).
const NEWEST_STAMP_NS: i32 = 2_000;

/// The maps of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maps {
    pub(super) bins: RawFd,
    pub(super) shared: RawFd,
    /// Whether packets have timestamps from before they were steered to a different CPU.
    pub(super) stamped: bool,
    /// Maps of the flow counters, if flows are counted.
    pub(super) flows: Option<FlowMaps>,
}

/// Assemble the program that does nothing, the baseline for the cost of a watch.
pub(super) fn idle() -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    program.exit_with(NEXT);
    program.finish()
}

/// Assemble the counting program. Registers: R6 the packet, R7 the shared words, R8 the bin, R9 bytes and frames as
/// one word.
pub(super) fn instructions(maps: Maps) -> Vec<[u8; 8]> {
    use Register::{R0, R1, R2, R3, R6, R7, R8, R9};
    let mut program = Assembler::default();
    let (lost, segments, tagged, count) =
        (program.label(), program.label(), program.label(), program.label());
    program.combine(Operation::Move, R6, R1);
    program.call(Helper::KtimeGetNs);
    program.set_map_value(R7, maps.shared);
    if maps.stamped {
        time_of_stamp(&mut program);
    }
    program.load(Width::Double, R2, R7, shared::BASE_US);
    program.combine(Operation::Move, R3, R2);
    program.compute(Operation::Multiply, R3, 1000);
    program.combine(Operation::Subtract, R0, R3);
    program.load(Width::Word, R9, R6, context::LEN);
    let room_us =
        maps.flows.map_or(RING_US, |flows| RING_US.min((FLOW_RING - 1) * u64::from(flows.window_us)));
    // A time before the base wraps around to a very large number.
    program.jump_if(R0, Condition::AtLeast, i32::try_from(room_us * 1000).unwrap_or(i32::MAX), lost);
    program.compute(Operation::ShiftRight, R0, 3);
    program.compute(Operation::Multiply, R0, RECIPROCAL);
    program.compute(Operation::ShiftRight, R0, RECIPROCAL_SHIFT);
    program.combine(Operation::Add, R0, R2);
    program.combine(Operation::Move, R8, R0); // the microsecond
    program.load(Width::Word, R3, R6, context::GSO_SIZE);
    program.jump_if(R3, Condition::NotEqual, 0, segments);
    program.load(Width::Word, R3, R6, context::VLAN_PRESENT);
    program.jump_if(R3, Condition::NotEqual, 0, tagged);
    program.compute(Operation::ShiftLeft, R9, FRAME_BITS);
    program.compute(Operation::Add, R9, 1);
    program.bind(count);
    if let Some(flow_maps) = maps.flows {
        flows::count(&mut program, flow_maps, maps.shared);
    }
    program.compute(Operation::And, R8, i32::try_from(RING_US - 1).unwrap_or(i32::MAX));
    program.compute(Operation::ShiftLeft, R8, 3);
    program.set_map_value(R1, maps.bins);
    program.combine(Operation::Add, R1, R8);
    program.add_atomically(R1, 0, R9);
    program.exit_with(NEXT);
    long_way(&mut program, [segments, tagged, count]);
    program.bind(lost);
    program.set_map_value(R7, maps.shared);
    program.add_atomically(R7, shared::LOST_BYTES, R9);
    program.compute(Operation::Move, R1, 1);
    program.add_atomically(R7, shared::LOST_FRAMES, R1);
    program.exit_with(NEXT);
    program.finish()
}

/// Emit code that replaces the current time R0 with the packet's timestamp, if the timestamp is plausible (ns); on
/// ingress the kernel does not show transmit times (EDT) in this field.
fn time_of_stamp(program: &mut Assembler) {
    use Register::{R0, R1, R2, R3, R6, R7};
    let (stamped, done) = (program.label(), program.label());
    program.load(Width::Double, R2, R6, context::STAMP);
    program.load(Width::Double, R3, R7, shared::STAMPS_AHEAD_NS);
    program.combine(Operation::Subtract, R2, R3);
    program.combine(Operation::Move, R3, R0);
    program.combine(Operation::Subtract, R3, R2);
    program.compute(Operation::Add, R3, NEWEST_STAMP_NS);
    // A timestamp in the future and a missing timestamp both give a very large age.
    program.jump_if(R3, Condition::AtMost, OLDEST_STAMP_NS + NEWEST_STAMP_NS, stamped);
    program.compute(Operation::Move, R1, 1);
    program.add_atomically(R7, shared::UNSTAMPED_FRAMES, R1);
    program.jump(done);
    program.bind(stamped);
    program.combine(Operation::Move, R0, R2);
    program.bind(done);
}

/// Emit the code path that counts a super-frame as the frames that it becomes on the wire, and adds out-of-band VLAN
/// tags.
fn long_way(program: &mut Assembler, [segments, tagged, count]: [Label; 3]) {
    use Register::{R0, R1, R10, R2, R3, R6, R7, R9};
    const FRAMES: i16 = -8;
    const BEGAN: i16 = -16;
    const HEADER: i16 = -24;
    let (add, untagged, uncut) = (program.label(), program.label(), program.label());
    program.bind(tagged);
    program.store(Width::Double, R10, BEGAN, R9);
    program.store_value(Width::Double, R10, FRAMES, 1);
    program.jump(add);
    program.bind(segments);
    program.store(Width::Double, R10, BEGAN, R9);
    // If the header cannot be read, use the number of segments from the stack.
    program.load(Width::Word, R0, R6, context::GSO_SEGS);
    let known = program.label();
    program.jump_if(R0, Condition::NotEqual, 0, known);
    program.compute(Operation::Move, R0, 1);
    program.bind(known);
    program.store(Width::Double, R10, FRAMES, R0);
    header_length(program, HEADER, uncut);
    // frames = (bytes - header + size - 1) / size
    program.load(Width::Double, R0, R10, HEADER);
    program.load(Width::Word, R3, R6, context::GSO_SIZE);
    program.combine(Operation::Move, R2, R9);
    program.combine(Operation::Subtract, R2, R0);
    program.combine(Operation::Add, R2, R3);
    program.compute(Operation::Subtract, R2, 1);
    program.combine(Operation::Divide, R2, R3);
    program.store(Width::Double, R10, FRAMES, R2);
    program.compute(Operation::Subtract, R2, 1);
    program.combine(Operation::Multiply, R2, R0);
    program.combine(Operation::Add, R9, R2);
    program.bind(uncut);
    program.bind(add);
    program.load(Width::Word, R2, R6, context::VLAN_PRESENT);
    program.jump_if(R2, Condition::Equal, 0, untagged);
    program.load(Width::Double, R2, R10, FRAMES);
    program.compute(Operation::Multiply, R2, VLAN_BYTES);
    program.combine(Operation::Add, R9, R2);
    program.bind(untagged);
    program.load(Width::Double, R1, R10, BEGAN);
    program.combine(Operation::Move, R2, R9);
    program.combine(Operation::Subtract, R2, R1);
    program.add_atomically(R7, shared::ADDED_BYTES, R2);
    program.load(Width::Double, R2, R10, FRAMES);
    program.combine(Operation::Move, R3, R2);
    program.compute(Operation::Subtract, R3, 1);
    program.add_atomically(R7, shared::ADDED_FRAMES, R3);
    program.compute(Operation::ShiftLeft, R9, FRAME_BITS);
    program.combine(Operation::Add, R9, R2);
    program.jump(count);
}

/// Emit code that stores the length of Ethernet, IP and transport header at stack offset `at`, or jumps to `unknown`
/// if a header cannot be read.
fn header_length(program: &mut Assembler, at: i16, unknown: Label) {
    use Register::{R0, R10, R2, R6};
    const READ: i16 = -32;
    const LAYER_3: i16 = -40;
    let (ip, six, transport, udp, done) =
        (program.label(), program.label(), program.label(), program.label(), program.label());
    program.store_value(Width::Double, R10, LAYER_3, ETHERNET_BYTES);
    program.load(Width::Word, R2, R6, context::PROTOCOL);
    program.jump_if(R2, Condition::NotEqual, ethernet_type(0x8100), ip);
    program.store_value(Width::Double, R10, LAYER_3, ETHERNET_BYTES + VLAN_BYTES);
    program.compute(Operation::Move, R2, ETHERNET_BYTES + 2);
    read(program, READ, 2, unknown);
    program.load(Width::Half, R2, R10, READ);
    program.bind(ip);
    program.jump_if(R2, Condition::Equal, ethernet_type(0x86dd), six);
    program.jump_if(R2, Condition::NotEqual, ethernet_type(0x0800), unknown);
    program.load(Width::Double, R2, R10, LAYER_3);
    read(program, READ, 1, unknown);
    program.load(Width::Byte, R0, R10, READ);
    program.compute(Operation::And, R0, 0xf);
    program.compute(Operation::ShiftLeft, R0, 2);
    program.load(Width::Double, R2, R10, LAYER_3);
    program.combine(Operation::Add, R0, R2);
    program.store(Width::Double, R10, at, R0);
    program.compute(Operation::Add, R2, 9);
    program.jump(transport);
    program.bind(six);
    program.load(Width::Double, R2, R10, LAYER_3);
    program.combine(Operation::Move, R0, R2);
    program.compute(Operation::Add, R0, 40);
    program.store(Width::Double, R10, at, R0);
    program.compute(Operation::Add, R2, 6);
    program.bind(transport);
    read(program, READ, 1, unknown);
    program.load(Width::Byte, R2, R10, READ);
    program.jump_if(R2, Condition::Equal, UDP, udp);
    program.jump_if(R2, Condition::NotEqual, TCP, unknown);
    program.load(Width::Double, R2, R10, at);
    program.compute(Operation::Add, R2, 12);
    read(program, READ, 1, unknown);
    program.load(Width::Byte, R2, R10, READ);
    program.compute(Operation::ShiftRight, R2, 4);
    program.compute(Operation::ShiftLeft, R2, 2);
    program.jump(done);
    program.bind(udp);
    program.compute(Operation::Move, R2, 8);
    program.bind(done);
    program.load(Width::Double, R0, R10, at);
    program.combine(Operation::Add, R0, R2);
    program.store(Width::Double, R10, at, R0);
}

/// Sizes of the map values (bytes).
#[expect(clippy::cast_possible_truncation, reason = "2^19")]
pub(super) const BIN_BYTES: usize = RING_US as usize * 8;
#[expect(clippy::cast_possible_truncation, reason = "2^15")]
pub(super) const FLOW_BIN_BYTES: usize = FLOW_SLOTS * FLOW_RING as usize * 8;
