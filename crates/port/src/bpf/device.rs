//! Devices made of one XDP program: a forwarder or reflector as a system under test, a sink for benches, and reference
//! devices whose capacity or loss is known exactly. They keep state per interface, for one receive queue.
//!
//! Frames redirected to a veth are dropped by the kernel unless the *other* end of that veth has its NAPI on (an XDP
//! program of its own, or GRO); that is not visible here, and counted at no interface before 6.x as more than a drop.

use std::os::fd::RawFd;

use iolab_sys::bpf::{
    Assembler, Condition, Helper, Label, Map, MapKind, Operation, Program, Register, Width,
};

use super::attachment::{Attach, Attachment};
use super::{context, XDP_DROP, XDP_PASS, XDP_TX};
use crate::error::PortError;
use crate::interface::Interface;

/// Which frames a device lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// every frame
    All,
    /// a token bucket, in exact integer arithmetic on the kernel's clock: in any time T at most
    /// `rate_pps` x T + `burst_frames`
    TokenBucket {
        /// tokens that come in each second, 1 to 100 000 000 (frames/s)
        rate_pps: u32,
        /// what it holds when full, 1 to 1 000 000 (frames)
        burst_frames: u32,
    },
    /// all but frames n, 2n, 3n, ...
    LoseEvery {
        /// the n, at least 1
        frames: u32,
    },
    /// each frame is lost with the same probability, drawn by `SplitMix64` from `seed`: the same frames as a seeded loss in user
    /// space loses, whose numbers below 1 000 000 000 are the upper 64 bits of a product
    LoseRandomly {
        /// probability in parts of 1 000 000 000
        frames_per_billion: u32,
        /// where the sequence starts
        seed: u64,
    },
}

/// What is done with frames that are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// counted and dropped: a sink
    Drop,
    /// left to the host
    Pass,
    /// sent back where it came from, addresses exchanged
    Reflect,
    /// sent out of another interface
    Redirect {
        /// that interface's index
        index: u32,
        /// new source and destination address; unchanged when absent (a bridge)
        addresses: Option<([u8; 6], [u8; 6])>,
    },
}

/// What a device did so far. (frames)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// let through by the rule
    pub passed_frames: u64,
    /// dropped by the rule
    pub dropped_frames: u64,
}

/// A device on an interface, until dropped.
#[derive(Debug)]
pub struct Device {
    attachment: Attachment,
    state: Map,
    instructions: usize,
    _program: Program,
}

/// Words of the state: passed, dropped, then what the rule keeps.
const PASSED: i16 = 0;
const DROPPED: i16 = 8;
const KEPT: i16 = 16;
const TOKENS: i16 = 24;
const STATE_WORDS: usize = 4;

/// Tokens are counted in these parts of a frame, so that rate x nanoseconds is a whole number of them.
const TOKEN: u64 = 1_000_000_000;
const BILLION: u128 = 1_000_000_000;

impl Device {
    /// Puts a device on an interface.
    ///
    /// # Errors
    /// When the interface does not exist, is down or carries a program already, or the kernel refuses.
    pub fn attach(name: &str, rule: Rule, then: Then, attach: Attach) -> Result<Self, PortError> {
        rule.check()?;
        let interface = Interface::find(name)?;
        interface.check(0, 0)?;
        let state = Map::new(MapKind::Array, 8 * 4, 1)?;
        let kept = if let Rule::LoseRandomly { seed, .. } = rule { seed } else { 0 };
        state.set_words::<STATE_WORDS>(&[0, 0, kept, 0])?;
        let code = instructions(state.fd(), rule, then);
        let program = Program::load("iolab_device", &code)?;
        let attachment = Attachment::new(&program, &interface, attach, false)?;
        Ok(Self { attachment, state, instructions: code.len(), _program: program })
    }

    /// native or generic, and why not native.
    pub fn mode(&self) -> (&'static str, Option<&str>) {
        (self.attachment.mode, self.attachment.fallback.as_deref())
    }

    /// How many BPF instructions the program has.
    pub fn instructions(&self) -> usize {
        self.instructions
    }

    /// The counters of now.
    ///
    /// # Errors
    /// When the kernel refuses to give them.
    pub fn stats(&self) -> Result<DeviceStats, PortError> {
        let [passed_frames, dropped_frames, ..] = self.state.words::<STATE_WORDS>()?;
        Ok(DeviceStats { passed_frames, dropped_frames })
    }
}

impl Rule {
    fn check(self) -> Result<(), PortError> {
        let refuse = |what, seen, allowed| Err(PortError::BadValue { what, seen, allowed });
        match self {
            Self::TokenBucket { rate_pps: rate @ (0 | 100_000_001..), .. } => {
                refuse("the token bucket's rate [frames/s]", u64::from(rate), "1 to 100000000")
            }
            Self::TokenBucket { burst_frames: burst @ (0 | 1_000_001..), .. } => {
                refuse("the token bucket's burst [frames]", u64::from(burst), "1 to 1000000")
            }
            Self::LoseEvery { frames: 0 } => refuse("the distance of lost frames", 0, "1 or more"),
            Self::LoseRandomly { frames_per_billion: ratio @ 1_000_000_001.., .. } => {
                refuse("the loss of frames in a billion", u64::from(ratio), "0 to 1000000000")
            }
            _ => Ok(()),
        }
    }
}

/// From 7 instructions for a sink to 53 for a bucket that reflects.
fn instructions(state: RawFd, rule: Rule, then: Then) -> Vec<[u8; 8]> {
    use Register::{R1, R6, R8};
    let mut program = Assembler::default();
    let drop = program.label();
    program.combine(Operation::Move, R6, R1);
    program.set_map_value(R8, state);
    match rule {
        Rule::All => {}
        Rule::TokenBucket { rate_pps, burst_frames } => bucket(&mut program, rate_pps, burst_frames, drop),
        Rule::LoseEvery { frames } => every(&mut program, frames, drop),
        Rule::LoseRandomly { frames_per_billion, .. } => random(&mut program, frames_per_billion, drop),
    }
    count(&mut program, PASSED);
    action(&mut program, then);
    if rule != Rule::All {
        program.bind(drop);
        count(&mut program, DROPPED);
        program.exit_with(XDP_DROP);
    }
    program.finish()
}

fn count(program: &mut Assembler, field: i16) {
    program.compute(Operation::Move, Register::R1, 1);
    program.add_atomically(Register::R8, field, Register::R1);
}

fn bucket(program: &mut Assembler, rate_pps: u32, burst_frames: u32, drop: Label) {
    use Register::{R0, R1, R2, R3, R4, R8};
    let full = u64::from(burst_frames) * TOKEN;
    // Longer than this fills the bucket anyway, and the product below stays within 64 bits.
    let longest_ns = full / u64::from(rate_pps) + 1;
    let (short, fits) = (program.label(), program.label());
    program.call(Helper::KtimeGetNs);
    program.load(Width::Double, R1, R8, KEPT);
    program.store(Width::Double, R8, KEPT, R0);
    program.combine(Operation::Subtract, R0, R1);
    program.set(R2, longest_ns);
    program.jump_compare(R0, Condition::AtMost, R2, short);
    program.combine(Operation::Move, R0, R2);
    program.bind(short);
    program.set(R3, u64::from(rate_pps));
    program.combine(Operation::Multiply, R0, R3);
    program.load(Width::Double, R4, R8, TOKENS);
    program.combine(Operation::Add, R0, R4);
    program.set(R2, full);
    program.jump_compare(R0, Condition::AtMost, R2, fits);
    program.combine(Operation::Move, R0, R2);
    program.bind(fits);
    program.store(Width::Double, R8, TOKENS, R0);
    program.set(R2, TOKEN);
    program.jump_compare(R0, Condition::Below, R2, drop);
    program.combine(Operation::Subtract, R0, R2);
    program.store(Width::Double, R8, TOKENS, R0);
}

fn every(program: &mut Assembler, frames: u32, drop: Label) {
    use Register::{R1, R2, R8};
    program.load(Width::Double, R1, R8, KEPT);
    program.compute(Operation::Add, R1, 1);
    program.store(Width::Double, R8, KEPT, R1);
    program.set(R2, u64::from(frames));
    program.combine(Operation::Modulo, R1, R2);
    program.jump_if(R1, Condition::Equal, 0, drop);
}

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
fn random(program: &mut Assembler, frames_per_billion: u32, drop: Label) {
    use Register::{R1, R2, R8};
    program.load(Width::Double, R1, R8, KEPT);
    program.set(R2, 0x9e37_79b9_7f4a_7c15);
    program.combine(Operation::Add, R1, R2);
    program.store(Width::Double, R8, KEPT, R1);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb), (31, 1)] {
        program.combine(Operation::Move, R2, R1);
        program.compute(Operation::ShiftRight, R2, shift);
        program.combine(Operation::ExclusiveOr, R1, R2);
        program.set(R2, factor);
        program.combine(Operation::Multiply, R1, R2);
    }
    // x is lost when the upper 64 bits of x times a billion are below the ratio: when x is below ratio / billion.
    let Some(last) = (u128::from(frames_per_billion) << 64).div_ceil(BILLION).checked_sub(1) else { return };
    program.set(R2, u64::try_from(last).unwrap_or(u64::MAX));
    program.jump_compare(R1, Condition::AtMost, R2, drop);
}

fn action(program: &mut Assembler, then: Then) {
    use Register::{R1, R2, R3, R4, R5, R6, R7};
    let addresses = match then {
        Then::Drop => return program.exit_with(XDP_DROP),
        Then::Pass => return program.exit_with(XDP_PASS),
        Then::Reflect => None,
        Then::Redirect { addresses, .. } => addresses,
    };
    let short = program.label();
    let touches = then == Then::Reflect || addresses.is_some();
    if touches {
        program.load(Width::Word, R2, R6, context::DATA);
        program.load(Width::Word, R3, R6, context::DATA_END);
        program.combine(Operation::Move, R4, R2);
        program.compute(Operation::Add, R4, 14);
        program.jump_compare(R4, Condition::Above, R3, short);
    }
    if let Some((source, destination)) = addresses {
        for (place, pair) in destination.chunks(2).chain(source.chunks(2)).enumerate() {
            let value = i32::from(u16::from_le_bytes([pair[0], pair[1]]));
            program.store_value(Width::Half, R2, i16::try_from(2 * place).unwrap_or_default(), value);
        }
    }
    if let Then::Redirect { index, .. } = then {
        program.set(R1, u64::from(index));
        program.compute(Operation::Move, R2, 0);
        program.call(Helper::Redirect);
        program.exit();
    } else {
        program.load(Width::Word, R4, R2, 0);
        program.load(Width::Half, R5, R2, 4);
        program.load(Width::Word, R1, R2, 6);
        program.load(Width::Half, R7, R2, 10);
        program.store(Width::Word, R2, 0, R1);
        program.store(Width::Half, R2, 4, R7);
        program.store(Width::Word, R2, 6, R4);
        program.store(Width::Half, R2, 10, R5);
        program.exit_with(XDP_TX);
    }
    if touches {
        program.bind(short);
        program.exit_with(XDP_DROP);
    }
}
