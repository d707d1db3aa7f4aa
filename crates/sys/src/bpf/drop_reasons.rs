//! Why the kernel drops packets: a program on the raw tracepoint `skb:kfree_skb` counts each reason by its number, for the
//! whole kernel. It says nothing of frames that XDP drops, for those never become packets. What the numbers mean is
//! the kernel's own, and known elsewhere.

use std::os::fd::OwnedFd;

use super::assembler::{Assembler, Condition, Operation, Register, Width};
use super::program::{Map, MapKind, Program};
use super::BpfError;

/// Reasons with numbers below this are counted by themselves; Linux 6.18 has 120.
const REASONS: usize = 512;
/// The last place: reasons of modules, which have numbers from 65536 on.
const OTHER: usize = REASONS - 1;
/// The tracepoint's arguments are the packet, the place in the code, and the reason (since Linux 5.17).
const REASON: i16 = 16;

/// Counts, as long as it lives.
#[derive(Debug)]
pub struct DropReasons {
    _attached: OwnedFd,
    _program: Program,
    counts: Map,
}

impl DropReasons {
    /// Begins to count.
    ///
    /// # Errors
    /// When the kernel has no such tracepoint, tells no reasons there, or does not allow it.
    pub fn new() -> Result<Self, BpfError> {
        let bytes = u32::try_from(8 * REASONS).unwrap_or(u32::MAX);
        let counts = Map::new(MapKind::Array, bytes, 1)?;
        let program = Program::load_tracing("iolab_drops", &instructions(counts.fd()))?;
        let attached = program.trace(c"kfree_skb")?;
        Ok(Self { _attached: attached, _program: program, counts })
    }

    /// The packets dropped since it began: number of the reason and count, without zeros. The last number stands for
    /// every reason with that number or above.
    ///
    /// # Errors
    /// When the kernel refuses to give them.
    pub fn counts(&self) -> Result<Vec<(u32, u64)>, BpfError> {
        let counts = self.counts.words::<REASONS>()?;
        Ok((0..).zip(counts).filter(|&(_, count)| count > 0).collect())
    }

    /// The number that stands for reasons of modules.
    #[allow(clippy::cast_possible_truncation)] // far below 2^32
    pub const OTHER: u32 = OTHER as u32;
}

fn instructions(counts: i32) -> Vec<[u8; 8]> {
    use Register::{R1, R2, R3};
    let mut program = Assembler::default();
    let known = program.label();
    program.load(Width::Double, R2, R1, REASON);
    program.compute(Operation::ShiftLeft, R2, 32); // the argument is an int: its upper half may be anything
    program.compute(Operation::ShiftRight, R2, 32);
    program.set(R3, u64::from(DropReasons::OTHER));
    program.jump_compare(R2, Condition::AtMost, R3, known);
    program.combine(Operation::Move, R2, R3);
    program.bind(known);
    program.compute(Operation::ShiftLeft, R2, 3);
    program.set_map_value(R1, counts);
    program.combine(Operation::Add, R1, R2);
    program.compute(Operation::Move, R3, 1);
    program.add_atomically(R1, 0, R3);
    program.exit_with(0);
    program.finish()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Datagrams to a port at which nobody listens are counted, under one number.
    #[test]
    fn datagrams_that_nobody_wants_are_counted() {
        let Ok(reasons) = DropReasons::new() else { return };
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = reasons.counts().unwrap();
        for _ in 0..500 {
            sender.send_to(b"x", nobody).unwrap();
        }
        let count = |counts: &[(u32, u64)], number| {
            counts.iter().find(|(each, _)| *each == number).map_or(0, |(_, count)| *count)
        };
        let after = reasons.counts().unwrap();
        let most = after.iter().map(|&(number, after)| after - count(&before, number)).max();
        assert!(most >= Some(500), "{before:?} {after:?}");
    }
}
