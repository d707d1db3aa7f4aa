//! The receive loop: accounts for every frame until no more frames arrive.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use iolab_engine::{Drain, DrainState, Nanos, Receiver, STALL_LOG_ENTRIES};
use iolab_frame::Inspector;
use iolab_port::{receive, PortError, RxPort, RxStats, StampedBy};
use iolab_protocol::traffic::Waiting;
use iolab_sys::clock::{self, StampClock};

use crate::observe::{Moment, ThreadEye};

/// Maximum number of frames received at once.
const BATCH: usize = 256;
/// Sleep time after a partial batch in wait mode: each wakeup takes a CPU from a sender or the system under test, and
/// a port buffers frames for many milliseconds.
const NAP: Duration = Duration::from_nanos(NAP_NS);
const NAP_NS: u64 = 500_000;
/// Maximum sleep in the kernel before the phase of the trial is checked.
const WAIT_MS: i32 = 2;
const WAIT_NS: u64 = 2_000_000;
/// Minimum time without a poll that counts as a stall (ns).
const STALL_NS: u64 = 100_000;
/// Maximum time for discarding frames from before the trial (ns).
const CLEAR_NS: u64 = 20_000_000;

/// The phase of the trial.
#[derive(Debug, Default)]
pub struct Phase(AtomicU8);

impl Phase {
    const DRAINING: u8 = 1;
    const STOPPED: u8 = 2;

    /// Start the drain phase, after all senders have stopped.
    pub fn drain(&self) {
        let _ = self.0.fetch_max(Self::DRAINING, Ordering::Relaxed);
    }

    /// End the trial now.
    pub fn stop(&self) {
        let _ = self.0.fetch_max(Self::STOPPED, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        // Relaxed: the value is only a flag; the senders' counts are read after their threads were joined.
        self.0.load(Ordering::Relaxed)
    }
}

/// A period without a poll of the port.
#[derive(Debug, Clone, Copy)]
pub struct Lapse {
    /// Time of the last poll before the period (ns).
    pub begin_ns: u64,
    /// Time of the next poll (ns).
    pub end_ns: u64,
    /// CPU usage of the thread since the previous such period.
    pub used: Moment,
}

/// The result of one receiver.
#[derive(Debug)]
pub struct Received {
    /// Receive account of the engine, not yet closed.
    pub account: Receiver,
    /// Port counters of this trial.
    pub port: RxStats,
    /// Whether the drain ended because no more frames arrived.
    pub drained: bool,
    /// Start time (ns).
    pub begin_ns: u64,
    /// End time (ns).
    pub end_ns: u64,
    /// CPU usage of the thread.
    pub used: Moment,
    /// Logged periods without a poll.
    pub lapses: Vec<Lapse>,
    /// Number of such periods, logged or not.
    pub lapse_count: u64,
}

/// The configuration of one receiver.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Inspector that recognises the receiver's frames.
    pub inspector: Inspector,
    /// Wait mode: `Busy` or `Wait`.
    pub waiting: Waiting,
    /// Duration of sending.
    pub duration: Nanos,
    /// Required time without arrivals at the end of the drain.
    pub quiet: Nanos,
    /// Maximum duration of the drain.
    pub timeout: Nanos,
}

/// A running receiver.
pub struct Listener<'a> {
    port: &'a mut dyn RxPort,
    account: Receiver,
    manner: Manner,
    clock: StampClock,
    eye: ThreadEye,
    before: RxStats,
    first: Moment,
    last: Moment,
    begin_ns: u64,
    looked_ns: u64,
    stamps_itself: bool,
    lapses: Vec<Lapse>,
    lapse_count: u64,
}

impl<'a> Listener<'a> {
    /// Prepare a receiver: discard the frames that arrived before the trial.
    pub fn new(
        port: &'a mut dyn RxPort,
        account: Receiver,
        manner: Manner,
        clock: StampClock,
    ) -> Result<Self, PortError> {
        let begin_ns = clock::now_ns();
        while port.poll(BATCH)? > 0 && clock::now_ns() < begin_ns + CLEAR_NS {}
        port.release();
        let before = port.stats()?;
        let eye = ThreadEye::of_this_thread();
        let first = eye.look();
        let begin_ns = clock::now_ns();
        let lapses = Vec::with_capacity(64);
        Ok(Self {
            port,
            account,
            manner,
            clock,
            eye,
            before,
            first,
            last: first,
            begin_ns,
            looked_ns: begin_ns,
            stamps_itself: true, // until a frame has a different source
            lapses,
            lapse_count: 0,
        })
    }

    /// Receive until the trial, which starts at `start`, is over and no more frames arrive.
    pub fn run(mut self, start: Nanos, phase: &Phase) -> Result<Received, PortError> {
        let mut drain = None;
        self.account.count_parts(start, self.manner.duration);
        self.looked_ns = self.clock.now_ns();
        let drained = loop {
            let arrived = self.take()?;
            let now = Nanos(self.clock.now_ns());
            self.note_look(now.0);
            match phase.get() {
                0 => {}
                Phase::DRAINING => {
                    let (ours, Manner { quiet, timeout, .. }) = (self.ours(), self.manner);
                    let drain = drain.get_or_insert_with(|| Drain::new(now, ours, quiet, timeout));
                    match drain.poll(now, ours) {
                        DrainState::Draining(_) => {}
                        DrainState::Quiet => break true,
                        DrainState::StillArriving => break false,
                    }
                }
                _ => break false,
            }
            if self.manner.waiting == Waiting::Wait {
                self.rest(arrived)?;
            }
        };
        let port = self.counts()?;
        let used = self.eye.look().since(self.first);
        let Self { account, begin_ns, lapses, lapse_count, .. } = self;
        Ok(Received { account, port, drained, begin_ns, end_ns: clock::now_ns(), used, lapses, lapse_count })
    }

    /// Account for the frames that have arrived.
    #[inline]
    fn take(&mut self) -> Result<usize, PortError> {
        let mut batch = receive(self.port, BATCH)?;
        let arrived = batch.len();
        while let Some(frame) = batch.next() {
            // Without kernel timestamps, frames must be polled as soon as they arrive.
            self.stamps_itself = frame.stamped_by == StampedBy::Poll;
            self.account.receive(&self.manner.inspector, frame.bytes, Nanos(frame.stamp_ns));
        }
        Ok(arrived)
    }

    /// Return the number of frames of this trial, intact or not; other frames may arrive forever.
    fn ours(&self) -> u64 {
        let stray = self.account.stray();
        self.account.arrived_frames() - stray.foreign_frames - stray.other_tag_frames
    }

    /// Sleep if few frames arrive. The sleep is intended, so its nominal length does not count as a stall.
    fn rest(&mut self, arrived: usize) -> Result<(), PortError> {
        let begin_ns = self.looked_ns;
        if arrived == 0 && self.stamps_itself {
            // A frame ends the sleep early; the kernel's run queue wait shows how long the thread was runnable.
            let before = self.eye.look();
            self.port.wait(WAIT_MS)?;
            let ready_ns = self.eye.look().since(before).wait_ns;
            let woken_ns = self.clock.now_ns().saturating_sub(ready_ns).max(begin_ns);
            // A longer sleep was not intended: the thread or the process was stopped.
            self.looked_ns = woken_ns.min(begin_ns + WAIT_NS);
        } else if arrived < BATCH && !self.stamps_itself {
            std::thread::sleep(NAP);
            self.looked_ns = self.clock.now_ns().min(begin_ns + NAP_NS);
        }
        Ok(())
    }

    #[inline]
    fn note_look(&mut self, now_ns: u64) {
        if now_ns > self.looked_ns + STALL_NS {
            self.note_lapse(now_ns);
        }
        self.looked_ns = now_ns;
    }

    #[cold]
    fn note_lapse(&mut self, end_ns: u64) {
        let now = self.eye.look();
        self.lapse_count += 1;
        if self.lapses.len() < STALL_LOG_ENTRIES {
            self.lapses.push(Lapse { begin_ns: self.looked_ns, end_ns, used: now.since(self.last) });
        }
        self.last = now;
    }

    fn counts(&mut self) -> Result<RxStats, PortError> {
        let (mut now, before) = (self.port.stats()?, self.before);
        now.received_frames -= before.received_frames;
        now.received_bytes -= before.received_bytes;
        now.foreign_frames -= before.foreign_frames;
        now.dropped_frames -= before.dropped_frames;
        now.ring_full_frames -= before.ring_full_frames;
        now.no_buffer_frames -= before.no_buffer_frames;
        now.truncated_frames -= before.truncated_frames;
        now.poll_stamped_frames -= before.poll_stamped_frames;
        Ok(now)
    }
}
