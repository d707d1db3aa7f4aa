//! When frames came to a tap: a program that the kernel runs for each frame just before the tap's ring writes the time and
//! the frame's length into memory that the reader shares. Who reads late still knows when a frame came.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_sys::bpf::{Assembler, BpfError, Condition, Helper, Map, Operation, Program, Register, Width};
use iolab_sys::{tap, Mapping};

/// Stamps that the memory holds: as many as the ring of the tap holds frames, a power of two.
pub(super) const STAMPS: usize = 16_384;
/// The same for the program: to find the place of a stamp by its number.
const NUMBER_MASK: i32 = 16_383;
/// The program refuses frames when more than these wait: what the ring dropped would leave a stamp without a frame. As many
/// as the ring holds, less one for each CPU that may be inside the program (frames).
const MOST_WAITING: i32 = 16_384 - 64;
/// Before the stamps: how many were written, and how many were read (bytes).
const HEAD_BYTES: usize = 16;
/// A time and a length (bytes).
const STAMP_BYTES: usize = 16;
/// The same for the program: where the time and the length of the first stamp are, and how far numbers are shifted.
const TIME_AT: i16 = 16;
const LENGTH_AT: i16 = 24;
const NUMBER_SHIFT: i32 = 4;
/// Whole pages: a mapping has no less (bytes).
const MEMORY_BYTES: usize = (HEAD_BYTES + STAMPS * STAMP_BYTES).next_multiple_of(4096);
/// A tag that the card would have put in is counted in what is read only (bytes).
const TAG_BYTES: u64 = 4;
/// A stamp whose frame the kernel dropped behind the program is passed over; so many are looked at.
const MOST_PASSED_OVER: u64 = 64;

/// The times of frames, in the order in which they are read.
#[derive(Debug)]
pub struct Arrivals {
    memory: Mapping,
    read: u64,
    /// whether a stamp and a frame did not belong together: they do again when all frames have been read
    astray: bool,
    _map: Map,
    _program: Program,
}

impl Arrivals {
    /// Stamp the frames of a tap from now on.
    ///
    /// # Errors
    /// When the kernel has no such programs, or does not allow one.
    pub fn of(tap: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let map = Map::shared_with_us(u32::try_from(MEMORY_BYTES).unwrap_or(u32::MAX))?;
        let memory = map.map_memory(MEMORY_BYTES)?;
        let program = Program::load_filter("iolab_arrivals", &instructions(map.fd()))?;
        tap::filter_by(tap, &program)?;
        Ok(Self { memory, read: 0, astray: false, _map: map, _program: program })
    }

    /// When the frame of so many bytes that was read just now came (ns); none when that is not known.
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

    /// All frames that came have been read.
    pub fn all_read(&mut self) {
        if self.astray {
            self.astray = false;
            self.publish(self.word(0).load(Ordering::Acquire));
        }
    }

    fn publish(&mut self, read: u64) {
        self.read = read;
        // The program compares it with what it wrote: later is safe, it refuses the sooner.
        self.word(1).store(read, Ordering::Release);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < MEMORY_BYTES / 8, "a word of the stamps");
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and has this word; the kernel's program uses it as one
        // word as well.
        unsafe { &*self.memory.start().cast::<AtomicU64>().add(index) }
    }
}

/// Number the frame, write the time and its length in its place, and let it pass whole.
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
