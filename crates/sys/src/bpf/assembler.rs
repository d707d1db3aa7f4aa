//! Assembler for BPF instructions with labels. The assembler covers only the instructions that iolab's programs need;
//! the kernel's verifier checks the programs.

use crate::signed;

/// A register of the BPF machine: R0 is the return value, R1-R5 are arguments (clobbered by calls), R6-R9 are
/// callee-saved, R10 is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or store.
#[derive(Debug, Clone, Copy)]
pub enum Width {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// A 64-bit arithmetic operation.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Modulo = 0x90,
    ExclusiveOr = 0xa0,
    Move = 0xb0,
}

/// Condition of a jump, as an unsigned comparison.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Condition {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xa0,
    AtMost = 0xb0,
}

/// A BPF helper function of the kernel, with its number from linux/bpf.h.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    KtimeGetNs = 5,
    Redirect = 23,
    SkbLoadBytes = 26,
    RedirectMap = 51,
    XdpAdjustMeta = 54,
    XdpAdjustTail = 65,
    XdpStoreBytes = 190,
}

/// A position in the program, which is bound once. Jumps before and after that position may target it.
#[derive(Debug, Clone, Copy)]
pub struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

const ALU64_IMMEDIATE: u8 = 0x07;
const ALU64_REGISTER: u8 = 0x0f;
const JUMP_IMMEDIATE: u8 = 0x05;
const JUMP_REGISTER: u8 = 0x0d;
const JUMP32_IMMEDIATE: u8 = 0x06;
const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const STORE_IMMEDIATE: u8 = 0x62;
const ATOMIC_ADD: u8 = 0xdb;
const FETCH: i32 = 0x01; // flag of atomic operations, since Linux 5.12
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const SOURCE_MAP: u8 = 1;
const SOURCE_MAP_VALUE: u8 = 2;

impl Assembler {
    fn emit(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = value.to_le_bytes();
        self.code.push([code, to | from << 4, low, high, a, b, c, d]);
    }

    /// Create a label, to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Bind a label to the current position.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Emit `to = to operation value`.
    pub fn compute(&mut self, operation: Operation, to: Register, value: i32) {
        self.emit(ALU64_IMMEDIATE | operation as u8, to as u8, 0, 0, value);
    }

    /// Emit `to = to operation from`.
    pub fn combine(&mut self, operation: Operation, to: Register, from: Register) {
        self.emit(ALU64_REGISTER | operation as u8, to as u8, from as u8, 0, 0);
    }

    /// Emit `to = value` with a 64-bit value.
    #[allow(clippy::cast_possible_truncation)] // the lower half and the upper half of the value
    pub fn set(&mut self, to: Register, value: u64) {
        self.wide(to, 0, signed(value as u32), signed((value >> 32) as u32));
    }

    /// Emit `to = map`.
    pub fn set_map(&mut self, to: Register, map: i32) {
        self.wide(to, SOURCE_MAP, map, 0);
    }

    /// Emit `to = address of the first value of an array map`.
    pub fn set_map_value(&mut self, to: Register, map: i32) {
        self.wide(to, SOURCE_MAP_VALUE, map, 0);
    }

    fn wide(&mut self, to: Register, source: u8, low: i32, high: i32) {
        self.emit(LOAD_64, to as u8, source, 0, low);
        self.emit(0, 0, 0, 0, high);
    }

    /// Emit `to = *(from + offset)`.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(LOAD | width as u8, to as u8, from as u8, offset, 0);
    }

    /// Emit `*(to + offset) = from`.
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.emit(STORE | width as u8, to as u8, from as u8, offset, 0);
    }

    /// Emit `*(to + offset) = value`.
    pub fn store_value(&mut self, width: Width, to: Register, offset: i16, value: i32) {
        self.emit(STORE_IMMEDIATE | width as u8, to as u8, 0, offset, value);
    }

    /// Emit `*(to + offset) += from` as an atomic operation.
    pub fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.emit(ATOMIC_ADD, to as u8, from as u8, offset, 0);
    }

    /// Emit `from = *(to + offset)` and `*(to + offset) += from` as one atomic operation.
    pub fn fetch_and_add(&mut self, to: Register, offset: i16, from: Register) {
        self.emit(ATOMIC_ADD, to as u8, from as u8, offset, FETCH);
    }

    /// Emit `goto label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JUMP_IMMEDIATE, 0, 0, 0, 0);
    }

    /// Emit `if left condition value goto label`.
    pub fn jump_if(&mut self, left: Register, condition: Condition, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JUMP_IMMEDIATE | condition as u8, left as u8, 0, 0, value);
    }

    /// Emit `if left condition value goto label` with a comparison of the lower 32 bits only.
    pub fn jump_if_word(&mut self, left: Register, condition: Condition, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JUMP32_IMMEDIATE | condition as u8, left as u8, 0, 0, value);
    }

    /// Emit `if left condition right goto label`.
    pub fn jump_compare(&mut self, left: Register, condition: Condition, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(JUMP_REGISTER | condition as u8, left as u8, right as u8, 0, 0);
    }

    /// Emit `R0 = helper(R1..R5)`.
    pub fn call(&mut self, helper: Helper) {
        self.emit(CALL, 0, 0, 0, helper as i32);
    }

    /// Emit `return R0`.
    pub fn exit(&mut self) {
        self.emit(EXIT, 0, 0, 0, 0);
    }

    /// Emit `return value`.
    pub fn exit_with(&mut self, value: i32) {
        self.compute(Operation::Move, Register::R0, value);
        self.exit();
    }

    /// Return the instructions of the program with resolved jumps.
    ///
    /// # Panics
    /// Panics if a label was never bound, which is a bug in this crate.
    pub fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in self.jumps {
            let Some(target) = self.labels[label.0] else { unreachable!("a label without a place") };
            let distance = i16::try_from(target.wrapping_sub(at + 1) as isize).unwrap_or(i16::MAX);
            self.code[at][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions have the bytes that the kernel's documentation gives for them.
    #[test]
    fn instructions_have_the_documented_bytes() {
        let mut program = Assembler::default();
        let end = program.label();
        program.compute(Operation::Move, Register::R0, 2);
        program.jump_if(Register::R1, Condition::NotEqual, -1, end);
        program.set(Register::R7, 0x1122_3344_5566_7788);
        program.load(Width::Word, Register::R2, Register::R6, 16);
        program.call(Helper::RedirectMap);
        program.bind(end);
        program.exit();
        let expected = [
            [0xb7, 0, 0, 0, 2, 0, 0, 0],
            [0x55, 1, 4, 0, 0xff, 0xff, 0xff, 0xff],
            [0x18, 7, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x61, 0x62, 16, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 51, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(program.finish(), expected);
    }
}
