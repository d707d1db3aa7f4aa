//! One trial: checks it, starts its threads together, watches them, and puts their books together.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use iolab_engine::{Nanos, Receiver, ReceiverConfig};
use iolab_port::clock::{self, StampClock};
use iolab_port::PortError;
use iolab_protocol::traffic::{Checking, SharedCpu, TrafficRan, TrafficRun, Waiting};
use iolab_protocol::{ErrorCode, ErrorObject};
use iolab_wire::{Check, Inspector, FCS_BYTES};
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;

use crate::faults::{bad_params, port_refused};
use crate::frames::Plan;
use crate::observe::StealLog;
use crate::ports::{lock, OpenPort};
use crate::receive::{Listener, Manner, Phase, Received};
use crate::report;
use crate::send::{Sender, Sent};

/// From the moment all threads are ready to the first frame.
const LEAD_NS: u64 = 1_000_000;
/// How often the trial is looked after, and how often stolen time is read even if nothing stalls.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_PER_READING: u32 = 10;
/// Windows of all flows together [bits].
const WINDOW_BITS: u32 = 1 << 26;

/// A sender and its port.
pub struct SenderRole<'a> {
    pub port: &'a OpenPort,
    pub plan: Plan,
}

/// A receiver and its port.
pub struct ReceiverRole<'a> {
    pub port: &'a OpenPort,
    pub of: usize,
    pub manner: Manner,
    flow_count: u32,
}

/// Who does what in a trial.
pub struct Cast<'a> {
    pub senders: Vec<SenderRole<'a>>,
    pub receivers: Vec<ReceiverRole<'a>>,
}

/// What the threads of a trial brought back.
pub struct Books {
    pub sent: Vec<Sent>,
    pub received: Vec<Received>,
    pub steal: StealLog,
}

/// Run the trial `params` through `ports`; `stop` ends it at once.
pub fn run(
    ports: &[OpenPort],
    params: &TrafficRun,
    clock: &StampClock,
    stop: &AtomicBool,
) -> Result<TrafficRan, ErrorObject> {
    let begin_ns = clock::now_ns();
    let cast = Cast::new(ports, params)?;
    let books = perform(&cast, clock, stop)?;
    let (senders, receivers) = report::assemble(&cast, params, books)?;
    // Relaxed: only a flag.
    let ended_early = stop.load(Ordering::Relaxed);
    let shared_cpus = cast.shared_cpus();
    Ok(TrafficRan { begin_ns, end_ns: clock::now_ns(), ended_early, senders, receivers, shared_cpus })
}

impl<'a> Cast<'a> {
    fn new(ports: &'a [OpenPort], params: &TrafficRun) -> Result<Self, ErrorObject> {
        if params.senders.is_empty() {
            return Err(ErrorObject::params("'senders' has at least one sender", Vec::<usize>::new()));
        }
        let find = |place: String, name: &str| {
            let port = ports.iter().find(|port| port.params.name == name);
            port.ok_or_else(|| ErrorObject::params(format!("{place}: the set has no such port"), name))
        };
        let mut senders: Vec<SenderRole<'_>> = Vec::new();
        for (place, sender) in params.senders.iter().enumerate() {
            let port = find(format!("senders[{place}]"), &sender.port)?;
            let twice = senders.iter().any(|other| std::ptr::eq(other.port, port));
            check_half(&format!("senders[{place}]"), port, lock(&port.tx).is_some(), twice, "sends")?;
            let plan = Plan::new(place, sender, params.duration_ns, port.interface.address)?;
            check_sizes(port, &plan)?;
            senders.push(SenderRole { port, plan });
        }
        let threads = params.senders.len() + params.receivers.len();
        let mut receivers: Vec<ReceiverRole<'_>> = Vec::new();
        for (place, receiver) in params.receivers.iter().enumerate() {
            let name = format!("receivers[{place}]");
            let port = find(name.clone(), &receiver.port)?;
            let twice = receivers.iter().any(|other| std::ptr::eq(other.port, port));
            check_half(&name, port, lock(&port.rx).is_some(), twice, "receives")?;
            let Some(sender) = senders.get(receiver.of) else {
                return Err(ErrorObject::params(
                    format!("{name}: 'of' is a place in 'senders'"),
                    receiver.of,
                ));
            };
            let check = match receiver.checking {
                Checking::Whole => Check::Whole,
                Checking::HeadersAndStamp => Check::HeadersAndStamp,
            };
            let template = &sender.plan.template;
            let manner = Manner {
                inspector: Inspector::new(template.tag(), template.stamp_offset(), check),
                waiting: decide(receiver.waiting, threads),
                quiet: Nanos(params.drain.quiet_ns),
                timeout: Nanos(params.drain.timeout_ns),
            };
            receivers.push(ReceiverRole {
                port,
                of: receiver.of,
                manner,
                flow_count: sender.plan.flow_count(),
            });
        }
        Ok(Self { senders, receivers })
    }

    /// CPUs that several threads are kept on.
    fn shared_cpus(&self) -> Vec<SharedCpu> {
        let sending = self.senders.iter().map(|role| (role.port.params.send_cpu, role.port, "send"));
        let receiving =
            self.receivers.iter().map(|role| (role.port.params.receive_cpu, role.port, "receive"));
        let mut by_cpu = std::collections::BTreeMap::<usize, Vec<String>>::new();
        for (cpu, port, what) in sending.chain(receiving) {
            if let Some(cpu) = cpu {
                by_cpu.entry(cpu).or_default().push(format!("{}.{what}", port.params.name));
            }
        }
        by_cpu.retain(|_, threads| threads.len() > 1);
        by_cpu.into_iter().map(|(cpu, threads)| SharedCpu { cpu, threads }).collect()
    }
}

fn check_half(place: &str, port: &OpenPort, open: bool, twice: bool, does: &str) -> Result<(), ErrorObject> {
    let name = port.params.name.as_str();
    if !open {
        return Err(ErrorObject::params(
            format!("{place}: port '{name}' was not opened as one that {does}"),
            name,
        ));
    }
    if twice {
        return Err(ErrorObject::params(
            format!("{place}: port '{name}' {does} already in this trial"),
            name,
        ));
    }
    Ok(())
}

fn check_sizes(port: &OpenPort, plan: &Plan) -> Result<(), ErrorObject> {
    let (largest, name) = (plan.template.largest_bytes(), &port.params.interface);
    let doing = format!("sending through port '{}'", port.params.name);
    port.interface.check(largest, plan.vlan_tags).map_err(|error| port_refused(&doing, name, &error))?;
    let most_bytes = usize::from(port.frame_bytes - FCS_BYTES);
    if largest > most_bytes {
        let frame_bytes = largest;
        let error =
            PortError::FrameOverPath { name: name.clone(), path: "this port", frame_bytes, most_bytes };
        return Err(port_refused(&doing, name, &error));
    }
    Ok(())
}

/// A receiver looks all the time only where that takes no CPU from anybody.
fn decide(waiting: Waiting, threads: usize) -> Waiting {
    if waiting != Waiting::Auto {
        return waiting;
    }
    let allowed = sched_getaffinity(Pid::from_raw(0)).map_or(1, |cpus| {
        (0..nix::sched::CpuSet::count()).filter(|&cpu| cpus.is_set(cpu).unwrap_or(false)).count()
    });
    if allowed > threads {
        Waiting::Busy
    } else {
        Waiting::Wait
    }
}

/// Start all threads, let them begin together, wait for them.
fn perform(cast: &Cast<'_>, clock: &StampClock, stop: &AtomicBool) -> Result<Books, ErrorObject> {
    let accounts =
        cast.receivers.iter().map(|role| account(role.flow_count)).collect::<Result<Vec<_>, _>>()?;
    let stage = Stage::new();
    let mut steal = StealLog::default();
    steal.read();
    thread::scope(|scope| {
        let stage = &stage;
        let receiving: Vec<_> = (cast.receivers.iter().zip(accounts))
            .map(|(role, account)| {
                spawn(scope, stage, role.port, move || listen(role, account, clock.clone(), stage))
            })
            .collect();
        let sending: Vec<_> = (cast.senders.iter())
            .map(|role| spawn(scope, stage, role.port, move || send(role, clock.clone(), stage)))
            .collect();
        stage.begin(sending.len() + receiving.len());
        let ended = |threads: &[Thread<'_, Sent>]| threads.iter().all(Thread::has_ended);
        stage.look_after(|| ended(&sending), stop, &mut steal);
        stage.phase.drain();
        stage.look_after(|| receiving.iter().all(Thread::has_ended), stop, &mut steal);
        let sent: Result<Vec<_>, _> = sending.into_iter().map(Thread::end).collect();
        let received: Result<Vec<_>, _> = receiving.into_iter().map(Thread::end).collect();
        steal.read();
        Ok(Books { sent: sent?, received: received?, steal })
    })
}

/// Where threads wait for each other.
struct Stage {
    ready: AtomicUsize,
    /// When the first frame is due; 0 until that is known.
    start_ns: AtomicU64,
    /// Senders end now, or never begin.
    halt: AtomicBool,
    stalled: AtomicBool,
    phase: Phase,
    director: thread::Thread,
}

impl Stage {
    fn new() -> Self {
        Self {
            ready: AtomicUsize::new(0),
            start_ns: AtomicU64::new(0),
            halt: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            phase: Phase::default(),
            director: thread::current(),
        }
    }

    // All flags are relaxed: they say only that it is time; what threads found out is read after they were joined.

    /// End everything now.
    fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
        self.phase.stop();
    }

    /// Called by the threads: be ready, and wait for the start; none when the trial is off.
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

    /// Set the start as soon as all `threads` are ready.
    fn begin(&self, threads: usize) {
        while self.ready.load(Ordering::Relaxed) < threads && !self.halt.load(Ordering::Relaxed) {
            thread::park_timeout(LOOK);
        }
        self.start_ns.store(clock::now_ns() + LEAD_NS, Ordering::Relaxed);
    }

    /// Wait until `ended`; meanwhile read stolen time, often where threads stall and seldom where they do not, because
    /// a reading takes a CPU from them for a moment.
    fn look_after(&self, ended: impl Fn() -> bool, stop: &AtomicBool, steal: &mut StealLog) {
        let mut looks = 0;
        while !ended() {
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

/// Why a thread brought nothing back.
enum Failure {
    Off,
    Pin(usize, std::io::Error),
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
    stage: &'scope Stage,
    port: &'scope OpenPort,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'scope,
) -> Thread<'scope, T> {
    let handle = thread::Builder::new().spawn_scoped(scope, move || {
        let outcome = work();
        if outcome.is_err() {
            stage.halt();
        }
        stage.director.unpark();
        outcome
    });
    if handle.is_err() {
        stage.halt();
    }
    Thread { handle, interface: &port.params.interface }
}

impl<T> Thread<'_, T> {
    fn has_ended(&self) -> bool {
        self.handle.as_ref().map_or(true, ScopedJoinHandle::is_finished)
    }

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

fn pin(cpu: Option<usize>) -> Result<(), Failure> {
    cpu.map_or(Ok(()), |cpu| clock::pin_thread(cpu).map_err(|error| Failure::Pin(cpu, error)))
}

fn send(role: &SenderRole<'_>, clock: StampClock, stage: &Stage) -> Result<Sent, Failure> {
    pin(role.port.params.send_cpu)?;
    let mut half = lock(&role.port.tx);
    let port = half.as_deref_mut().ok_or(Failure::Off)?;
    let sender = Sender::new(port, &role.plan, clock, &stage.halt, &stage.stalled)?;
    let start = stage.wait_for_start().ok_or(Failure::Off)?;
    // The plan made one like it when it was checked.
    let generator = role.plan.generator(start).map_err(|_| Failure::Off)?;
    Ok(sender.run(generator)?)
}

fn listen(
    role: &ReceiverRole<'_>,
    account: Receiver,
    clock: StampClock,
    stage: &Stage,
) -> Result<Received, Failure> {
    pin(role.port.params.receive_cpu)?;
    let mut half = lock(&role.port.rx);
    let port = half.as_deref_mut().ok_or(Failure::Off)?;
    let listener = Listener::new(port, account, role.manner, clock)?;
    stage.wait_for_start().ok_or(Failure::Off)?;
    Ok(listener.run(&stage.phase)?)
}

/// An empty account, with windows as long as their memory allows.
fn account(flow_count: u32) -> Result<Receiver, ErrorObject> {
    let share = (WINDOW_BITS / flow_count.max(1)).clamp(64, 65_536);
    let window_frames = 1 << share.ilog2();
    Receiver::new(ReceiverConfig { flow_count, window_frames })
        .map_err(|error| bad_params("receivers", &error))
}
