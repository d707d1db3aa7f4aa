//! The sending loop: asks the generator, fills buffers of the port, waits for the next frame's time.

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

/// At the end the interface is asked at least so often whether it takes one more frame of those that were handed over: this
/// thread may not have been awake meanwhile.
const SETTLE_TRIES: u32 = 100;
/// Only waits at least twice as long are slept through, and only to so much before their end: real-time threads are woken within
/// 0.2 ms, others when the scheduler comes to it.
const MARGIN_NS: u64 = 1_000_000;
const REAL_TIME_MARGIN_NS: u64 = 250_000;

/// The kernel is asked at most so often what the thread used: it takes some microseconds, and a sender that is asked for more
/// than it can send stalls at every call.
const LOOK_NS: u64 = 1_000_000;

/// What one sending thread did.
#[derive(Debug)]
pub struct Sent {
    /// The engine's books.
    pub books: GeneratorReport,
    /// Bytes of all frames handed over, with FCS.
    pub handed_bytes: u64,
    /// Gap frames handed over between them.
    pub gap_frames: u64,
    /// What the port counted before this trial.
    before: TxStats,
    /// What the port counted in this trial.
    pub port: TxStats,
    /// When the first frame was due (ns).
    pub begin_ns: u64,
    /// When it ended (ns).
    pub end_ns: u64,
    /// What its thread used.
    pub used: Moment,
    /// What its thread used in each stall.
    pub in_stalls: Vec<Moment>,
    /// Frames handed over, by the part of the trial.
    pub slices: Slices,
    /// When they left, where the threads are several.
    pub departures: Option<Departures>,
}

/// What became of the frames that were due at one time.
struct Burst {
    /// What is to be done next.
    decision: Decision,
    /// How many buffers there were.
    granted: usize,
    /// How many were filled.
    taken: u32,
}

/// One thread at work.
pub struct Sender<'a> {
    port: &'a mut dyn TxPort,
    plan: &'a Plan,
    clock: StampClock,
    stop: &'a AtomicBool,
    stalled: &'a AtomicBool,
    eye: ThreadEye,
    before: TxStats,
    /// Committed, and not yet shown to the kernel.
    held: usize,
    /// Its naps, if it is a real-time thread.
    rest: Option<Rest>,
    /// So many may be held back while the schedule is behind anyway.
    call_frames: usize,
    /// The next frames are not looked at sooner than this after a call, as far as they may leave together.
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
    /// Prepare: write into the port's buffers what all frames have in common. `stalled` is set at each stall.
    pub fn new(
        port: &'a mut dyn TxPort,
        plan: &'a Plan,
        clock: StampClock,
        stop: &'a AtomicBool,
        stalled: &'a AtomicBool,
    ) -> Result<Self, PortError> {
        // A buffer as long as the port's longest frame holds every frame of the plan: the trial checked that.
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

    /// Send in a trial that begins at `start` until the generator has nothing left or `stop` is set; then wait as long as
    /// `patience` for each frame that the interface has not taken: some are known to be taken only when the other end has looked.
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
        // Relaxed: only a flag, nothing is published through it.
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

    /// Hand over what is due at `now`, as far as there is room.
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
            // Sizes and flows of the plan are those of its template, and buffers are as long as asked: it cannot fail.
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

    /// Let the frames go that were committed.
    fn release(&mut self) -> Result<(), PortError> {
        self.held = 0;
        self.port.flush()
    }

    /// Wait until `until`, awake but for long times and naps; no frame is late before `due`. Frames are held back only while there is nothing to wait for.
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

    /// How long to sleep before `until_ns`: through most of a long wait, and now and then a moment.
    #[inline]
    fn nap(&self, now_ns: u64, until_ns: u64, due_ns: u64) -> Option<u64> {
        let margin_ns = if self.rest.is_some() { REAL_TIME_MARGIN_NS } else { MARGIN_NS };
        if until_ns > now_ns + 2 * margin_ns {
            // Never for long at a time: `stop` must be seen.
            return Some((until_ns - now_ns - margin_ns).min(10_000_000));
        }
        // While it catches up, every moment counts.
        self.rest.as_ref().filter(|_| due_ns > now_ns)?.due(now_ns, until_ns.saturating_sub(now_ns))
    }

    /// Sleep, and note how long it really was; return the time after that.
    ///
    /// A thread that never sleeps is throttled by the kernel (see `rest`), and one that waits for milliseconds would keep a CPU
    /// from what is measured. No event could wake it: the next frame is due by the clock alone.
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

    /// Wait until the interface has taken what it will take.
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
    /// Add what another thread of the same sender did.
    pub fn merge(&mut self, other: Self) {
        self.books.merge(other.books);
        self.handed_bytes += other.handed_bytes;
        self.gap_frames += other.gap_frames;
        self.port = plus(self.port, other.port);
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.slices.merge(&other.slices);
    }

    /// Read the port once more, behind the barrier: what waited there when the sender ended may have left since.
    pub fn read_again(&mut self, port: &mut dyn TxPort) -> Result<(), PortError> {
        self.port = since(port.stats()?, self.before);
        Ok(())
    }
}

/// What was counted between `before` and `now`; what is pending is so now.
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

/// What two ports counted.
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

/// Close the books. The pacer is asked nothing any more when a stall lasts over the trial's end, and does not know of that
/// end when it shifts its schedule: its shifts are made to account for exactly the frames that did not leave.
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
