//! What programs read of a packet.

use iolab_sys::bpf::{Assembler, Condition, Helper, Label, Operation, Register};

pub(super) const ETHERNET_BYTES: i32 = 14;
pub(super) const TCP: i32 = 6;
pub(super) const UDP: i32 = 17;

/// Ethernet types as a load of two bytes gives them on this computer.
pub(super) fn ethernet_type(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// Reads `bytes` of the packet from R2 on to `at` of the stack.
pub(super) fn read(program: &mut Assembler, at: i16, bytes: i32, unknown: Label) {
    use Register::{R0, R1, R10, R3, R4, R6};
    program.combine(Operation::Move, R1, R6);
    program.combine(Operation::Move, R3, R10);
    program.compute(Operation::Add, R3, i32::from(at));
    program.compute(Operation::Move, R4, bytes);
    program.call(Helper::SkbLoadBytes);
    program.jump_if(R0, Condition::NotEqual, 0, unknown);
}
