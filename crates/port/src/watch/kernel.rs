//! The program of a watch and its shared memory, from the side of this process.

use super::flows::FlowMaps;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_sys::bpf::{Map, Program};
use iolab_sys::{clock, Mapping};

use super::flows::FlowKey;
use super::program::{self, Maps, BIN_BYTES, FLOW_BIN_BYTES};
use super::stamps::{hands_over, Stamps};
use super::{shared, FLOW_RING, FLOW_SLOTS, FRAME_BITS, RING_US};
use crate::error::PortError;
use crate::hook::{Attachment, Hook, Mechanism, Order};
use crate::interface::Interface;

/// Time by which the reader stays behind the clock: a program that was interrupted after reading the clock can still
/// write its bin before the reader reads it (us).
pub const LAG_US: u64 = 100_000;

/// Counters of a program in addition to the bins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Bytes of headers and VLAN tags that the bins include but the packets of the stack do not.
    pub added_bytes: u64,
    /// Frames that the bins include in excess of the packets of the stack, from segmentation.
    pub added_frames: u64,
    /// Frames in no bin, because the reader was too far behind.
    pub lost_frames: u64,
    /// Bytes of the frames in no bin.
    pub lost_bytes: u64,
    /// Frames whose packet the kernel steered to a different CPU without a timestamp: these frames are in the bin of
    /// the time when that CPU processed them. There are no such frames if packets stay on the receiving CPU.
    pub unstamped_frames: Option<u64>,
}

/// A program that counts the traffic of an interface until drop.
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
    /// Attach a program to an interface of the calling thread's namespace; with a maximum number of flows (up to
    /// `MOST_FLOWS`) and a window (us), it also counts flows. If the kernel steers packets to other CPUs, times are
    /// kernel timestamps from before the steering. Needs a `/sys` of this namespace.
    ///
    /// # Errors
    /// Fails if the interface does not exist, or the kernel refuses.
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
        let attachment = Attachment::new(&this.program, interface.index, hook, Order::Last, None)?;
        this.mechanism = attachment.mechanism();
        this.attachment = Some(attachment);
        Ok(this)
    }

    /// Attach a program that does nothing, for the lifetime of the returned value.
    ///
    /// # Errors
    /// Fails under the same conditions as `open`.
    pub fn idle(name: &str, hook: Hook) -> Result<impl std::fmt::Debug, PortError> {
        let interface = Interface::find(name)?;
        let program = Program::load_classifier("iolab_idle", &program::idle())?;
        let attachment = Attachment::new(&program, interface.index, hook, Order::Last, None)?;
        Ok((attachment, program))
    }

    fn begin(&mut self, now_us: u64) {
        self.read_us = now_us;
        if let Some(flows) = &mut self.flow_bins {
            flows.read = now_us / flows.window_us;
        }
        // Relaxed: the program is not attached yet.
        self.word(shared::BASE_US).store(now_us, Ordering::Relaxed);
        self.tell_offset();
    }

    /// Store the offset between the timestamps and the program's clock.
    fn tell_offset(&self) {
        if let Some(stamps) = &self.stamps {
            // Relaxed: the word is independent of other data.
            self.word(shared::STAMPS_AHEAD_NS).store(stamps.ahead_ns(), Ordering::Relaxed);
        }
    }

    /// Return the attachment mechanism of the program.
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Return the time up to which bins have been read (us, monotonic).
    pub const fn read_us(&self) -> u64 {
        self.read_us
    }

    /// Detach the program from the interface; its counts can still be read.
    pub fn detach(&mut self) {
        self.attachment = None;
    }

    /// Call `bin` for every nonempty microsecond before `until_us`, in order, and `flow` for every nonempty window of a
    /// flow. Packets that arrive later with an earlier time count as lost.
    pub fn read(
        &mut self,
        until_us: u64,
        mut bin: impl FnMut(u64, u32, u64),
        mut flow: impl FnMut(usize, u64, u32, u64),
    ) {
        if until_us <= self.read_us {
            return;
        }
        // Release: pairs with the address dependency of the program's load; a bin is read only after all programs
        // have finished adding to it.
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

    /// Return the flows with a separate slot, by number; the last slot number stands for all other flows.
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

    /// Return the counters in addition to the bins.
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

/// Return a word of memory that is shared with the kernel.
fn cell(memory: &Mapping, number: usize) -> &AtomicU64 {
    assert!((number + 1) * 8 <= memory.bytes(), "a word outside of the memory");
    // SAFETY: inside the mapping (checked above), aligned because mappings are page-aligned, and kernel and process
    // access the word atomically.
    unsafe { AtomicU64::from_ptr(memory.start().cast::<u64>().add(number)) }
}

#[allow(clippy::cast_possible_truncation)] // 24 bits
const fn parts(word: u64) -> (u32, u64) {
    ((word & ((1 << FRAME_BITS) - 1)) as u32, word >> FRAME_BITS)
}
