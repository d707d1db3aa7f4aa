//! The run of one trial: validate the parameters, start all threads together, monitor them, and combine their
//! results.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use iolab_engine::{Departures, Nanos, Receiver, Share};
use iolab_port::PortError;
use iolab_protocol::traffic::{TrafficRan, TrafficRun};
use iolab_protocol::{ErrorCode, ErrorObject};
use iolab_sys::clock::{self, StampClock};

use crate::cast::{Cast, ReceiverRole, SenderRole};
use crate::contents::Recordings;
use crate::faults::port_refused;
use crate::observe::StealLog;
use crate::ports::{lock, OpenPort};
use crate::receive::{Listener, Phase, Received};
use crate::report::{self, Books};
use crate::send::{Sender, Sent};

/// Time from the readiness of all threads to the first frame (ns).
const LEAD_NS: u64 = 1_000_000;
/// Interval of monitoring the trial, and the number of intervals between readings of steal time without stalls.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_PER_READING: u32 = 10;

/// Run the trial `params` through `ports`; `stop` ends it at once.
pub fn run(
    ports: &[OpenPort],
    params: &TrafficRun,
    recordings: &Recordings,
    clock: &StampClock,
    stop: &AtomicBool,
) -> Result<TrafficRan, ErrorObject> {
    let begin_ns = clock::now_ns();
    let cast = Cast::new(ports, params, recordings)?;
    let books = perform(&cast, clock, stop)?;
    let (senders, receivers) = report::assemble(&cast, params, books)?;
    // Relaxed: the value is only a flag.
    let ended_early = stop.load(Ordering::Relaxed);
    let shared_cpus = cast.shared_cpus();
    Ok(TrafficRan { begin_ns, end_ns: clock::now_ns(), ended_early, senders, receivers, shared_cpus })
}

/// Start all threads, synchronize their start, and wait for their results.
fn perform(cast: &Cast<'_>, clock: &StampClock, stop: &AtomicBool) -> Result<Books, ErrorObject> {
    let accounts = cast.receivers.iter().map(ReceiverRole::account).collect::<Result<Vec<_>, _>>()?;
    let stage = Stage::new();
    let mut steal = StealLog::default();
    steal.read();
    thread::scope(|scope| {
        let stage = &stage;
        let receiving: Vec<_> = (cast.receivers.iter().zip(accounts))
            .map(|(role, account)| {
                let work = move || listen(role, account, clock.clone(), stage);
                spawn(scope, (stage, &stage.listeners_ended), role.port, work)
            })
            .collect();
        let shares = cast.senders.iter().flat_map(|role| role.plan.shares().map(move |share| (role, share)));
        let sending: Vec<_> = shares
            .map(|(role, share)| {
                let work = move || send(role, share, clock.clone(), stage);
                spawn(scope, (stage, &stage.senders_ended), role.port, work)
            })
            .collect();
        stage.begin(sending.len() + receiving.len());
        stage.look_after(&stage.senders_ended, sending.len(), stop, &mut steal);
        stage.phase.drain();
        stage.look_after(&stage.listeners_ended, receiving.len(), stop, &mut steal);
        let sent: Result<Vec<_>, _> = sending.into_iter().map(Thread::end).collect();
        let received: Result<Vec<_>, _> = receiving.into_iter().map(Thread::end).collect();
        steal.read();
        let mut threads = sent?.into_iter();
        let sent =
            cast.senders.iter().map(|role| read_again(role, &mut threads)).collect::<Result<_, _>>()?;
        Ok(Books { sent, received: received?, steal })
    })
}

/// Return the results of one sender's threads, after reading their port counters again.
fn read_again(
    role: &SenderRole<'_>,
    threads: &mut impl Iterator<Item = Sent>,
) -> Result<Vec<Sent>, ErrorObject> {
    let mut all: Vec<_> = threads.take(role.port.tx.len()).collect();
    for (half, sent) in role.port.tx.iter().zip(&mut all) {
        if let Some(port) = lock(half).as_deref_mut() {
            let doing = "reading a port behind the barrier";
            sent.read_again(port)
                .map_err(|error| port_refused(doing, &role.port.params.interface, &error))?;
        }
    }
    Ok(all)
}

/// The synchronization of the threads.
struct Stage {
    ready: AtomicUsize,
    senders_ended: AtomicUsize,
    listeners_ended: AtomicUsize,
    /// Due time of the first frame; 0 until it is set.
    start_ns: AtomicU64,
    /// Whether senders must stop, or not start.
    halt: AtomicBool,
    stalled: AtomicBool,
    phase: Phase,
    director: thread::Thread,
}

impl Stage {
    fn new() -> Self {
        Self {
            ready: AtomicUsize::new(0),
            senders_ended: AtomicUsize::new(0),
            listeners_ended: AtomicUsize::new(0),
            start_ns: AtomicU64::new(0),
            halt: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            phase: Phase::default(),
            director: thread::current(),
        }
    }

    // All flags are relaxed: they publish no data; results are read after the threads were joined.

    /// Stop all threads now.
    fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
        self.phase.stop();
    }

    /// Report that the calling thread is ready, and wait for the start time; return none if the trial is cancelled.
    fn wait_for_start(&self) -> Option<Nanos> {
        self.ready.fetch_add(1, Ordering::Relaxed);
        self.director.unpark();
        while !self.halt.load(Ordering::Relaxed) {
            match self.start_ns.load(Ordering::Relaxed) {
                0 => thread::sleep(Duration::from_micros(50)),
                start_ns => return Some(Nanos(start_ns)),
            }
        }
        None
    }

    /// Set the start time as soon as all `threads` threads are ready.
    fn begin(&self, threads: usize) {
        while self.ready.load(Ordering::Relaxed) < threads && !self.halt.load(Ordering::Relaxed) {
            thread::park_timeout(LOOK);
        }
        self.start_ns.store(clock::now_ns() + LEAD_NS, Ordering::Relaxed);
    }

    /// Wait until `all` threads have `ended`. Read steal time during the wait: often if threads stall, else rarely,
    /// because a reading briefly takes a CPU from the threads.
    fn look_after(&self, ended: &AtomicUsize, all: usize, stop: &AtomicBool, steal: &mut StealLog) {
        let mut looks = 0;
        while ended.load(Ordering::Relaxed) < all {
            thread::park_timeout(LOOK);
            if stop.load(Ordering::Relaxed) {
                self.halt();
            }
            looks += 1;
            if self.stalled.swap(false, Ordering::Relaxed) || looks % LOOKS_PER_READING == 0 {
                steal.read();
            }
        }
    }
}

/// The reason why a thread has no result.
enum Failure {
    Off,
    Pin(usize, std::io::Error),
    Priority(u8, std::io::Error),
    Start(std::io::Error),
    Port(PortError),
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// A thread of a trial.
struct Thread<'scope, T> {
    handle: Result<ScopedJoinHandle<'scope, Result<T, Failure>>, std::io::Error>,
    interface: &'scope str,
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    (stage, ended): (&'scope Stage, &'scope AtomicUsize),
    port: &'scope OpenPort,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'scope,
) -> Thread<'scope, T> {
    let handle = thread::Builder::new().spawn_scoped(scope, move || {
        // The guard also runs if the work panics.
        let _end = End { stage, ended };
        let outcome = work();
        if outcome.is_err() {
            stage.halt();
        }
        outcome
    });
    if handle.is_err() {
        drop(End { stage, ended });
        stage.halt();
    }
    Thread { handle, interface: &port.params.interface }
}

/// Reports the end of a thread to the thread that directs the trial, on drop.
struct End<'scope> {
    stage: &'scope Stage,
    ended: &'scope AtomicUsize,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.stage.halt();
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.stage.director.unpark();
    }
}

impl<T> Thread<'_, T> {
    fn end(self) -> Result<T, ErrorObject> {
        let outcome = match self.handle {
            Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => Err(Failure::Start(error)),
        };
        outcome.map_err(|failure| match failure {
            Failure::Port(error) => port_refused("running a trial", self.interface, &error),
            Failure::Pin(cpu, error) => {
                let message = format!("running a trial: keeping a thread on CPU {cpu}: {error}");
                ErrorObject::refused(message, error.raw_os_error(), self.interface)
            }
            Failure::Priority(priority, error) => {
                let message = format!(
                    "running a trial: giving a thread real-time priority {priority} (1 to 99 are allowed): {error}"
                );
                ErrorObject::refused(message, error.raw_os_error(), self.interface)
            }
            Failure::Start(error) => {
                let message = format!("running a trial: starting a thread: {error}");
                ErrorObject::refused(message, error.raw_os_error(), self.interface)
            }
            Failure::Off => {
                ErrorObject::new(ErrorCode::Busy, "running a trial: it was ended before it began")
            }
        })
    }
}

/// Pin the calling thread to its CPU and set its priority.
fn place(cpu: Option<usize>, priority: Option<u8>) -> Result<(), Failure> {
    cpu.map_or(Ok(()), |cpu| iolab_sys::thread::pin(cpu).map_err(|error| Failure::Pin(cpu, error)))?;
    priority.map_or(Ok(()), |priority| {
        iolab_sys::thread::prioritise(priority).map_err(|error| Failure::Priority(priority, error))
    })
}

fn send(role: &SenderRole<'_>, share: Share, clock: StampClock, stage: &Stage) -> Result<Sent, Failure> {
    let thread = share.place as usize;
    place(role.port.send_cpus().nth(thread).flatten(), role.port.params.send_priority)?;
    let mut half = lock(&role.port.tx[thread]);
    let port = half.as_deref_mut().ok_or(Failure::Off)?;
    let sender = Sender::new(port, &role.plan, clock, &stage.halt, &stage.stalled)?;
    let start = stage.wait_for_start().ok_or(Failure::Off)?;
    // The plan created an equal generator when it was validated.
    let generator = role.plan.generator(start, share).map_err(|_| Failure::Off)?;
    // The gaps of a single thread are recorded directly; the gaps of several threads are computed from the merged
    // transmit times.
    let departures = (share.of > 1).then(|| Departures::new(start, role.plan.most_frames()));
    Ok(sender.run(generator, start, departures, role.patience)?)
}

fn listen(
    role: &ReceiverRole<'_>,
    account: Receiver,
    clock: StampClock,
    stage: &Stage,
) -> Result<Received, Failure> {
    let params = &role.port.params;
    place(params.receive_cpu, params.receive_priority)?;
    let mut half = lock(&role.port.rx);
    let port = half.as_deref_mut().ok_or(Failure::Off)?;
    let listener = Listener::new(port, account, role.manner, clock)?;
    let start = stage.wait_for_start().ok_or(Failure::Off)?;
    Ok(listener.run(start, &stage.phase)?)
}
