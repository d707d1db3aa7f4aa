//! The thread of an emulated link: it forwards frames in both directions and processes requests.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use iolab_engine::Nanos;
use iolab_port::{End, PortError};
use iolab_protocol::wire::WayCounts;
use iolab_sys::clock::{self, StampClock};
use iolab_sys::{socket, thread};

use super::desk::{Letter, Letters};
use super::guard::{Guard, Pulse};
use super::pressure::Pressure;
use super::shift::{Shift, Turn};
use super::stalls::Stalls;
use super::steering::{Passed, Steering};
use super::way::Way;
use crate::rest::{Nap, Rest};

/// Time before a due frame at which the thread wakes up and starts to poll, because wakeups are late (ns).
const AWAKE_NS: u64 = 60_000;
/// Polling time after the last frame, so that the next frame is stamped on arrival and not after a wakeup (ns).
const POLL_NS: u64 = 20_000;
/// Time before a due frame in which the thread only reads the clock: a poll for frames costs a system call, and
/// frames are stamped on arrival (ns).
const CLOSE_NS: u64 = 3_000;
/// Maximum sleep without frames in flight (ns).
const SLEEP_NS: u64 = 1_000_000_000;

/// Maximum number of frames read at once.
const READ_BATCH: usize = 16;
/// Maximum number of frames sent at once: several super-frames.
const GIVE_BATCH: usize = 512;
/// Duration of reading a frame: a frame due within this time is sent first (ns).
const READ_NS: u64 = 1_500;
/// Maximum number of frames read at once if frames are spaced.
const SPACED_READ_BATCH: usize = 4;
/// Maximum time for which the unspaced direction waits for a gap between spaced frames (ns).
const PATIENCE_NS: u64 = 100_000;
/// Interval between polls for frames that can wait: each poll moves the cache lines of the TAP ring from the CPU that
/// fills it (ns).
const LOOK_NS: u64 = 8_000;
/// Minimum gap for a sleep before a spaced frame: in a shorter gap the wakeup latency would take too much time (ns).
const SPACED_GAP_NS: u64 = 300_000;
/// Interval between polls for frames to be spaced, which are stamped on arrival (ns).
const LOOK_SPACED_NS: u64 = 2_000;
/// Under CPU pressure: minimum gap for a sleep, wakeup time before a due frame, and maximum sleep (ns).
const SHARED_GAP_NS: u64 = 40_000;
const SHARED_AWAKE_NS: u64 = 20_000;
const SHARED_SLEEP_NS: u64 = 60_000;

/// CPU and priority of the thread.
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    /// CPU to which the thread is pinned; none for any CPU.
    pub cpu: Option<usize>,
    /// Real-time priority; none for normal priority.
    pub priority: Option<u8>,
}

impl Seat {
    /// Apply CPU and priority to the calling thread. If the priority cannot be set, return the reason; the thread may
    /// run without it.
    ///
    /// # Errors
    /// Fails if the CPU does not exist.
    pub fn take(self) -> io::Result<Option<String>> {
        let single = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        self.cpu.map_or(Ok(()), thread::pin)?;
        thread::exact_timers()?;
        let Some(priority) = self.priority else { return Ok(None) };
        if single {
            return Ok(Some("real-time priority: it has one CPU, which others need, too".to_owned()));
        }
        let refused = |error: io::Error| format!("real-time priority: {error}");
        Ok(thread::prioritise(priority).err().map(refused))
    }
}

fn take_turn(turn: Turn, priority: u8) -> io::Result<()> {
    match turn {
        Turn::AmongOthers => thread::among_others(),
        Turn::RealTime => thread::prioritise(priority),
    }
}

/// The state of the thread.
pub struct Work {
    // The port's programs must be detached before the taps are removed.
    guard: Option<Guard>,
    ends: [End; 2],
    ways: [Way; 2],
    letters: Letters,
    clock: StampClock,
    /// Naps of a real-time thread.
    rest: Option<Rest>,
    pressure: Pressure,
    steering: Option<Steering>,
    stalls: Stalls,
    /// Time of the next poll for frames that can wait (ns).
    look_ns: u64,
    /// Whether a direction spaces its frames.
    spaced: bool,
}

/// Return the source and destination end of a direction.
fn from_to(ends: &mut [End; 2], way: usize) -> (&mut End, &mut End) {
    let [first, second] = ends;
    if way == 0 {
        (first, second)
    } else {
        (second, first)
    }
}

impl Work {
    /// Create the state for forwarding between two ends, which may be the taps of a guarded port.
    pub fn new(
        ends: [End; 2],
        guard: Option<Guard>,
        ways: [Way; 2],
        steering: Option<Steering>,
        letters: Letters,
    ) -> Self {
        Self {
            guard,
            ends,
            ways,
            letters,
            clock: StampClock::new(),
            rest: None,
            pressure: Pressure::new(),
            steering,
            stalls: Stalls::new(clock::now_ns()),
            look_ns: 0,
            spaced: false,
        }
    }

    /// Run until a stop request.
    pub fn run(mut self) -> Result<(), String> {
        let mut now_ns = self.clock.now_ns();
        let (mut idle_since_ns, priority) = (now_ns, thread::priority());
        let mut shift = priority.map(|priority| (Shift::new(now_ns, clock::thread_ns()), priority));
        self.rest = priority.map(|_| Rest::new(now_ns, 0)); // a nap makes no frame late
        loop {
            now_ns = self.clock.now_ns();
            if let Some((Some(turn), priority)) =
                shift.as_mut().map(|(shift, own)| (shift.change(now_ns, clock::thread_ns), *own))
            {
                take_turn(turn, priority).map_err(|error| format!("changing its priority: {error}"))?;
                now_ns = self.clock.now_ns();
                self.stalls.waited(now_ns); // other tasks may have waited for the change
            }
            if let Some(steering) = &mut self.steering {
                let [there, back] = self.ways.each_ref().map(Way::passed);
                let ends =
                    || [(there.0, back.1), (back.0, there.1)].map(|(sent, given)| Passed { sent, given });
                steering.look(now_ns, ends).map_err(|error| format!("setting CPUs for frames: {error}"))?;
            }
            if self.letters.waiting.load(Ordering::Acquire) {
                self.stalls.waited(now_ns);
                if self.open().map_err(|error| error.to_string())? {
                    return Ok(());
                }
                self.stalls.skip(self.clock.now_ns());
            }
            self.pulse(now_ns).map_err(|error| error.to_string())?;
            if self.carry().map_err(|error| error.to_string())? > 0 {
                idle_since_ns = self.clock.now_ns();
            } else {
                self.rest(idle_since_ns).map_err(|error| format!("waiting for frames: {error}"))?;
            }
        }
    }

    /// Send the heartbeat of a port. After a stall, drop the frames that are too late first: new frames pass without the
    /// link until the heartbeat resumes.
    fn pulse(&mut self, now_ns: u64) -> Result<(), PortError> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        if guard.pulse(now_ns) == Pulse::Lapsed {
            for (end, way) in self.ends.iter_mut().zip(&mut self.ways) {
                way.drop_stale(end, now_ns)?;
            }
            guard.beat(self.clock.now_ns());
        }
        Ok(())
    }

    /// Send due frames first, then read: a poll for frames costs system calls, and frames are stamped on arrival.
    fn carry(&mut self) -> Result<usize, PortError> {
        if self.spaced {
            return self.carry_spaced();
        }
        let [first, second] = &mut self.ends;
        let [there, back] = &mut self.ways;
        let clock = &mut self.clock;
        let given = there.give(second, clock, GIVE_BATCH)? + back.give(first, clock, GIVE_BATCH)?;
        let now_ns = clock.now_ns();
        if now_ns < self.look_ns && there.can_wait(now_ns) && back.can_wait(now_ns) {
            return Ok(given);
        }
        let taken = there.take(first, clock, READ_BATCH)? + back.take(second, clock, READ_BATCH)?;
        self.look_ns = now_ns + LOOK_NS;
        Ok(given + taken)
    }

    /// Forward spaced frames first, and other frames one by one between them: a frame that is sent runs through the
    /// far end's stack, including replies, before the thread regains its CPU.
    fn carry_spaced(&mut self) -> Result<usize, PortError> {
        let clock = &mut self.clock;
        let mut done = 0;
        let mut due = Nanos::MAX;
        for (place, way) in self.ways.iter_mut().enumerate().filter(|(_, way)| way.spaces()) {
            let (from, to) = from_to(&mut self.ends, place);
            self.stalls.waited(clock.now_ns());
            done += way.give(to, clock, 1)?;
            self.stalls.called(clock.now_ns());
            if way.leaves().is_none_or(|due| due.0 > clock.now_ns() + READ_NS) {
                done += way.take(from, clock, SPACED_READ_BATCH)?;
                self.stalls.called(clock.now_ns());
            }
            due = due.min(way.due().unwrap_or(Nanos::MAX));
        }
        let now_ns = clock.now_ns();
        if due.0 <= now_ns + CLOSE_NS && now_ns < self.look_ns {
            return Ok(done);
        }
        for (place, way) in self.ways.iter_mut().enumerate().filter(|(_, way)| !way.spaces()) {
            let (from, to) = from_to(&mut self.ends, place);
            done += way.take(from, clock, 1)?;
            self.stalls.called(clock.now_ns());
            done += way.give(to, clock, 1)?;
            self.stalls.called(clock.now_ns());
        }
        self.look_ns = now_ns + PATIENCE_NS;
        Ok(done)
    }

    /// Wait while no frame is due: poll if the next frame is due soon, else sleep.
    fn rest(&mut self, idle_since_ns: u64) -> io::Result<()> {
        let now = self.clock.now_ns();
        let due = self.ways.iter().filter_map(Way::due).min();
        if let Some(due) = due.filter(|due| due.0 <= now + CLOSE_NS) {
            self.wait_awake(now, due.0);
            return Ok(());
        }
        let gap_ns = due.map_or(SLEEP_NS, |due| due.since(Nanos(now)).0.min(SLEEP_NS));
        // Before a spaced frame, sleep only as long as recent wakeup latencies make safe.
        let exact = self.spaced && due.is_some() && self.rest.is_some();
        if !exact && gap_ns > SHARED_GAP_NS && self.rest.is_some() && self.pressure.others_wait(now) {
            return self.share(now, gap_ns);
        }
        if !exact && gap_ns > AWAKE_NS && now >= idle_since_ns + POLL_NS {
            return self.sleep(now, if due.is_some() { gap_ns - AWAKE_NS } else { SLEEP_NS });
        }
        let span_ns = if exact { gap_ns } else { gap_ns.min(POLL_NS) };
        let may_sleep = !exact || gap_ns >= SPACED_GAP_NS;
        if let Some(nap_ns) = self.rest.as_ref().filter(|_| may_sleep).and_then(|rest| rest.due(now, span_ns))
        {
            self.sleep(now, nap_ns)
        } else {
            self.wait_awake(now, if self.spaced { now + gap_ns.min(LOOK_SPACED_NS) } else { now });
            Ok(())
        }
    }

    /// Read only the clock until `until_ns`; `now_ns` is the last reading.
    fn wait_awake(&mut self, mut now_ns: u64, until_ns: u64) {
        while now_ns < until_ns {
            std::hint::spin_loop();
            now_ns = self.clock.now_ns();
            self.stalls.waited(now_ns);
        }
    }

    /// Leave the CPU to waiting tasks: frames that can wait are read together later.
    fn share(&mut self, now_ns: u64, gap_ns: u64) -> io::Result<()> {
        let asked_ns = (gap_ns - SHARED_AWAKE_NS).min(SHARED_SLEEP_NS);
        if gap_ns < SLEEP_NS && self.ways.iter().all(|way| way.can_wait(now_ns)) {
            std::thread::sleep(std::time::Duration::from_nanos(asked_ns));
            self.stalls.skip(self.clock.now_ns());
            return Ok(());
        }
        self.sleep(now_ns, if gap_ns < SLEEP_NS { gap_ns - SHARED_AWAKE_NS } else { gap_ns })
    }

    /// Sleep until a frame or a request arrives, at most for `asked_ns`, and record the actual length.
    fn sleep(&mut self, begin_ns: u64, asked_ns: u64) -> io::Result<()> {
        if self.ends.iter().any(End::has_more) {
            return Ok(());
        }
        let fds = [self.ends[0].fd(), self.ends[1].fd(), self.letters.bell.as_raw_fd()];
        let asked_ns = if self.guard.is_some() { asked_ns.min(Guard::SLEEP_NS) } else { asked_ns };
        let before_ns = self.rest.as_ref().map(|_| clock::thread_ns());
        self.stalls.waited(self.clock.now_ns());
        let found = socket::wait_readable_ns(&fds, asked_ns)?;
        let woken_ns = self.clock.now_ns();
        let over_ns = if found { 0 } else { woken_ns.saturating_sub(begin_ns + asked_ns) };
        self.stalls.slept(woken_ns, over_ns);
        if let (Some(rest), Some(before_ns)) = (&mut self.rest, before_ns) {
            let end_ns = self.clock.now_ns();
            let asked_ns = if found { end_ns.saturating_sub(begin_ns).min(asked_ns) } else { asked_ns };
            let run_ns = clock::thread_ns().saturating_sub(before_ns);
            rest.slept(Nap { asked_ns, begin_ns, end_ns, run_ns });
        }
        Ok(())
    }

    /// Process the queued requests; return whether to stop.
    fn open(&mut self) -> Result<bool, PortError> {
        self.letters.waiting.store(false, Ordering::Release);
        let mut bell = [0; 64];
        while matches!((&self.letters.bell).read(&mut bell), Ok(64)) {}
        while let Ok(letter) = self.letters.letters.try_recv() {
            match letter {
                Letter::Change(does, done) => {
                    self.ways.iter_mut().zip(*does).for_each(|(way, does)| way.change(does));
                    self.spaced = self.ways.iter().any(Way::spaces);
                    self.stalls.log(self.spaced, self.clock.now_ns());
                    let _ = done.send(());
                }
                Letter::RestartDraws(seeds, done) => {
                    let ways = self.ways.iter_mut().zip(seeds).zip(0..);
                    ways.for_each(|((way, seed), index)| way.restart_draws(seed, index));
                    let _ = done.send(());
                }
                Letter::Count(stalls_since_ns, answer) => {
                    let counts = [self.counts(0)?, self.counts(1)?];
                    let _ = answer.send(Box::new((counts, self.stalls.told(stalls_since_ns))));
                }
                Letter::Stop => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Return the frame counts of a direction, including the losses that only its ends count.
    fn counts(&mut self, way: usize) -> Result<WayCounts, PortError> {
        let mut counts = self.ways[way].counts();
        let (from, to) = from_to(&mut self.ends, way);
        let refused_frames = to.refused_frames()?.min(counts.left_frames);
        counts.left_frames -= refused_frames;
        counts.refused_frames += refused_frames;
        counts.unread_frames = from.unread_frames()?;
        counts.bypassed_packets = self.guard.as_ref().map_or(0, |guard| guard.bypassed_packets()[way]);
        Ok(counts)
    }
}
