//! Sending of live frames: the kernel runs an XDP program once per frame, which redirects the frame to the interface
//! without a socket or an skb. Live frames need the permission to load BPF programs. On a veth, NAPI must be enabled on
//! the *peer* (by an XDP program or GRO), otherwise the kernel drops the frames.

use iolab_sys::clock;

use crate::bpf::LiveProgram;
use crate::error::PortError;
use crate::interface::{Interface, InterfaceCounters, InterfaceEye};
use crate::port::{Path, TxPort, TxStats};

/// Maximum frame length: a page minus headroom and kernel data; 64 B are reserved for kernels with more data per
/// frame (bytes, without FCS).
const MOST_BYTES: usize = 4096 - 256 - 320 - 256 - 64;

/// Number of frames per call, which share the call's fixed cost of some microseconds.
const SLOTS: usize = 1024;

/// Pause after the kernel reports that no page pool is available (ENOSPC; see `call_gap_ns`); the next call sends
/// more frames (ns).
const PAUSE_NS: u64 = 1_000_000;

/// The configuration of a port for live frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfLive {
    /// Interface name.
    pub interface: String,
    /// Maximum frame length (bytes, without FCS).
    pub frame_bytes: usize,
    /// Number of VLAN tags in the longest frame.
    pub vlan_tags: u8,
}

impl BpfLive {
    /// Return the default configuration: frames of 1518 B with FCS.
    pub fn new(interface: &str) -> Self {
        Self { interface: interface.to_owned(), frame_bytes: 1514, vlan_tags: 0 }
    }

    /// Open a port for sending.
    ///
    /// # Errors
    /// Fails if the interface cannot carry the frames, they are too long for live frames, or the kernel refuses.
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
    /// Return the number of frames that the next flush sends.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }
}

/// The sending half of a port for live frames.
#[derive(Debug)]
pub struct BpfLiveTx {
    program: LiveProgram,
    eye: InterfaceEye,
    /// interface counters at the time the port was opened
    before: InterfaceCounters,
    path: Path,
    most_bytes: usize,
    /// first slot that is not committed
    next: usize,
    claimed: usize,
    /// number of committed frames that are not sent
    waiting: usize,
    /// earliest time of the next call (ns)
    again_ns: u64,
    /// frame length per slot (bytes)
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
        // While the kernel accepts no frames, further frames would only age in the slots, and their transmit stamps
        // with them.
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

    /// Return the preferred batch: a call costs about 6 us in addition to the frames.
    fn call_frames(&self) -> usize {
        SLOTS / 2
    }

    /// Return the minimum interval between calls (ns). Each call has a page pool with one of 65 533 ids. An id is
    /// free again after about ten milliseconds, or at least a second after the frames of a large call have been
    /// freed.
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
        // The program trims shorter frames; the kernel requires at least an Ethernet header.
        let full_bytes = waiting.max().unwrap_or(0).max(14);
        self.stats.kicks += 1;
        let (done, ran) = self.program.run(self.waiting, full_bytes);
        self.waiting -= done.min(self.waiting);
        self.stats.accepted_frames += done as u64;
        match ran.map_err(PortError::of("sending live frames", "bpf")) {
            // The remaining frames stay queued for the next flush.
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
        // The kernel does not report the fate of individual frames. The interface counts sent and dropped frames,
        // some of them only after the peer has processed them.
        let (counted, before) = (found.counters, self.before);
        let (done, mut now) = (self.stats.accepted_frames, self.stats);
        now.accepted_frames = counted.tx_frames.saturating_sub(before.tx_frames).min(done);
        now.refused_frames = counted.tx_dropped.saturating_sub(before.tx_dropped);
        now.refused_frames = now.refused_frames.min(done - now.accepted_frames);
        now.pending_frames = now.committed_frames - now.accepted_frames - now.refused_frames;
        Ok(now)
    }
}
