//! The XDP program of a receiving `AF_XDP` port: it stamps a frame and redirects it to the socket of the receive
//! queue.

use std::os::fd::RawFd;

use iolab_sys::bpf::{Assembler, Condition, Helper, Map, MapKind, Operation, Program, Register, Width};

use super::attachment::Attachment;
use super::{context, XDP_PASS};
use crate::error::PortError;
use crate::interface::Interface;
use crate::xdp::AfXdp;

/// A match of four bytes at a fixed offset of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordMatch {
    /// Offset from the destination MAC address (bytes).
    pub offset_bytes: u16,
    /// Mask of the compared bits.
    pub mask: [u8; 4],
    /// Required value of the masked bits.
    pub value: [u8; 4],
}

/// A filter for received frames: all words must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameMatch {
    /// Words to match; only the first 8 are used.
    pub words: Vec<WordMatch>,
}

/// The program attached to its interface.
#[derive(Debug)]
pub(crate) struct ReceiveProgram {
    attachment: Attachment,
    sockets: Map,
    foreign: Map,
    _program: Program,
}

impl ReceiveProgram {
    /// Load and attach the program; frames go to the host until a queue has a socket.
    pub(crate) fn attach(interface: &Interface, port: &AfXdp, queues: u32) -> Result<Self, PortError> {
        let sockets = Map::new(MapKind::Sockets, 4, queues.max(interface.queues))?;
        let foreign = Map::new(MapKind::Array, 8, 1)?;
        let code = instructions(sockets.fd(), foreign.fd(), port.only.as_ref());
        let program = Program::load("iolab_receive", &code)?;
        let attachment = Attachment::new(&program, interface, port.attach, port.force)?;
        Ok(Self { attachment, sockets, foreign, _program: program })
    }

    /// Redirect the frames of a queue to a bound socket.
    pub(crate) fn feed(&self, queue: u32, socket: RawFd) -> Result<(), PortError> {
        Ok(self.sockets.set_u32(queue, iolab_sys::unsigned(socket))?)
    }

    /// Return the attach mode: native or generic.
    pub(crate) fn mode(&self) -> &'static str {
        self.attachment.mode
    }

    /// Return the reason if the mode is not native.
    pub(crate) fn fallback(&self) -> Option<&str> {
        self.attachment.fallback.as_deref()
    }

    /// Return the number of frames that did not match and went to the host.
    pub(crate) fn foreign_frames(&self) -> Result<u64, PortError> {
        Ok(self.foreign.words::<1>().map(|[frames]| frames)?)
    }
}

/// Assemble the program: 18 instructions; a filter adds 11, and 3 per word.
fn instructions(sockets: RawFd, foreign: RawFd, only: Option<&FrameMatch>) -> Vec<[u8; 8]> {
    use Register::{R0, R1, R2, R3, R4, R5, R6};
    let mut program = Assembler::default();
    let (redirect, other) = (program.label(), program.label());
    program.combine(Operation::Move, R6, R1);
    let words = only.map_or(&[][..], |only| &only.words[..only.words.len().min(8)]);
    if let Some(reach) = words.iter().map(|word| i32::from(word.offset_bytes) + 4).max() {
        program.load(Width::Word, R2, R6, context::DATA);
        program.load(Width::Word, R3, R6, context::DATA_END);
        program.combine(Operation::Move, R4, R2);
        program.compute(Operation::Add, R4, reach);
        program.jump_compare(R4, Condition::Above, R3, other);
    }
    for word in words {
        let offset = i16::try_from(word.offset_bytes).unwrap_or(i16::MAX);
        program.load(Width::Word, R5, R2, offset);
        program.compute(Operation::And, R5, i32::from_le_bytes(word.mask));
        let wanted = u32::from_le_bytes(word.value) & u32::from_le_bytes(word.mask);
        program.jump_if_word(R5, Condition::NotEqual, iolab_sys::signed(wanted), other);
    }
    // The stamp is in the eight bytes of metadata before the frame, if the driver supports metadata.
    program.combine(Operation::Move, R1, R6);
    program.compute(Operation::Move, R2, -8);
    program.call(Helper::XdpAdjustMeta);
    program.jump_if(R0, Condition::NotEqual, 0, redirect);
    program.call(Helper::KtimeGetNs);
    program.load(Width::Word, R2, R6, context::DATA_META);
    program.load(Width::Word, R3, R6, context::DATA);
    program.combine(Operation::Move, R4, R2);
    program.compute(Operation::Add, R4, 8);
    program.jump_compare(R4, Condition::Above, R3, redirect);
    program.store(Width::Double, R2, 0, R0);
    program.bind(redirect);
    program.load(Width::Word, R2, R6, context::RX_QUEUE_INDEX);
    program.set_map(R1, sockets);
    program.compute(Operation::Move, R3, XDP_PASS);
    program.call(Helper::RedirectMap);
    program.exit();
    // The verifier refuses unreachable code.
    if !words.is_empty() {
        program.bind(other);
        program.set_map_value(R1, foreign);
        program.compute(Operation::Move, R2, 1);
        program.add_atomically(R1, 0, R2);
        program.exit_with(XDP_PASS);
    }
    program.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program without a filter, and the instructions that a filter adds, have the lengths that the comment states.
    #[test]
    fn program_length_matches_its_documentation() {
        let word = WordMatch { offset_bytes: 42, mask: [0xff; 4], value: *b"iolb" };
        let one = FrameMatch { words: vec![word] };
        let two = FrameMatch { words: vec![word; 2] };
        let plain = instructions(3, 4, None).len();
        assert_eq!(
            (plain, instructions(3, 4, Some(&one)).len(), instructions(3, 4, Some(&two)).len()),
            (18, 32, 35)
        );
    }
}
