//! The program of a watch and its memory, as this process sees them.

use super::flows::FlowMaps;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_sys::bpf::{Map, Program};
use iolab_sys::{clock, Mapping};

use super::attachment::{Attachment, Hook, Mechanism};
use super::flows::FlowKey;
use super::program::{self, Maps, BIN_BYTES, FLOW_BIN_BYTES};
use super::stamps::{hands_over, Stamps};
use super::{shared, FLOW_RING, FLOW_SLOTS, FRAME_BITS, RING_US};
use crate::error::PortError;
use crate::interface::Interface;

/// The reader stays so far behind the clock: a program that was interrupted after it had asked for the time still finds its
/// bin unread. (us)
pub const LAG_US: u64 = 100_000;

/// What a program counted beside the bins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beyond {
    /// bytes of headers and tags in the bins that the packets of the stack did not have
    pub added_bytes: u64,
    /// frames in the bins beyond the packets of the stack
    pub added_frames: u64,
    /// frames that are in no bin, since the reader was too far behind
    pub lost_frames: u64,
    /// their bytes
    pub lost_bytes: u64,
    /// of packets that were given to another CPU, those without a stamp from before: they are in the bins of when that CPU
    /// looked at them; nothing where packets stay on the CPU on which they came
    pub unstamped_frames: Option<u64>,
}

/// A program that counts what passes an interface, until dropped.
#[derive(Debug)]
pub struct KernelWatch {
    attachment: Option<Attachment>,
    mechanism: Mechanism,
    bins: Mapping,
    words: Mapping,
    flow_bins: Option<FlowBins>,
    stamps: Option<Stamps>,
    read_us: u64,
    _maps: Vec<Map>,
    program: Program,
}

#[derive(Debug)]
struct FlowBins {
    memory: Mapping,
    window_us: u64,
    most: usize,
    read: u64,
}

impl KernelWatch {
    /// Hangs a program on an interface of the calling thread's namespace; with a window (us) it counts up to `MOST_FLOWS` flows
    /// apart. Where the kernel gives packets to other CPUs, times are those of its stamps from before that. Needs the
    /// namespace's own `/sys`.
    ///
    /// # Errors
    /// When there is no such interface, or the kernel refuses.
    pub fn open(name: &str, hook: Hook, flows: Option<(usize, u32)>) -> Result<Self, PortError> {
        let interface = Interface::find(name)?;
        let memory = |bytes: usize| {
            let map = Map::shared_with_us(u32::try_from(bytes).unwrap_or(u32::MAX))?;
            let mapping = map.map_memory(bytes)?;
            Ok::<_, PortError>((map, mapping))
        };
        let (bin_map, bins) = memory(BIN_BYTES)?;
        let (word_map, words) = memory(shared::BYTES)?;
        let stamps = (hook == Hook::Ingress && hands_over(name)).then(Stamps::ask).transpose()?;
        let mut maps =
            Maps { bins: bin_map.fd(), shared: word_map.fd(), stamped: stamps.is_some(), flows: None };
        let (mut kept, mut flow_bins) = (vec![bin_map, word_map], None);
        if let Some((most, window_us)) = flows {
            let (map, memory) = memory(FLOW_BIN_BYTES)?;
            let places = Map::keyed(40, u32::try_from(2 * FLOW_SLOTS).unwrap_or(u32::MAX))?;
            let many = u32::try_from(most).unwrap_or(u32::MAX);
            maps.flows = Some(FlowMaps { places: places.fd(), bins: map.fd(), window_us, most: many });
            kept.extend([map, places]);
            flow_bins = Some(FlowBins { memory, window_us: u64::from(window_us), most, read: 0 });
        }
        let program = Program::load_classifier("iolab_watch", &program::instructions(maps))?;
        let mut this = Self {
            attachment: None,
            mechanism: Mechanism::Tcx,
            bins,
            words,
            flow_bins,
            stamps,
            read_us: 0,
            _maps: kept,
            program,
        };
        this.begin(clock::now_ns() / 1000);
        let attachment = Attachment::new(&this.program, interface.index, hook)?;
        this.mechanism = attachment.mechanism();
        this.attachment = Some(attachment);
        Ok(this)
    }

    /// A program on an interface that does nothing, for as long as what is returned lives.
    ///
    /// # Errors
    /// As `open`.
    pub fn idle(name: &str, hook: Hook) -> Result<impl std::fmt::Debug, PortError> {
        let interface = Interface::find(name)?;
        let program = Program::load_classifier("iolab_idle", &program::idle())?;
        let attachment = Attachment::new(&program, interface.index, hook)?;
        Ok((attachment, program))
    }

    fn begin(&mut self, now_us: u64) {
        self.read_us = now_us;
        if let Some(flows) = &mut self.flow_bins {
            flows.read = now_us / flows.window_us;
        }
        // Relaxed: the program is not there yet.
        self.word(shared::BASE_US).store(now_us, Ordering::Relaxed);
        self.tell_offset();
    }

    /// What the stamps are ahead of the program's clock.
    fn tell_offset(&self) {
        if let Some(stamps) = &self.stamps {
            // Relaxed: a word by itself.
            self.word(shared::STAMPS_AHEAD_NS).store(stamps.ahead_ns(), Ordering::Relaxed);
        }
    }

    /// By what the kernel runs the program.
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Where it begins to count. (us, monotonic)
    pub const fn read_us(&self) -> u64 {
        self.read_us
    }

    /// Takes the program off the interface; what it counted can still be read.
    pub fn detach(&mut self) {
        self.attachment = None;
    }

    /// Gives every microsecond before `until_us` in which something passed, in order, and every window of a flow likewise. What
    /// comes after it with an earlier time is counted as lost.
    pub fn read(
        &mut self,
        until_us: u64,
        mut bin: impl FnMut(u64, u32, u64),
        mut flow: impl FnMut(usize, u64, u32, u64),
    ) {
        if until_us <= self.read_us {
            return;
        }
        // Release: pairs with the address dependency of the program's load; a bin is read only once nobody counts in it.
        let until_us = until_us.min(self.read_us + RING_US);
        for us in self.read_us..until_us {
            let place = cell(&self.bins, (us % RING_US) as usize);
            if place.load(Ordering::Relaxed) != 0 {
                let (frames, bytes) = parts(place.swap(0, Ordering::Relaxed));
                bin(us, frames, bytes);
            }
        }
        self.read_us = until_us;
        if self.stamps.as_mut().is_some_and(Stamps::look) {
            self.tell_offset();
        }
        self.read_flows(until_us, &mut flow);
        self.word(shared::BASE_US).store(until_us, Ordering::Release);
    }

    fn read_flows(&mut self, until_us: u64, flow: &mut impl FnMut(usize, u64, u32, u64)) {
        let known = self.known_flows();
        let Some(flows) = &mut self.flow_bins else { return };
        let until = until_us / flows.window_us;
        for number in (0..known).chain([FLOW_SLOTS - 1]) {
            for window in flows.read..until {
                #[expect(clippy::cast_possible_truncation, reason = "both are at most the ring's length")]
                let at = number * FLOW_RING as usize + (window % FLOW_RING) as usize;
                let place = cell(&flows.memory, at);
                if place.load(Ordering::Relaxed) != 0 {
                    let (frames, bytes) = parts(place.swap(0, Ordering::Relaxed));
                    flow(number, window, frames, bytes);
                }
            }
        }
        flows.read = until;
    }

    fn known_flows(&self) -> usize {
        let most = self.flow_bins.as_ref().map_or(0, |flows| flows.most);
        usize::try_from(self.word(shared::FLOWS).load(Ordering::Relaxed)).unwrap_or(most).min(most)
    }

    /// The flows that have a place of their own, by number; the last number of all stands for the rest.
    pub fn flows(&self) -> Vec<FlowKey> {
        let read = |number: usize| {
            let mut bytes = [0; shared::KEY_BYTES];
            let first = shared::FLOW_KEYS as usize + number * shared::KEY_BYTES;
            for (place, part) in bytes.chunks_exact_mut(8).enumerate() {
                part.copy_from_slice(
                    &cell(&self.words, first / 8 + place).load(Ordering::Relaxed).to_ne_bytes(),
                );
            }
            FlowKey::parse(&bytes)
        };
        (0..self.known_flows()).map(read).collect()
    }

    /// What was counted beside the bins.
    pub fn beyond(&self) -> Beyond {
        let read = |at| self.word(at).load(Ordering::Relaxed);
        Beyond {
            added_bytes: read(shared::ADDED_BYTES),
            added_frames: read(shared::ADDED_FRAMES),
            lost_frames: read(shared::LOST_FRAMES),
            lost_bytes: read(shared::LOST_BYTES),
            unstamped_frames: self.stamps.as_ref().map(|_| read(shared::UNSTAMPED_FRAMES)),
        }
    }

    fn word(&self, at: i16) -> &AtomicU64 {
        cell(&self.words, usize::try_from(at).unwrap_or(0) / 8)
    }
}

/// A word of memory that is shared with the kernel.
fn cell(memory: &Mapping, number: usize) -> &AtomicU64 {
    assert!((number + 1) * 8 <= memory.bytes(), "a word outside of the memory");
    // SAFETY: inside of the mapping (just checked), aligned as pages are, and both sides use words atomically.
    unsafe { AtomicU64::from_ptr(memory.start().cast::<u64>().add(number)) }
}

#[allow(clippy::cast_possible_truncation)] // 24 bits
const fn parts(word: u64) -> (u32, u64) {
    ((word & ((1 << FRAME_BITS) - 1)) as u32, word >> FRAME_BITS)
}
