//! The XDP program of a port that sends live frames (`BPF_F_TEST_XDP_LIVE_FRAMES`): the kernel runs the program once
//! per frame, and the program fills the frame from memory shared with this process. The caller decides the frame
//! contents.
//!
//! Each call has a separate page pool. A pool is freed after its last page has returned; if pages are still in use at
//! the end of the call, the pool is freed one second after the call at the earliest. Each free searches all live pools
//! under one lock, so the cost of `n` calls per second whose frames are queued in the device under test grows with `n`
//! squared: above about 10 000 calls per second the kernel is saturated, and a call takes milliseconds. Calls with few
//! frames therefore send copies, which do not belong to a pool: the frame is redirected twice to the same interface,
//! the kernel copies it for all targets except the last, and a second program drops the original, whose page returns
//! before the call ends.

use std::fs::File;
use std::os::fd::RawFd;

use iolab_sys::bpf::{
    self, Assembler, Condition, Helper, Link, Map, MapKind, Operation, Program, Register, Width,
};
use iolab_sys::{Mapping, Plain};

use super::attachment::link_generic;
use super::{XDP_DROP, XDP_PASS};
use crate::error::PortError;

const PROG_TEST_RUN: u32 = 10;
const LIVE_FRAMES: u32 = 1 << 1;

/// Index of the first interface of every namespace, the loopback.
const LOOPBACK_INDEX: u32 = 1;

/// Number of frames the kernel processes before it passes the redirected ones to the interface; the same number as in a
/// NAPI poll.
const KERNEL_BATCH: u32 = 64;

/// Length of the area before the slots: index of the next frame, length of a frame before the program trims it,
/// redirect flags, and the number of redirects in this call, originals and copies.
const HEAD_BYTES: u8 = 64;
const FULL_BYTES: i16 = 8;
const FLAGS: i16 = 16;
const REDIRECTED: i16 = 24;

/// Minimum number of frames for a call without copies: a copy costs about 150 ns, and at a million frames/s with 256
/// frames per call the page pool costs twice as much per frame.
const POOLED_FRAMES: usize = 256;
/// Redirect to all entries of a map (`BPF_F_BROADCAST`).
const TO_ALL: u64 = 1 << 3;

/// Length of the slot header, which contains the frame length.
const SLOT_HEAD_BYTES: usize = 8;

#[repr(C)]
#[derive(Clone, Copy)]
struct RunSpec {
    program: u32,
    answer: u32,
    in_bytes: u32,
    out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    unused: u32,
}

// SAFETY: a `repr(C)` structure of integers.
unsafe impl Plain for RunSpec {}

/// The program and its shared memory of frames.
#[derive(Debug)]
pub(crate) struct LiveProgram {
    program: Program,
    memory: Mapping,
    slots: usize,
    slot_bytes: usize,
    most_bytes: usize,
    full_bytes: usize,
    /// input from which the kernel creates frames before the program fills them
    blank: Vec<u8>,
    _kept: Kept,
    _maps: [Map; 2],
    _chooser: Program,
}

/// Keeps the program in the kernel's XDP dispatcher, which calls programs directly. Each change of the dispatcher
/// takes the kernel tens of milliseconds, and a test run of a program outside it makes two changes. Attached programs
/// are in the dispatcher; this program is attached to the loopback of an otherwise empty namespace, which receives no
/// frames.
#[derive(Debug)]
struct Kept {
    _link: Link,
    _namespace: File,
}

impl Kept {
    fn new(program: &Program) -> Result<Self, PortError> {
        let keep = || {
            let namespace = iolab_sys::thread::new_network()?;
            Ok(Self { _link: link_generic(program, LOOPBACK_INDEX)?, _namespace: namespace })
        };
        // Run in a separate thread, which ends in the new namespace; the calling thread stays in its namespace.
        let kept = std::thread::scope(|scope| {
            scope.spawn(keep).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        kept.map_err(PortError::of("keeping a program ready", "bpf"))
    }
}

impl LiveProgram {
    /// Load a program that sends frames of up to `most_bytes` through interface `index` of the calling thread's
    /// namespace; up to `slots` frames, a power of two, can be queued.
    pub(crate) fn new(index: u32, slots: usize, most_bytes: usize) -> Result<Self, PortError> {
        let slot_bytes = (SLOT_HEAD_BYTES + most_bytes).next_power_of_two().max(128);
        let value_bytes = usize::from(HEAD_BYTES) + slots * slot_bytes;
        let frames = Map::shared_with_us(u32::try_from(value_bytes).unwrap_or(u32::MAX))?;
        let devices = Map::new(MapKind::Devices, 8, 2)?;
        let chooser = Program::load_of_target("iolab_copies", &copies_only(frames.fd()))?;
        // From this point on the map identifies the interface, so a sending thread may be in any namespace.
        devices.set_target(0, index, &chooser)?;
        devices.set_target(1, index, &chooser)?;
        let code = instructions(frames.fd(), devices.fd(), slots, slot_bytes, most_bytes);
        let program = Program::load("iolab_live", &code)?;
        let kept = Kept::new(&program)?;
        let memory = frames.map_memory(value_bytes)?;
        let blank = vec![0; most_bytes];
        let maps = [frames, devices];
        Ok(Self {
            program,
            memory,
            slots,
            slot_bytes,
            most_bytes,
            full_bytes: 0,
            blank,
            _kept: kept,
            _maps: maps,
            _chooser: chooser,
        })
    }

    /// Store the frame length in the slot and return the start of its frame.
    ///
    /// # Panics
    /// Panics if the slot does not exist, or the frame is too long.
    #[inline]
    pub(crate) fn place(&mut self, slot: usize, frame_bytes: usize) -> *mut u8 {
        assert!(
            slot < self.slots && frame_bytes <= self.most_bytes,
            "frame of {frame_bytes} B in slot {slot}"
        );
        // SAFETY: the slot was checked; all slots are inside the mapping.
        let start = unsafe { self.memory.start().add(usize::from(HEAD_BYTES) + slot * self.slot_bytes) };
        // SAFETY: writes 8 bytes at the start of the slot, which is aligned to 64; the kernel reads only within
        // `run`, which needs `&mut self`.
        unsafe { start.cast::<u64>().write(frame_bytes as u64) };
        // SAFETY: the slot is longer than its header.
        unsafe { start.add(SLOT_HEAD_BYTES) }
    }

    /// Send up to `frames` frames from the next slot on, none longer than `full_bytes`; return the number of
    /// processed frames.
    pub(crate) fn run(&mut self, frames: usize, full_bytes: usize) -> (usize, std::io::Result<()>) {
        if full_bytes != self.full_bytes {
            self.full_bytes = full_bytes;
            self.word(FULL_BYTES as usize / 8, Some(full_bytes as u64));
        }
        self.word(FLAGS as usize / 8, Some(if frames < POOLED_FRAMES { TO_ALL } else { 0 }));
        self.word(REDIRECTED as usize / 8, Some(0));
        let before = self.word(0, None);
        let mut spec = RunSpec {
            program: iolab_sys::unsigned(self.program.as_raw_fd()),
            answer: 0,
            in_bytes: u32::try_from(full_bytes).unwrap_or(u32::MAX),
            out_bytes: 0,
            data_in: self.blank.as_ptr() as u64,
            data_out: 0,
            repeat: u32::try_from(frames).unwrap_or(u32::MAX),
            duration_ns: 0,
            context_in_bytes: 0,
            context_out_bytes: 0,
            context_in: 0,
            context_out: 0,
            flags: LIVE_FRAMES,
            cpu: 0,
            batch: KERNEL_BATCH,
            unused: 0,
        };
        // SAFETY: the kernel reads `in_bytes` bytes of `blank`, which has at least that many (`place` refuses longer
        // frames), and writes only into `spec`.
        let ran = unsafe { bpf::call(PROG_TEST_RUN, &mut spec) };
        let done = usize::try_from(self.word(0, None).wrapping_sub(before)).unwrap_or(usize::MAX);
        (done, ran.map(drop))
    }

    /// Return word `index` of the head, after writing `value` if given.
    fn word(&self, index: usize, value: Option<u64>) -> u64 {
        // SAFETY: the head has 8 words.
        let place = unsafe { self.memory.start().cast::<u64>().add(index % 8) };
        if let Some(value) = value {
            // SAFETY: aligned and inside the mapping; the program runs only within `run`.
            unsafe { place.write_volatile(value) };
        }
        // SAFETY: as above. Volatile, because the program changes the word during a call.
        unsafe { place.read_volatile() }
    }
}

/// Assemble the program that copies the next slot into the frame, trims the frame to its length and redirects it.
fn instructions(
    frames: RawFd,
    devices: RawFd,
    slots: usize,
    slot_bytes: usize,
    most_bytes: usize,
) -> Vec<[u8; 8]> {
    use Register::{R1, R2, R3, R4, R6, R7, R8, R9};
    let small = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    let mut program = Assembler::default();
    let (whole, drop) = (program.label(), program.label());
    program.combine(Operation::Move, R6, R1);
    program.set_map_value(R8, frames);
    // Only one CPU runs the program at a time, because the caller owns the port exclusively.
    program.load(Width::Double, R7, R8, 0);
    program.combine(Operation::Move, R1, R7);
    program.compute(Operation::Add, R1, 1);
    program.store(Width::Double, R8, 0, R1);
    program.load(Width::Double, R2, R8, FULL_BYTES);
    program.compute(Operation::And, R7, small(slots - 1));
    program.compute(Operation::ShiftLeft, R7, small(slot_bytes.ilog2() as usize));
    program.combine(Operation::Add, R8, R7);
    program.load(Width::Double, R9, R8, i16::from(HEAD_BYTES));
    program.jump_if(R9, Condition::Above, small(most_bytes), drop);
    program.jump_if(R9, Condition::Below, 14, drop);
    program.combine(Operation::Move, R1, R9);
    program.combine(Operation::Subtract, R1, R2);
    program.jump_if(R1, Condition::Equal, 0, whole);
    program.combine(Operation::Move, R2, R1);
    program.combine(Operation::Move, R1, R6);
    program.call(Helper::XdpAdjustTail);
    program.bind(whole);
    program.combine(Operation::Move, R1, R6);
    program.compute(Operation::Move, R2, 0);
    program.combine(Operation::Move, R3, R8);
    program.compute(Operation::Add, R3, small(usize::from(HEAD_BYTES) + SLOT_HEAD_BYTES));
    program.combine(Operation::Move, R4, R9);
    program.call(Helper::XdpStoreBytes);
    program.set_map_value(R3, frames);
    program.load(Width::Double, R3, R3, FLAGS);
    program.set_map(R1, devices);
    program.compute(Operation::Move, R2, 0);
    program.call(Helper::RedirectMap);
    program.exit();
    program.bind(drop);
    program.exit_with(XDP_DROP);
    program.finish()
}

/// Assemble the program of the redirect target: with two redirects per frame it passes the first (the copy) and drops
/// the second (the original). If the kernel has no page for a copy, both are missing.
fn copies_only(frames: RawFd) -> Vec<[u8; 8]> {
    use Register::{R1, R7, R8};
    let mut program = Assembler::default();
    let pass = program.label();
    program.set_map_value(R8, frames);
    program.load(Width::Double, R1, R8, FLAGS);
    program.jump_if(R1, Condition::Equal, 0, pass);
    program.load(Width::Double, R7, R8, REDIRECTED);
    program.combine(Operation::Move, R1, R7);
    program.compute(Operation::Add, R1, 1);
    program.store(Width::Double, R8, REDIRECTED, R1);
    program.compute(Operation::And, R7, 1);
    program.jump_if(R7, Condition::Equal, 0, pass);
    program.exit_with(XDP_DROP);
    program.bind(pass);
    program.exit_with(XDP_PASS);
    program.finish()
}
