//! The receiving loop: accounts for every frame, until nothing arrives any more.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use iolab_engine::{Drain, DrainState, Nanos, Receiver, STALL_LOG_ENTRIES};
use iolab_frame::Inspector;
use iolab_port::{receive, PortError, RxPort, RxStats, StampedBy};
use iolab_protocol::traffic::Waiting;
use iolab_sys::clock::{self, StampClock};

use crate::observe::{Moment, ThreadEye};

/// As many frames are taken at once.
const BATCH: usize = 256;
/// When it may sleep and a batch was not full, the thread lets more come: every time it wakes it takes a CPU from a sender
/// or the system under test. A port buffers for many milliseconds.
const NAP: Duration = Duration::from_nanos(NAP_NS);
const NAP_NS: u64 = 500_000;
/// How long it sleeps in the kernel before it looks whether the trial goes on.
const WAIT_MS: i32 = 2;
const WAIT_NS: u64 = 2_000_000;
/// From this on, not looking is a stall.
const STALL_NS: u64 = 100_000;
/// What lies in a port from before is thrown away, but not for ever.
const CLEAR_NS: u64 = 20_000_000;

/// How far the trial is.
#[derive(Debug, Default)]
pub struct Phase(AtomicU8);

impl Phase {
    const DRAINING: u8 = 1;
    const STOPPED: u8 = 2;

    /// All senders have ended.
    pub fn drain(&self) {
        let _ = self.0.fetch_max(Self::DRAINING, Ordering::Relaxed);
    }

    /// The trial ends now.
    pub fn stop(&self) {
        let _ = self.0.fetch_max(Self::STOPPED, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        // Relaxed: only a flag; what senders counted is read after their threads were joined.
        self.0.load(Ordering::Relaxed)
    }
}

/// A time without a look at the port.
#[derive(Debug, Clone, Copy)]
pub struct Lapse {
    /// The last look before (ns).
    pub begin_ns: u64,
    /// The next look (ns).
    pub end_ns: u64,
    /// What the thread used since the lapse before.
    pub used: Moment,
}

/// What one receiver saw.
#[derive(Debug)]
pub struct Received {
    /// The engine's account, not yet closed.
    pub account: Receiver,
    /// What the port counted in this trial.
    pub port: RxStats,
    /// Whether nothing arrived any more.
    pub drained: bool,
    /// When it began (ns).
    pub begin_ns: u64,
    /// When it ended (ns).
    pub end_ns: u64,
    /// What its thread used.
    pub used: Moment,
    /// When it did not look.
    pub lapses: Vec<Lapse>,
    /// How often.
    pub lapse_count: u64,
}

/// How one receiver works.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Recognises its frames.
    pub inspector: Inspector,
    /// `Busy` or `Wait`.
    pub waiting: Waiting,
    /// So long is sent.
    pub duration: Nanos,
    /// So long nothing must arrive.
    pub quiet: Nanos,
    /// At most this is waited.
    pub timeout: Nanos,
}

/// One receiver at work.
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
    /// Prepare: throw away what arrived before.
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
            stamps_itself: true, // until a frame tells otherwise
            lapses,
            lapse_count: 0,
        })
    }

    /// Receive until the trial, which begins at `start`, is over and nothing arrives any more.
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

    /// Account for what has arrived.
    #[inline]
    fn take(&mut self) -> Result<usize, PortError> {
        let mut batch = receive(self.port, BATCH)?;
        let arrived = batch.len();
        while let Some(frame) = batch.next() {
            // Then frames must be looked at as soon as they arrive.
            self.stamps_itself = frame.stamped_by == StampedBy::Poll;
            self.account.receive(&self.manner.inspector, frame.bytes, Nanos(frame.stamp_ns));
        }
        Ok(arrived)
    }

    /// Frames of this trial, whole or not: others may come for ever.
    fn ours(&self) -> u64 {
        let stray = self.account.stray();
        self.account.arrived_frames() - stray.foreign_frames - stray.other_tag_frames
    }

    /// Sleep when there is not much to do. Not looking is then meant, but not for longer than that.
    fn rest(&mut self, arrived: usize) -> Result<(), PortError> {
        let begin_ns = self.looked_ns;
        if arrived == 0 && self.stamps_itself {
            // A frame ends the sleep sooner, and only the kernel knows how long the thread was ready by then.
            let before = self.eye.look();
            self.port.wait(WAIT_MS)?;
            let ready_ns = self.eye.look().since(before).wait_ns;
            let woken_ns = self.clock.now_ns().saturating_sub(ready_ns).max(begin_ns);
            // Longer than that was not meant: the thread, or the whole program, was stopped.
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
