//! An emulated link: two ends, and a thread that forwards frames between them with impairments, which can be changed
//! at run time.

mod does;
mod filter;
mod lead;
mod pressure;
mod shift;
mod spacing;
mod stalls;
mod steering;
mod thread;
mod way;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use iolab_engine::Nanos;
use iolab_port::{Arrival, End, TapPort, VethPort};
use iolab_protocol::impairment::Impairment;
use iolab_protocol::wire::{WireCarried, WireCounts, WireStart, WireStarted, WireWay};
use iolab_protocol::{ErrorCode, ErrorObject};
use iolab_sys::clock;
use iolab_sys::tap::Unfinished;

use self::does::Does;
pub use self::steering::{Steered, Steering};
use self::thread::{Desk, Letter, Seat, Work};
use self::way::Way;
use crate::faults::port_refused;

/// Maximum time for a reply of the thread, which reads requests between two frames.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Memory for the frames of a direction before the first change (bytes).
const FIRST_MEMORY: u64 = 4 << 20;

/// A running emulated link, which stops on drop.
#[derive(Debug)]
pub struct RunningWire {
    id: String,
    started: WireStarted,
    does: [Vec<Impairment>; 2],
    does_since_ns: u64,
    desk: Desk,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl RunningWire {
    /// Start to forward frames between two ends. `steering` selects the CPUs that process the frames delivered to the
    /// ends; `lacks` lists the requested features that are unavailable.
    ///
    /// # Errors
    /// Returns an error object for the reply; the ends are removed in this case.
    pub fn start(
        params: &WireStart,
        ends: [End; 2],
        steering: Option<Steering>,
        lacks: WireCarried,
    ) -> Result<Self, ErrorObject> {
        let nothing = WireWay { impairments: Vec::new(), seed: 1, memory_bytes: FIRST_MEMORY };
        let start = Nanos(clock::now_ns());
        let ways = [Way::new(Does::new(&nothing, 0, start)?), Way::new(Does::new(&nothing, 1, start)?)];
        let udp_super_frames = ends.iter().all(End::udp_super_frames);
        let unstamped = ends.iter().find_map(End::unstamped);
        let path = ends[0].path();
        let refused = |error: std::io::Error| {
            let message = format!("starting wire '{}': {error}", params.id);
            ErrorObject::new(ErrorCode::Refused, message)
        };
        let (desk, letters) = Desk::new().map_err(refused)?;
        let (work, seat) =
            (Work::new(ends, ways, steering, letters), Seat { cpu: params.cpu, priority: params.priority });
        let (seated, taken) = channel();
        let run = move || {
            let refusal = seat.take().map_err(|error| format!("keeping it on a CPU: {error}"))?;
            let _ = seated.send(refusal);
            let crashed = |_| Err("it crashed".to_owned());
            catch_unwind(AssertUnwindSafe(|| work.run())).unwrap_or_else(crashed)
        };
        let thread = std::thread::Builder::new().name("iolab-wire".to_owned()).spawn(run).map_err(refused)?;
        let carried = WireCarried { path, unstamped, ..lacks };
        let started = WireStarted { udp_super_frames, carried, cpu: params.cpu, begin_ns: clock::now_ns() };
        let mut this = Self {
            id: params.id.clone(),
            started,
            does: Default::default(),
            does_since_ns: start.0,
            desk,
            thread: Some(thread),
        };
        this.read(None)?; // wait until the thread runs, or return its error
        this.started.carried.unprioritised = taken.try_recv().ok().flatten();
        Ok(this)
    }

    /// Return the reply to the start request.
    pub fn describe(&self) -> WireStarted {
        self.started.clone()
    }

    /// Change the impairments for frames that arrive from now on.
    ///
    /// # Errors
    /// Fails if the impairments are invalid, or the thread has stopped with an error.
    pub fn change(&mut self, ways: &[WireWay; 2]) -> Result<(), ErrorObject> {
        let start = Nanos(clock::now_ns());
        let does = [Does::new(&ways[0], 0, start)?, Does::new(&ways[1], 1, start)?];
        let (answer, answered) = channel();
        self.desk.post(Letter::Change(Box::new(does), answer));
        answered.recv_timeout(ANSWER_LIMIT).map_err(|why| self.silent("changing", why))?;
        self.does = ways.each_ref().map(|way| way.impairments.clone());
        self.does_since_ns = start.0;
        Ok(())
    }

    /// Restart the random draws of each direction with these seeds, for frames that arrive from now on.
    ///
    /// # Errors
    /// Fails if the thread has stopped with an error.
    pub fn restart_draws(&mut self, seeds: [u64; 2]) -> Result<(), ErrorObject> {
        let (answer, answered) = channel();
        self.desk.post(Letter::RestartDraws(seeds, answer));
        answered.recv_timeout(ANSWER_LIMIT).map_err(|why| self.silent("starting the draws of", why))
    }

    /// Return the frame counts and the stalls of the thread, with individual stalls from `stalls_since_ns` on.
    ///
    /// # Errors
    /// Fails if the thread has stopped with an error.
    pub fn read(&mut self, stalls_since_ns: Option<u64>) -> Result<WireCounts, ErrorObject> {
        let begin_ns = clock::now_ns();
        let (answer, answered) = channel();
        self.desk.post(Letter::Count(stalls_since_ns, answer));
        let told = answered.recv_timeout(ANSWER_LIMIT).map_err(|why| self.silent("reading", why))?;
        let (ways, stalls) = *told;
        let (carried, does) = (self.started.carried.clone(), self.does.clone());
        let does_since_ns = self.does_since_ns;
        Ok(WireCounts { ways, does, does_since_ns, stalls, carried, begin_ns, end_ns: clock::now_ns() })
    }

    /// Return the error object for a missing reply.
    fn silent(&mut self, doing: &str, why: RecvTimeoutError) -> ErrorObject {
        let reason = match why {
            RecvTimeoutError::Timeout => format!("it did not answer for {} s", ANSWER_LIMIT.as_secs()),
            RecvTimeoutError::Disconnected => match self.thread.take().map(JoinHandle::join) {
                Some(Ok(Err(reason))) => reason,
                _ => "it has ended".to_owned(),
            },
        };
        ErrorObject::new(ErrorCode::Refused, format!("{doing} wire '{}': {reason}", self.id))
    }
}

impl Drop for RunningWire {
    fn drop(&mut self) {
        self.desk.post(Letter::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The device at one end of an emulated link.
#[derive(Debug, Clone, Copy)]
pub enum Carrier {
    /// A TAP device, with or without super-frames.
    Tap(Unfinished),
    /// A veth pair, with the maximum frame length in bytes.
    Veth(usize, Arrival),
}

/// Create one end of the emulated link `id` in the calling thread's namespace.
///
/// # Errors
/// Returns an error object for the reply.
pub fn open_end(id: &str, interface: &str, by: Carrier) -> Result<End, ErrorObject> {
    let opened = match by {
        Carrier::Tap(what) => TapPort::open(interface, what).map(End::Tap),
        Carrier::Veth(frame_bytes, arrival) => {
            VethPort::open(interface, frame_bytes, arrival).map(|port| End::Veth(Box::new(port)))
        }
    };
    opened.map_err(|error| port_refused(&format!("starting wire '{id}'"), interface, &error))
}
