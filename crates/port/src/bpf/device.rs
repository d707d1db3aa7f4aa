//! Devices made of one XDP program: a forwarder or reflector as a system under test, a sink for benchmarks, and
//! reference devices with exactly known capacity or loss. The state is per interface and assumes one receive queue.
//!
//! The kernel drops frames redirected to a veth unless NAPI is enabled on the *peer* of that veth (by an XDP program or
//! GRO). The device cannot detect this, and interfaces of kernels before 6.x count such frames only as drops.

use std::os::fd::RawFd;

use iolab_sys::bpf::{
    Assembler, Condition, Helper, Label, Map, MapKind, Operation, Program, Register, Width,
};

use super::attachment::{Attach, Attachment};
use super::{context, XDP_DROP, XDP_PASS, XDP_TX};
use crate::error::PortError;
use crate::interface::Interface;

/// The rule that decides which frames pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Pass every frame.
    All,
    /// Pass frames through a token bucket, in exact integer arithmetic on the kernel's clock: at most `rate_pps` x T
    /// + `burst_frames` in any time T.
    TokenBucket {
        /// Token rate, 1 to 100 000 000 (frames/s).
        rate_pps: u32,
        /// Bucket size, 1 to 1 000 000 (frames).
        burst_frames: u32,
    },
    /// Drop frames n, 2n, 3n, ...
    LoseEvery {
        /// The period n, at least 1 (frames).
        frames: u32,
    },
    /// Drop each frame with the same probability, drawn by `SplitMix64` from `seed`: the same frames as a user-space
    /// loss with this seed, which scales a draw to below 1 000 000 000 by the upper 64 bits of a product.
    LoseRandomly {
        /// Loss probability in units of 10^-9.
        frames_per_billion: u32,
        /// Seed of the random sequence.
        seed: u64,
    },
}

/// The action on frames that pass the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Count and drop: a sink.
    Drop,
    /// Pass to the host's stack.
    Pass,
    /// Transmit on the receiving interface, with source and destination MAC address swapped.
    Reflect,
    /// Transmit on a different interface.
    Redirect {
        /// Index of the output interface.
        index: u32,
        /// New source and destination MAC address; unchanged if absent (a bridge).
        addresses: Option<([u8; 6], [u8; 6])>,
    },
}

/// The counters of a device (frames).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Number of frames passed by the rule.
    pub passed_frames: u64,
    /// Number of frames dropped by the rule.
    pub dropped_frames: u64,
}

/// A device attached to an interface until drop.
#[derive(Debug)]
pub struct Device {
    attachment: Attachment,
    state: Map,
    instructions: usize,
    _program: Program,
}

/// Offsets in the state: passed, dropped, then the state of the rule.
const PASSED: i16 = 0;
const DROPPED: i16 = 8;
const KEPT: i16 = 16;
const TOKENS: i16 = 24;
const STATE_WORDS: usize = 4;

/// Token units per frame, so that rate x nanoseconds is an integer number of units.
const TOKEN: u64 = 1_000_000_000;
const BILLION: u128 = 1_000_000_000;

impl Device {
    /// Attach a device to an interface.
    ///
    /// # Errors
    /// Fails if the interface does not exist, is down or has an XDP program, or the kernel refuses.
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

    /// Return the attach mode (native or generic) and the reason if it is not native.
    pub fn mode(&self) -> (&'static str, Option<&str>) {
        (self.attachment.mode, self.attachment.fallback.as_deref())
    }

    /// Return the number of BPF instructions of the program.
    pub fn instructions(&self) -> usize {
        self.instructions
    }

    /// Return the current counters.
    ///
    /// # Errors
    /// Fails if the kernel refuses to read the map.
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

/// Assemble the program: from 7 instructions for a sink to 53 for a token bucket that reflects.
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
    // A longer time fills the bucket in any case; with this limit the product below fits in 64 bits.
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

/// Emit `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014) and the comparison with the loss ratio.
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
    // A frame with the number x is lost if the upper 64 bits of x times a billion are below the ratio, that is, if x
    // / 2^64 is below ratio / billion.
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
