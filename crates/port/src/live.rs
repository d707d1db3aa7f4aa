//! Sends by live frames of the kernel: an XDP program is run once for each frame and redirects it to the interface, with no
//! socket and no packet buffer of the stack in between. Needs the right to load programs; the *other* end of a veth needs its
//! NAPI on (an XDP program, or GRO), or its frames vanish.

use iolab_sys::clock;

use crate::bpf::LiveProgram;
use crate::error::PortError;
use crate::interface::{Interface, InterfaceCounters, InterfaceEye};
use crate::port::{Path, TxPort, TxStats};

/// Page, headroom and what the kernel keeps with a frame leave so much; the last 64 B are for kernels that keep more.
/// (bytes, without FCS)
const MOST_BYTES: usize = 4096 - 256 - 320 - 256 - 64;

/// The frames that one call sends: its own cost, some microseconds, is shared by so many. (frames)
const SLOTS: usize = 1024;

/// A kernel that has no pool left (see `call_gap_ns`; ENOSPC) is left alone for so long, and the next call sends more.
const PAUSE_NS: u64 = 1_000_000;

/// What a port of live frames is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfLive {
    /// the interface's name
    pub interface: String,
    /// the longest frame (bytes, without FCS)
    pub frame_bytes: usize,
    /// VLAN tags in the longest frame
    pub vlan_tags: u8,
}

impl BpfLive {
    /// The usual port: 1518 B frames.
    pub fn new(interface: &str) -> Self {
        Self { interface: interface.to_owned(), frame_bytes: 1514, vlan_tags: 0 }
    }

    /// Opens a port that sends.
    ///
    /// # Errors
    /// When the interface cannot carry the frames, they are too long for live frames, or the kernel refuses.
    pub fn open_tx(&self) -> Result<BpfLiveTx, PortError> {
        let interface = Interface::find(&self.interface)?;
        interface.check(self.frame_bytes, self.vlan_tags)?;
        if self.frame_bytes > MOST_BYTES {
            let (name, frame_bytes, most_bytes) = (interface.name, self.frame_bytes, MOST_BYTES);
            return Err(PortError::FrameOverPath { name, path: "BPF live", frame_bytes, most_bytes });
        }
        let program = LiveProgram::new(interface.index, SLOTS, self.frame_bytes)?;
        Ok(BpfLiveTx {
            program,
            eye: InterfaceEye::new(&interface.name)?,
            before: interface.counters,
            path: Path::new("BPF live frames"),
            most_bytes: self.frame_bytes,
            next: 0,
            claimed: 0,
            waiting: 0,
            again_ns: 0,
            lengths: vec![0; SLOTS],
            stats: TxStats::default(),
        })
    }
}

impl BpfLiveTx {
    /// Frames that the next flush sends.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }
}

/// The sending half of a port of live frames.
#[derive(Debug)]
pub struct BpfLiveTx {
    program: LiveProgram,
    eye: InterfaceEye,
    /// what the interface had counted when the port was opened
    before: InterfaceCounters,
    path: Path,
    most_bytes: usize,
    /// first slot not yet committed
    next: usize,
    claimed: usize,
    /// committed and not yet sent
    waiting: usize,
    /// the kernel is not called before (ns)
    again_ns: u64,
    /// by slot (bytes)
    lengths: Vec<usize>,
    stats: TxStats,
}

impl TxPort for BpfLiveTx {
    fn path(&self) -> &Path {
        &self.path
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    fn prime(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        for index in 0..self.claim(SLOTS) {
            fill(self.slot(index, self.most_bytes));
        }
        self.claimed = 0;
    }

    #[inline]
    fn claim(&mut self, frames: usize) -> usize {
        // While the kernel takes none, more would only age here, with the time in them when they should have left.
        let room = if self.again_ns > 0 { 0 } else { SLOTS - self.waiting };
        self.claimed = frames.min(room);
        self.claimed
    }

    #[inline]
    fn slot(&mut self, index: usize, frame_bytes: usize) -> &mut [u8] {
        assert!(index < self.claimed, "frame {index} of a claim of {}", self.claimed);
        let slot = (self.next + index) % SLOTS;
        self.lengths[slot] = frame_bytes;
        let place = self.program.place(slot, frame_bytes);
        // SAFETY: `place` has checked slot and length; the kernel reads only during a call that needs `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(place, frame_bytes) }
    }

    #[inline]
    fn publish(&mut self, frames: usize) {
        let frames = frames.min(self.claimed);
        self.next = (self.next + frames) % SLOTS;
        self.claimed = 0;
        self.waiting += frames;
        self.stats.committed_frames += frames as u64;
    }

    /// A call costs some 6 us besides the frames.
    fn call_frames(&self) -> usize {
        SLOTS / 2
    }

    /// Each call has a pool of pages with one of 65 533 numbers, which are back some ten milliseconds later, or a second and
    /// more after the frames of a large call have gone.
    fn call_gap_ns(&self) -> u64 {
        50_000
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        if self.again_ns > 0 && clock::now_ns() < self.again_ns {
            return Ok(());
        }
        self.again_ns = 0;
        if self.waiting == 0 {
            return Ok(());
        }
        let oldest = (self.next + SLOTS - self.waiting) % SLOTS;
        let waiting = (0..self.waiting).map(|index| self.lengths[(oldest + index) % SLOTS]);
        // The program cuts the others; a frame of the kernel has at least an Ethernet header.
        let full_bytes = waiting.max().unwrap_or(0).max(14);
        self.stats.kicks += 1;
        let (done, ran) = self.program.run(self.waiting, full_bytes);
        self.waiting -= done.min(self.waiting);
        self.stats.accepted_frames += done as u64;
        match ran.map_err(PortError::of("sending live frames", "bpf")) {
            // The rest waits for the next flush.
            Err(seen) if seen.is_busy() => {
                self.stats.busy_answers += 1;
                self.again_ns = clock::now_ns() + PAUSE_NS;
                Ok(())
            }
            other => other,
        }
    }

    fn stats(&mut self) -> Result<TxStats, PortError> {
        let found = self.eye.look()?;
        if !found.up {
            return Err(PortError::Down { name: found.name });
        }
        // Nobody tells the program what became of a frame; the interface counts what it took and what it did not, some of
        // it only when the other end has looked.
        let (counted, before) = (found.counters, self.before);
        let (done, mut now) = (self.stats.accepted_frames, self.stats);
        now.accepted_frames = counted.tx_frames.saturating_sub(before.tx_frames).min(done);
        now.refused_frames = counted.tx_dropped.saturating_sub(before.tx_dropped);
        now.refused_frames = now.refused_frames.min(done - now.accepted_frames);
        now.pending_frames = now.committed_frames - now.accepted_frames - now.refused_frames;
        Ok(now)
    }
}
