//! The send loop: polls the generator, fills the port's buffers, and waits for the next transmit time.

mod fill;
mod full;

use std::sync::atomic::{AtomicBool, Ordering};

use iolab_engine::{
    Decision, Departures, Generator, GeneratorReport, Nanos, Slices, StallCause, StallEntry,
    STALL_LOG_ENTRIES,
};
use iolab_port::{reserve, PortError, TxPort, TxStats};
use iolab_sys::clock::{self, StampClock};
use iolab_sys::thread;

use self::fill::Filler;
use crate::frames::Plan;
use crate::observe::{Moment, ThreadEye};
use crate::rest::{Nap, Rest};

/// Minimum number of polls without a newly accepted frame before the sender gives up waiting for the last frames: the
/// time limit alone is not enough, because this thread may have been descheduled.
const SETTLE_TRIES: u32 = 100;
/// Sleep margins before the end of a wait (ns); the thread sleeps only in waits of at least twice the margin. Real-time
/// threads wake up within 0.2 ms, other threads when the scheduler allows.
const MARGIN_NS: u64 = 1_000_000;
const REAL_TIME_MARGIN_NS: u64 = 250_000;

/// Minimum interval between readings of the thread's CPU usage (ns): a reading takes some microseconds, and an
/// overloaded sender stalls at every call.
const LOOK_NS: u64 = 1_000_000;

/// The result of one sending thread.
#[derive(Debug)]
pub struct Sent {
    /// Report of the generator.
    pub books: GeneratorReport,
    /// Bytes of all frames passed to the port, with FCS.
    pub handed_bytes: u64,
    /// Number of gap frames passed to the port.
    pub gap_frames: u64,
    /// Port counters before this trial.
    before: TxStats,
    /// Port counters of this trial.
    pub port: TxStats,
    /// Due time of the first frame (ns).
    pub begin_ns: u64,
    /// End time (ns).
    pub end_ns: u64,
    /// CPU usage of the thread.
    pub used: Moment,
    /// CPU usage of the thread in each stall.
    pub in_stalls: Vec<Moment>,
    /// Frames per slice of the trial.
    pub slices: Slices,
    /// Transmit times, if there are several threads.
    pub departures: Option<Departures>,
}

/// The result of sending the frames due at one time.
struct Burst {
    /// Next action.
    decision: Decision,
    /// Number of available buffers.
    granted: usize,
    /// Number of filled buffers.
    taken: u32,
}

/// A running sending thread.
pub struct Sender<'a> {
    port: &'a mut dyn TxPort,
    plan: &'a Plan,
    clock: StampClock,
    stop: &'a AtomicBool,
    stalled: &'a AtomicBool,
    eye: ThreadEye,
    before: TxStats,
    /// Number of committed frames before the next flush.
    held: usize,
    /// Naps of a real-time thread.
    rest: Option<Rest>,
    /// Number of frames that may be held back while the schedule is late.
    call_frames: usize,
    /// Pause after a system call, at most the time in which a maximum burst becomes due (ns).
    pause_ns: u64,
    called_ns: u64,
    handed_bytes: u64,
    filler: Option<Filler>,
    in_stalls: Vec<Moment>,
    noted_stalls: u64,
    last: Moment,
    looked_ns: u64,
}

impl<'a> Sender<'a> {
    /// Prepare a sender: write the part that all frames share to the port's buffers. `stalled` is set at each stall.
    pub fn new(
        port: &'a mut dyn TxPort,
        plan: &'a Plan,
        clock: StampClock,
        stop: &'a AtomicBool,
        stalled: &'a AtomicBool,
    ) -> Result<Self, PortError> {
        // Buffers of the port's maximum length hold every frame of the plan, as checked before the trial.
        port.prime(&mut |buffer| {
            plan.contents.prime(buffer);
        });
        let (before, call_frames) = (port.stats()?, port.call_frames());
        let pause_ns = port.call_gap_ns().min(plan.burst_span().0);
        let eye = ThreadEye::of_this_thread();
        let last = eye.look();
        let rest = thread::is_real_time().then(|| Rest::new(clock::now_ns(), plan.late_limit().0));
        let (handed_bytes, noted_stalls, in_stalls) = (0, 0, Vec::with_capacity(64));
        Ok(Self {
            port,
            plan,
            clock,
            stop,
            stalled,
            eye,
            before,
            held: 0,
            rest,
            call_frames,
            pause_ns,
            called_ns: 0,
            handed_bytes,
            filler: plan.gaps().map(|gaps| Filler::new(gaps, plan.own_mac)),
            in_stalls,
            noted_stalls,
            last,
            looked_ns: 0,
        })
    }

    /// Send in a trial that starts at `start` until the generator is done or `stop` is set; then wait up to
    /// `patience` for each frame that the interface has not accepted, because some are counted only after the peer
    /// has processed them.
    pub fn run(
        mut self,
        mut generator: Generator,
        start: Nanos,
        mut departures: Option<Departures>,
        patience: Nanos,
    ) -> Result<Sent, PortError> {
        let (begin, first) = (generator.pacer().due(), self.last);
        let mut slices = Slices::new(start, generator.pacer().end().since(start));
        let mut now = Nanos(self.clock.now_ns());
        let mut looked = now;
        // Relaxed: the value is only a flag, which publishes no other data.
        while !self.stop.load(Ordering::Relaxed) {
            let Burst { decision, granted, taken } = self.burst(&mut generator, &mut slices, now)?;
            if let Some(departures) = departures.as_mut().filter(|_| taken > 0) {
                departures.note(now, taken);
            }
            match decision {
                Decision::Send if granted > 0 => {}
                Decision::Send => {
                    generator.note_blocked();
                    self.release()?;
                    now = Nanos(self.clock.now_ns());
                }
                Decision::Wait(until) => {
                    looked = now;
                    now = self.wait(until, generator.pacer().due())?;
                }
                Decision::Done => break,
            }
            let stall_count = generator.pacer().stats().stall_count;
            if stall_count > self.noted_stalls {
                self.noted_stalls = stall_count;
                self.note_stall(now.0);
            }
        }
        let port = self.settle(patience)?;
        self.note_stall(u64::MAX);
        let used = self.last.since(first);
        let Self { plan, handed_bytes, filler, in_stalls, before, .. } = self;
        let books = finish(generator, plan, looked, now);
        Ok(Sent {
            books,
            handed_bytes,
            gap_frames: filler.map_or(0, |filler| filler.frames),
            before,
            port,
            begin_ns: begin.0,
            end_ns: clock::now_ns(),
            used,
            in_stalls,
            slices,
            departures,
        })
    }

    /// Send the frames due at `now`, as far as there is room.
    #[inline]
    fn burst(
        &mut self,
        generator: &mut Generator,
        slices: &mut Slices,
        now: Nanos,
    ) -> Result<Burst, PortError> {
        if self.filler.is_some() {
            return self.full_burst(generator, slices, now);
        }
        let mut batch = reserve(self.port, self.plan.max_burst());
        let (granted, mut taken) = (batch.granted(), 0);
        let decision = loop {
            let decision = generator.poll(now);
            if decision != Decision::Send || taken == granted {
                break decision;
            }
            let plan = generator.take(now);
            slices.note(plan.tx_time);
            let bytes = self.plan.contents.bytes(plan.size);
            let buffer = batch.frame(taken, bytes);
            // Sizes and flows of the plan are those of its template, and buffers have the requested length, so this
            // cannot fail.
            let _ = self.plan.contents.emit_primed(&plan, buffer);
            self.handed_bytes += bytes as u64 + u64::from(iolab_frame::FCS_BYTES);
            taken += 1;
        };
        if taken > 0 {
            batch.commit(taken);
            self.held += taken;
            if self.held >= self.call_frames {
                self.release()?;
            }
        }
        Ok(Burst { decision, granted, taken: u32::try_from(taken).unwrap_or(u32::MAX) })
    }

    /// Flush the committed frames.
    fn release(&mut self) -> Result<(), PortError> {
        self.held = 0;
        self.port.flush()
    }

    /// Wait until `until`, busy except for long waits and naps; no frame is late before `due`. Frames are held back
    /// only if there is no wait.
    fn wait(&mut self, until: Nanos, due: Nanos) -> Result<Nanos, PortError> {
        let mut now_ns = self.clock.now_ns();
        if until.0 > now_ns && self.held > 0 {
            self.release()?;
            now_ns = self.clock.now_ns();
            self.called_ns = now_ns;
        }
        let until = until.max(Nanos(self.called_ns + self.pause_ns));
        if let Some(nap_ns) = self.nap(now_ns, until.0, due.0) {
            return Ok(Nanos(self.sleep(now_ns, nap_ns)));
        }
        while now_ns < until.0 && !self.stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
            now_ns = self.clock.now_ns();
        }
        Ok(Nanos(now_ns))
    }

    /// Return the length of a sleep before `until_ns`: most of a long wait, or an occasional nap.
    #[inline]
    fn nap(&self, now_ns: u64, until_ns: u64, due_ns: u64) -> Option<u64> {
        let margin_ns = if self.rest.is_some() { REAL_TIME_MARGIN_NS } else { MARGIN_NS };
        if until_ns > now_ns + 2 * margin_ns {
            // Limited, so that `stop` is checked regularly.
            return Some((until_ns - now_ns - margin_ns).min(10_000_000));
        }
        // The thread takes no naps while frames are overdue.
        self.rest.as_ref().filter(|_| due_ns > now_ns)?.due(now_ns, until_ns.saturating_sub(now_ns))
    }

    /// Sleep, measure the actual length, and return the time afterwards.
    ///
    /// A thread that never sleeps is throttled by the kernel (see `rest`), and one that busy-waits for milliseconds
    /// would take a CPU from the system under test. No event needs to wake the thread: the next frame depends on the
    /// clock only.
    fn sleep(&mut self, begin_ns: u64, asked_ns: u64) -> u64 {
        let before_ns = self.rest.as_ref().map(|_| clock::thread_ns());
        std::thread::sleep(std::time::Duration::from_nanos(asked_ns));
        let end_ns = self.clock.now_ns();
        if let (Some(rest), Some(before_ns)) = (&mut self.rest, before_ns) {
            let run_ns = clock::thread_ns().saturating_sub(before_ns);
            rest.slept(Nap { asked_ns, begin_ns, end_ns, run_ns });
        }
        end_ns
    }

    #[cold]
    fn note_stall(&mut self, now_ns: u64) {
        let mut used = Moment::default();
        if now_ns.saturating_sub(self.looked_ns) > LOOK_NS {
            let seen = self.eye.look();
            used = seen.since(self.last);
            (self.last, self.looked_ns) = (seen, now_ns);
        }
        if self.in_stalls.len() < STALL_LOG_ENTRIES {
            self.in_stalls.push(used);
        }
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// Wait until the interface has accepted or finally refused the pending frames.
    fn settle(&mut self, patience: Nanos) -> Result<TxStats, PortError> {
        let mut tries = 0;
        let mut left = u64::MAX;
        let mut deadline_ns = 0;
        loop {
            self.port.flush()?;
            let now = self.port.stats()?;
            if now.pending_frames < left {
                (left, tries, deadline_ns) = (now.pending_frames, 0, clock::now_ns() + patience.0);
            }
            tries += 1;
            let over = tries > SETTLE_TRIES && clock::now_ns() > deadline_ns;
            if left == 0 || over || self.stop.load(Ordering::Relaxed) {
                return Ok(since(now, self.before));
            }
        }
    }
}

impl Sent {
    /// Add the result of a different thread of the same sender.
    pub fn merge(&mut self, other: Self) {
        self.books.merge(other.books);
        self.handed_bytes += other.handed_bytes;
        self.gap_frames += other.gap_frames;
        self.port = plus(self.port, other.port);
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.slices.merge(&other.slices);
    }

    /// Read the port counters again after the drain: frames that were pending when the sender stopped may have left
    /// since.
    pub fn read_again(&mut self, port: &mut dyn TxPort) -> Result<(), PortError> {
        self.port = since(port.stats()?, self.before);
        Ok(())
    }
}

/// Return the counters between `before` and `now`; pending frames are those of `now`.
const fn since(mut now: TxStats, before: TxStats) -> TxStats {
    now.committed_frames = now.committed_frames.saturating_sub(before.committed_frames);
    now.accepted_frames = now.accepted_frames.saturating_sub(before.accepted_frames);
    now.refused_frames = now.refused_frames.saturating_sub(before.refused_frames);
    now.discarded_frames = now.discarded_frames.saturating_sub(before.discarded_frames);
    now.invalid_frames = now.invalid_frames.saturating_sub(before.invalid_frames);
    now.busy_answers = now.busy_answers.saturating_sub(before.busy_answers);
    now.kicks = now.kicks.saturating_sub(before.kicks);
    now
}

/// Return the sum of the counters of two ports.
const fn plus(mut one: TxStats, other: TxStats) -> TxStats {
    one.committed_frames += other.committed_frames;
    one.accepted_frames += other.accepted_frames;
    one.refused_frames += other.refused_frames;
    one.discarded_frames += other.discarded_frames;
    one.invalid_frames += other.invalid_frames;
    one.pending_frames += other.pending_frames;
    one.busy_answers += other.busy_answers;
    one.kicks += other.kicks;
    one
}

/// Close the counts. The pacer is not polled after a stall that lasts beyond the end of the trial, and ignores the
/// end when it shifts its schedule: this function corrects the shifts so that they account for exactly the frames
/// that were not sent.
fn finish(generator: Generator, plan: &Plan, looked: Nanos, now: Nanos) -> GeneratorReport {
    let (due, end) = (generator.pacer().due(), generator.pacer().end());
    let mut books = generator.finish();
    let pacing = &mut books.pacing;
    let (cut, over) = (end.since(due), due.since(end).min(pacing.slipped));
    if now < end || pacing.unsent_frames == 0 {
        return books;
    }
    pacing.slipped = pacing.slipped.plus(cut).since(over);
    let late = now.since(due);
    match pacing.stalls.last_mut().filter(|last| last.end == now) {
        Some(last) => {
            last.slipped = last.slipped.plus(cut).since(over);
            last.late = last.late.max(late);
        }
        None if late > plan.stall_threshold() && cut > Nanos::ZERO => {
            pacing.stall_count += 1;
            if pacing.stalls.len() < STALL_LOG_ENTRIES {
                let cause = StallCause::NotAsked;
                pacing.stalls.push(StallEntry { begin: looked, end: now, late, slipped: cut, cause });
            }
        }
        None => {}
    }
    books
}
