//! The thread of a wire: both ways, and letters from those who change and count.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use iolab_engine::Nanos;
use iolab_port::TapPort;
use iolab_protocol::wire::WayCounts;
use iolab_sys::clock::StampClock;
use iolab_sys::{socket, thread};

use super::way::{Does, Way};

/// It wakes so long before a frame is due, and polls until then: a sleeping thread is woken late [ns].
const AWAKE_NS: u64 = 60_000;
/// It polls so long after the last frame: the next is stamped when it comes, not when the thread has been woken [ns].
const POLL_NS: u64 = 20_000;
/// So close before a frame is due it looks at the clock alone: to look for frames would cost a call of the kernel, and those
/// that come are stamped [ns].
const CLOSE_NS: u64 = 3_000;
/// How long it sleeps when nothing is under way [ns].
const SLEEP_NS: u64 = 1_000_000_000;

/// What the thread is asked for.
pub enum Letter {
    /// Do this to frames that come from now on.
    Change(Box<[Does; 2]>, Sender<()>),
    /// Say what became of the frames.
    Count(Sender<Box<[WayCounts; 2]>>),
    /// End.
    Stop,
}

/// Where letters are posted.
#[derive(Debug)]
pub struct Desk {
    letters: Sender<Letter>,
    waiting: Arc<AtomicBool>,
    bell: UnixStream,
}

/// Where the thread finds them.
#[derive(Debug)]
pub struct Letters {
    letters: Receiver<Letter>,
    waiting: Arc<AtomicBool>,
    bell: UnixStream,
}

impl Desk {
    /// Both sides.
    pub fn new() -> io::Result<(Self, Letters)> {
        let (near, far) = UnixStream::pair()?;
        far.set_nonblocking(true)?;
        near.set_nonblocking(true)?;
        let ((sender, letters), waiting) = (channel(), Arc::<AtomicBool>::default());
        let inside = Letters { letters, waiting: Arc::clone(&waiting), bell: far };
        Ok((Self { letters: sender, waiting, bell: near }, inside))
    }

    /// Post a letter; the thread that has ended drops it.
    pub fn post(&self, letter: Letter) {
        let _ = self.letters.send(letter);
        // Release pairs with the Acquire of `open`: who sees it set finds the letter.
        self.waiting.store(true, Ordering::Release);
        let _ = (&self.bell).write(&[1]); // a full bell rings already
    }
}

/// What the thread works with.
pub struct Work {
    taps: [TapPort; 2],
    ways: [Way; 2],
    letters: Letters,
    clock: StampClock,
}

impl Work {
    /// Carry frames between two taps.
    pub fn new(taps: [TapPort; 2], ways: [Way; 2], letters: Letters) -> Self {
        Self { taps, ways, letters, clock: StampClock::new() }
    }

    /// Work until a letter says stop.
    pub fn run(mut self, cpu: Option<usize>) -> Result<(), String> {
        cpu.map_or(Ok(()), thread::pin).map_err(|error| format!("keeping it on a CPU: {error}"))?;
        thread::exact_timers().map_err(|error| format!("asking for exact timers: {error}"))?;
        let mut idle_since_ns = self.clock.now_ns();
        loop {
            if self.letters.waiting.load(Ordering::Acquire) && self.open() {
                return Ok(());
            }
            if self.carry().map_err(|error| error.to_string())? > 0 {
                idle_since_ns = self.clock.now_ns();
            } else {
                self.rest(idle_since_ns).map_err(|error| format!("waiting for frames: {error}"))?;
            }
        }
    }

    fn carry(&mut self) -> Result<usize, iolab_port::PortError> {
        let [first, second] = &mut self.taps;
        let [there, back] = &mut self.ways;
        let clock = &mut self.clock;
        let there = there.take(first, clock)? + there.give(second, clock)?;
        Ok(there + back.take(second, clock)? + back.give(first, clock)?)
    }

    /// Nothing can be done now: poll when that ends soon, and sleep otherwise.
    fn rest(&self, idle_since_ns: u64) -> io::Result<()> {
        let mut clock = self.clock.clone();
        let now = clock.now_ns();
        let due = self.ways.iter().filter_map(Way::due).min();
        if let Some(due) = due.filter(|due| due.0 <= now + CLOSE_NS) {
            while clock.now_ns() < due.0 {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        let sleep_ns = due.map_or(SLEEP_NS, |due| due.since(Nanos(now + AWAKE_NS)).0.min(SLEEP_NS));
        if sleep_ns == 0 || now < idle_since_ns + POLL_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        let fds = [self.taps[0].fd(), self.taps[1].fd(), self.letters.bell.as_raw_fd()];
        socket::wait_readable_ns(&fds, sleep_ns).map(drop)
    }

    /// Do what letters ask for; whether it is the end.
    fn open(&mut self) -> bool {
        self.letters.waiting.store(false, Ordering::Release);
        let mut bell = [0; 64];
        while matches!((&self.letters.bell).read(&mut bell), Ok(64)) {}
        while let Ok(letter) = self.letters.letters.try_recv() {
            match letter {
                Letter::Change(does, done) => {
                    self.ways.iter_mut().zip(*does).for_each(|(way, does)| way.change(does));
                    let _ = done.send(());
                }
                Letter::Count(answer) => {
                    let counts = [self.ways[0].counts(), self.ways[1].counts()];
                    let _ = answer.send(Box::new(counts));
                }
                Letter::Stop => return true,
            }
        }
        false
    }
}
