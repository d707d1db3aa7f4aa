//! Arrival times of frames at a TAP device: the kernel runs a program for each frame just before the frame enters the
//! TAP ring; the program writes the time and the frame's length into memory shared with the reader. So a late reader
//! still has the arrival times.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_sys::bpf::{Assembler, BpfError, Condition, Helper, Map, Operation, Program, Register, Width};
use iolab_sys::{tap, Mapping};

/// Number of stamps in the memory: a power of two, equal to the number of frames in the TAP ring.
pub(super) const STAMPS: usize = 16_384;
/// Mask that maps a stamp number to its slot in the program.
const NUMBER_MASK: i32 = 16_383;
/// Maximum number of unread stamps before the program drops frames, because a drop by the full ring would leave a
/// stamp without a frame: the size of the ring, minus one for each CPU that may be in the program (frames).
const MOST_WAITING: i32 = 16_384 - 64;
/// Length of the header before the stamps: number of stamps written and read (bytes).
const HEAD_BYTES: usize = 16;
/// Length of a stamp: time and frame length (bytes).
const STAMP_BYTES: usize = 16;
/// Constants of the program: offsets of time and length in the first stamp, and the shift from a number to an offset.
const TIME_AT: i16 = 16;
const LENGTH_AT: i16 = 24;
const NUMBER_SHIFT: i32 = 4;
/// Size of the memory, rounded up to pages (bytes).
const MEMORY_BYTES: usize = (HEAD_BYTES + STAMPS * STAMP_BYTES).next_multiple_of(4096);
/// Length of an offloaded VLAN tag, which only the read frame includes (bytes).
const TAG_BYTES: u64 = 4;
/// Maximum number of stamps to skip when searching for the stamp of a frame; the kernel may drop a frame after the
/// program has stamped it.
const MOST_PASSED_OVER: u64 = 64;

/// The arrival times of frames, in read order.
#[derive(Debug)]
pub struct Arrivals {
    memory: Mapping,
    read: u64,
    /// whether a stamp did not match its frame; they match again once all frames have been read
    astray: bool,
    _map: Map,
    _program: Program,
}

impl Arrivals {
    /// Start to stamp the frames of a TAP device.
    ///
    /// # Errors
    /// Fails if the kernel does not support such programs, or does not permit this program.
    pub fn of(tap: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let map = Map::shared_with_us(u32::try_from(MEMORY_BYTES).unwrap_or(u32::MAX))?;
        let memory = map.map_memory(MEMORY_BYTES)?;
        let program = Program::load_filter("iolab_arrivals", &instructions(map.fd()))?;
        tap::filter_by(tap, &program)?;
        Ok(Self { memory, read: 0, astray: false, _map: map, _program: program })
    }

    /// Return the arrival time of the frame of `frame_bytes` that was just read (ns); none if it is unknown.
    #[inline]
    pub fn next(&mut self, frame_bytes: usize) -> Option<u64> {
        let written = self.word(0).load(Ordering::Acquire);
        let last = written.min(self.read + MOST_PASSED_OVER);
        for number in self.read..last {
            let at = HEAD_BYTES / 8 + 2 * (usize::try_from(number).unwrap_or(0) % STAMPS);
            let (ns, length) =
                (self.word(at).load(Ordering::Relaxed), self.word(at + 1).load(Ordering::Relaxed));
            if [length, length + TAG_BYTES].contains(&(frame_bytes as u64)) {
                self.publish(number + 1);
                return Some(ns);
            }
        }
        self.astray = true;
        None
    }

    /// Resynchronize stamps and frames after all queued frames have been read.
    pub fn all_read(&mut self) {
        if self.astray {
            self.astray = false;
            self.publish(self.word(0).load(Ordering::Acquire));
        }
    }

    fn publish(&mut self, read: u64) {
        self.read = read;
        // The program compares this count with the number of written stamps: an old value is safe, because the
        // program then drops frames earlier.
        self.word(1).store(read, Ordering::Release);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < MEMORY_BYTES / 8, "a word of the stamps");
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and contains this word; the kernel's program
        // also accesses it as one word.
        unsafe { &*self.memory.start().cast::<AtomicU64>().add(index) }
    }
}

/// Assemble the program that numbers the frame, writes time and length to its slot, and passes the whole frame.
fn instructions(map: i32) -> Vec<[u8; 8]> {
    use Register::{R0, R1, R2, R3, R7, R8, R9};
    let mut program = Assembler::default();
    let full = program.label();
    program.load(Width::Word, R7, R1, 0); // struct __sk_buff: its length
    program.set_map_value(R8, map);
    program.load(Width::Double, R2, R8, 0);
    program.load(Width::Double, R3, R8, 8);
    program.combine(Operation::Subtract, R2, R3);
    program.jump_if(R2, Condition::Above, MOST_WAITING, full);
    program.compute(Operation::Move, R9, 1);
    program.fetch_and_add(R8, 0, R9);
    program.call(Helper::KtimeGetNs);
    program.compute(Operation::And, R9, NUMBER_MASK);
    program.compute(Operation::ShiftLeft, R9, NUMBER_SHIFT);
    program.combine(Operation::Add, R8, R9);
    program.store(Width::Double, R8, TIME_AT, R0);
    program.store(Width::Double, R8, LENGTH_AT, R7);
    program.combine(Operation::Move, R0, R7);
    program.exit();
    program.bind(full);
    program.exit_with(0);
    program.finish()
}
