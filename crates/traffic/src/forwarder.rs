//! A device in user space: a separate thread receives frames from one interface and sends each to a different interface
//! at the time set by its impairment chain. Such a device serves impairments that no XDP program can implement. The
//! device forwards in one direction; two devices forward in both.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use iolab_engine::impairment::{Chain, Outcome, Passing};
use iolab_engine::Nanos;
use iolab_frame::{is_ecn_capable, mark_congestion};
use iolab_port::{
    receive, reserve, AfPacket, AfXdp, Attach, Direction, Interface, PortError, RxPort, TxPort,
};
use iolab_sys::clock::StampClock;
use iolab_sys::thread;

use crate::held::Held;
use crate::ports::lock;

/// Maximum number and total size of held frames: two seconds at 65 000 frames/s, or 42 ms of a 10 Gbit/s line with
/// frames of 1514 B.
const MOST_HELD_FRAMES: usize = 1 << 17;
const MOST_HELD_BYTES: usize = 64 << 20;
/// Maximum number of frames received or sent at once.
const BATCH: usize = 64;
/// Maximum frame length of a receiving `AF_XDP` port (bytes, without FCS).
const MOST_BYTES: usize = 4096 - 256;
/// Minimum idle time before the thread sleeps, and margin before the next due frame, because threads wake up late
/// (ns).
const SLEEP_FROM_NS: u64 = 1_000_000;
const SLEEP_MARGIN_NS: u64 = 200_000;
/// Maximum sleep before the stop flag is checked (ms).
const WAIT_MS: i32 = 2;

/// The output of a forwarder.
#[derive(Debug, Clone)]
pub struct Towards {
    /// Output interface.
    pub interface: String,
    /// New MAC addresses; none leaves the addresses unchanged.
    pub addresses: Option<Addresses>,
}

/// A source and a destination MAC address.
pub type Addresses = ([u8; 6], [u8; 6]);

/// CPU and priority of the thread.
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    /// CPU to which the thread is pinned.
    pub cpu: Option<usize>,
    /// Real-time priority.
    pub priority: Option<u8>,
}

/// The counters of the thread, which is their only writer.
#[derive(Debug, Default)]
struct Counters {
    passed_frames: AtomicU64,
    dropped_frames: AtomicU64,
}

/// A forwarding thread, which stops on drop.
#[derive(Debug)]
pub struct Forwarder {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    counters: Arc<Counters>,
    failure: Arc<Mutex<Option<PortError>>>,
    /// Reasons why faster paths were not used.
    pub fallbacks: Vec<String>,
}

impl Forwarder {
    /// Start forwarding through `chain` between two interfaces of the calling thread's namespace.
    pub fn start(
        from: &str,
        towards: &Towards,
        chain: Chain,
        attach: Attach,
        seat: Seat,
    ) -> Result<Self, PortError> {
        let most_bytes =
            |name: &str| -> Result<_, PortError> { Ok(Interface::find(name)?.most_bytes(1).min(MOST_BYTES)) };
        let frame_bytes = most_bytes(from)?.min(most_bytes(&towards.interface)?);
        // Send through AF_PACKET, because a forwarder of the reverse direction may receive through AF_XDP on the
        // output interface: a queue supports only one AF_XDP socket.
        let port = AfPacket { frame_bytes, vlan_tags: 1, ..AfPacket::new(&towards.interface) };
        let tx = port.open_tx()?;
        let port = AfXdp { frame_bytes, vlan_tags: 1, attach, ..AfXdp::new(from, Direction::Receive) };
        let rx = port.open_rx()?;
        let fallbacks = rx.path().fallbacks.clone();
        let (stop, counters, failure) = (Arc::default(), Arc::default(), Arc::default());
        let work = Work {
            rx: Box::new(rx),
            tx: Box::new(tx),
            chain,
            addresses: towards.addresses,
            held: Held::new(MOST_HELD_FRAMES, MOST_HELD_BYTES),
            clock: StampClock::new(),
            counters: Arc::clone(&counters),
        };
        let (stopped, failed) = (Arc::clone(&stop), Arc::clone(&failure));
        let (seated, whether) = std::sync::mpsc::channel();
        let run = move || {
            let outcome = seat.take();
            let taken = outcome.is_ok();
            let _ = seated.send(outcome);
            if taken {
                *lock(&failed) = work.run(&stopped).err();
            }
        };
        let starting =
            |errno| PortError::System { doing: "starting a forwarding thread", syscall: "clone", errno };
        let thread =
            std::thread::Builder::new().name("iolab-device".to_owned()).spawn(run).map_err(starting)?;
        let this = Self { thread: Some(thread), stop, counters, failure, fallbacks };
        match whether.recv() {
            Ok(Err(errno)) => {
                let doing = "keeping a forwarding thread on a CPU and giving it a priority";
                Err(PortError::System { doing, syscall: "sched_setaffinity", errno })
            }
            _ => Ok(this),
        }
    }

    /// Return the number of forwarded and of dropped frames, or the error that stopped the thread.
    pub fn counts(&self) -> Result<(u64, u64), PortError> {
        if let Some(failure) = lock(&self.failure).take() {
            return Err(failure);
        }
        // Relaxed: the two counters are independent.
        let Counters { passed_frames, dropped_frames } = &*self.counters;
        Ok((passed_frames.load(Ordering::Relaxed), dropped_frames.load(Ordering::Relaxed)))
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // Relaxed: the value is only a flag; `join` orders all other accesses.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Seat {
    fn take(self) -> std::io::Result<()> {
        self.cpu.map_or(Ok(()), thread::pin)?;
        self.priority.map_or(Ok(()), thread::prioritise)
    }
}

/// The state of the forwarding thread.
struct Work {
    rx: Box<dyn RxPort>,
    tx: Box<dyn TxPort>,
    chain: Chain,
    addresses: Option<Addresses>,
    held: Held,
    clock: StampClock,
    counters: Arc<Counters>,
}

impl Work {
    fn run(mut self, stop: &AtomicBool) -> Result<(), PortError> {
        let mut idle_since_ns = self.clock.now_ns();
        while !stop.load(Ordering::Relaxed) {
            let arrived = self.take()?;
            let left = self.give()?;
            let now_ns = self.clock.now_ns();
            if arrived + left > 0 {
                idle_since_ns = now_ns;
            } else if now_ns > idle_since_ns + SLEEP_FROM_NS {
                self.rest(now_ns)?;
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Receive and hold frames, and let the chain decide on them.
    fn take(&mut self) -> Result<usize, PortError> {
        let before = Nanos(self.clock.now_ns());
        let mut batch = receive(&mut *self.rx, BATCH)?;
        let arrived = batch.len();
        while let Some(frame) = batch.next() {
            let Some(id) = self.held.store(frame.bytes) else {
                self.counters.dropped_frames.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let with_fcs = frame.bytes.len() + usize::from(iolab_frame::FCS_BYTES);
            let frame_bytes = u32::try_from(with_fcs).unwrap_or(u32::MAX);
            let passing = Passing::new(id, frame_bytes, Nanos(frame.stamp_ns));
            self.chain.push(Passing { ecn_capable: is_ecn_capable(frame.bytes), ..passing });
        }
        if arrived < BATCH {
            // All frames that arrived before the poll have been received.
            self.chain.advance(before);
        }
        for outcome in self.chain.decided() {
            match outcome {
                Outcome::Leaves(frame) => self.held.leaves(frame),
                Outcome::Lost(frame, _) => {
                    self.held.lost(frame.id);
                    self.counters.dropped_frames.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(arrived)
    }

    /// Send the due frames.
    fn give(&mut self) -> Result<usize, PortError> {
        let ready = self.held.ready(Nanos(self.clock.now_ns()), BATCH);
        if ready == 0 {
            return Ok(0);
        }
        let mut batch = reserve(&mut *self.tx, ready);
        let granted = batch.granted();
        for index in 0..granted {
            let (frame, leaving) = self.held.frame(index);
            let place = batch.frame(index, frame.len());
            place.copy_from_slice(frame);
            if leaving.marks.congestion {
                mark_congestion(place);
            }
            if let Some(bit) = leaving.marks.corrupted_bit {
                place[bit as usize / 8] ^= 1 << (bit % 8);
            }
            if let Some((source, destination)) = self.addresses {
                place[..6].copy_from_slice(&destination);
                place[6..12].copy_from_slice(&source);
            }
        }
        batch.commit(granted);
        self.held.release(granted);
        self.tx.flush()?;
        self.counters.passed_frames.fetch_add(granted as u64, Ordering::Relaxed);
        Ok(ready)
    }

    /// Sleep after a long idle time, until a frame arrives or shortly before the next is due.
    fn rest(&mut self, now_ns: u64) -> Result<(), PortError> {
        match self.held.due().into_iter().chain(self.chain.due()).min() {
            None => self.rx.wait(WAIT_MS).map(drop),
            Some(due) if due.0 > now_ns + 2 * SLEEP_MARGIN_NS => {
                let nap_ns = (due.0 - now_ns - SLEEP_MARGIN_NS).min(SLEEP_FROM_NS);
                // A sleep without poll is sufficient: it ends before any frame is due, and frames that arrive during
                // it are queued in the ring.
                std::thread::sleep(std::time::Duration::from_nanos(nap_ns));
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}
