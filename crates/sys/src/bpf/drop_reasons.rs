//! Counters of packet drops by drop reason. A program on the raw tracepoint `skb:kfree_skb` counts the drops
//! of each reason number in the whole kernel. The counts exclude frames that XDP drops, because those frames
//! never become packets. The meaning of the numbers depends on the kernel version; the caller looks up the
//! names.

use std::os::fd::OwnedFd;

use super::assembler::{Assembler, Condition, Operation, Register, Width};
use super::program::{Map, MapKind, Program};
use super::BpfError;

/// Number of counters: each drop reason with a lower number has a separate counter. Linux 6.18 has 120
/// reasons.
const REASONS: usize = 512;
/// Index of the last counter, for the reasons of modules, whose numbers start at 65536.
const OTHER: usize = REASONS - 1;
/// Offset of the drop reason in the tracepoint's arguments, in bytes. The arguments are the packet, the code
/// location and the reason (since Linux 5.17).
const REASON: i16 = 16;

/// An attached program that counts drops until the value is dropped.
#[derive(Debug)]
pub struct DropReasons {
    _attached: OwnedFd,
    _program: Program,
    counts: Map,
}

impl DropReasons {
    /// Attach the program and start to count.
    ///
    /// # Errors
    /// Returns an error if the kernel lacks the tracepoint or its reason argument, or if the process lacks
    /// permission.
    pub fn new() -> Result<Self, BpfError> {
        let bytes = u32::try_from(8 * REASONS).unwrap_or(u32::MAX);
        let counts = Map::new(MapKind::Array, bytes, 1)?;
        let program = Program::load_tracing("iolab_drops", &instructions(counts.fd()))?;
        let attached = program.trace(c"kfree_skb")?;
        Ok(Self { _attached: attached, _program: program, counts })
    }

    /// Return the packets dropped since counting started, as pairs of reason number and count; zero counts
    /// are omitted. The pair with the number [`Self::OTHER`] also counts all reasons with higher numbers.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to read the counters.
    pub fn counts(&self) -> Result<Vec<(u32, u64)>, BpfError> {
        let counts = self.counts.words::<REASONS>()?;
        Ok((0..).zip(counts).filter(|&(_, count)| count > 0).collect())
    }

    /// The number that represents the reasons of modules.
    #[allow(clippy::cast_possible_truncation)] // far below 2^32
    pub const OTHER: u32 = OTHER as u32;
}

fn instructions(counts: i32) -> Vec<[u8; 8]> {
    use Register::{R1, R2, R3};
    let mut program = Assembler::default();
    let known = program.label();
    program.load(Width::Double, R2, R1, REASON);
    program.compute(Operation::ShiftLeft, R2, 32); // the argument is an int: its upper half is undefined
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

    /// Datagrams to a port without a listener are counted under one number.
    #[test]
    fn datagrams_without_a_listener_are_counted_under_one_drop_reason() {
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
