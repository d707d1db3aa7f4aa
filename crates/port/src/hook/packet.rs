//! Code that programs share for reading packets.

use iolab_sys::bpf::{Assembler, Condition, Helper, Label, Operation, Register};

pub(crate) const ETHERNET_BYTES: i32 = 14;
pub(crate) const TCP: i32 = 6;
pub(crate) const UDP: i32 = 17;

/// Return an Ethernet type as loaded from two bytes of a packet, in the host's byte order.
pub(crate) fn ethernet_type(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// Emit code that reads `bytes` bytes of the packet, from offset R2, to stack offset `at`; jump to `unknown` on
/// failure.
pub(crate) fn read(program: &mut Assembler, at: i16, bytes: i32, unknown: Label) {
    use Register::{R0, R1, R10, R3, R4, R6};
    program.combine(Operation::Move, R1, R6);
    program.combine(Operation::Move, R3, R10);
    program.compute(Operation::Add, R3, i32::from(at));
    program.compute(Operation::Move, R4, bytes);
    program.call(Helper::SkbLoadBytes);
    program.jump_if(R0, Condition::NotEqual, 0, unknown);
}
