//! An emulated link: two ends, and a thread that forwards frames between them with impairments, which can be changed
//! at run time.

mod desk;
mod does;
mod filter;
mod guard;
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
use iolab_port::{Arrival, End, PortError, PortRedirect, Selection, TapPort, VethPort};
use iolab_protocol::impairment::Impairment;
use iolab_protocol::wire::{WireCarried, WireCounts, WirePort, WireStart, WireStarted, WireWay};
use iolab_protocol::{ErrorCode, ErrorObject};
use iolab_sys::clock;
use iolab_sys::tap::Unfinished;

use self::desk::{Desk, Letter};
use self::does::Does;
use self::guard::Guard;
pub use self::steering::{Steered, Steering};
use self::thread::{Seat, Work};
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
    /// Start to forward frames between two ends, which may be the taps of `redirect`. `steering` selects the CPUs that process the frames delivered to the
    /// ends; `lacks` lists the requested features that are unavailable.
    ///
    /// # Errors
    /// Returns an error object for the reply; the ends are removed in this case.
    pub fn start(
        params: &WireStart,
        ends: [End; 2],
        redirect: Option<PortRedirect>,
        steering: Option<Steering>,
        lacks: WireCarried,
    ) -> Result<Self, ErrorObject> {
        let nothing = WireWay { impairments: Vec::new(), seed: 1, memory_bytes: FIRST_MEMORY };
        let start = Nanos(clock::now_ns());
        let ways = [Way::new(Does::new(&nothing, 0, start)?), Way::new(Does::new(&nothing, 1, start)?)];
        let udp_super_frames = ends.iter().all(End::udp_super_frames);
        let unstamped = ends.iter().find_map(End::unstamped);
        let path = if redirect.is_some() { "tap on a port".to_owned() } else { ends[0].path() };
        let guard = redirect.map(Guard::new);
        let refused = |error: std::io::Error| {
            let message = format!("starting wire '{}': {error}", params.id);
            ErrorObject::new(ErrorCode::Refused, message)
        };
        let (desk, letters) = Desk::new().map_err(refused)?;
        let (work, seat) = (
            Work::new(ends, guard, ways, steering, letters),
            Seat { cpu: params.cpu, priority: params.priority },
        );
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

/// Create the ends of the emulated link `params` on an existing port, in the calling thread's namespace, with the
/// redirection of the port's frames, whose programs are not attached to the port yet.
///
/// # Errors
/// Returns an error object for the reply.
pub fn open_on_port(
    params: &WireStart,
    port: &WirePort,
    what: Unfinished,
) -> Result<([End; 2], PortRedirect), ErrorObject> {
    let doing = format!("starting wire '{}'", params.id);
    let refused = |interface: &str, error: &PortError| port_refused(&doing, interface, error);
    let networks = port.networks.iter().map(|text| {
        text.parse().map_err(|()| ErrorObject::params("a network is written as address/bits", text.as_str()))
    });
    let networks = networks.collect::<Result<Vec<_>, _>>()?;
    if networks.is_empty() {
        return Err(ErrorObject::params(
            "a wire on a port carries the packets of at least one network",
            "networks",
        ));
    }
    let names = params.ends.each_ref().map(|end| end.interface.as_str());
    let open = |name| TapPort::open(name, what).map_err(|error| refused(name, &error));
    let (mut sent, mut received) = (open(names[0])?, open(names[1])?);
    // A frame goes back to the tap from which it was read, and from there to its side of the port.
    let cross = sent.write_to(&received).and_then(|()| received.write_to(&sent));
    cross.map_err(|error| refused(&port.interface, &error))?;
    let selection = Selection { vlan: port.vlan.unwrap_or(0), networks };
    let redirect = PortRedirect::prepare(&port.interface, names, &selection, None)
        .map_err(|error| refused(&port.interface, &error))?;
    Ok(([End::Tap(sent), End::Tap(received)], redirect))
}

/// Attach the programs of a redirection to its port, in the calling thread's namespace.
///
/// # Errors
/// Returns an error object for the reply.
pub fn attach_to_port(
    params: &WireStart,
    port: &WirePort,
    redirect: &mut PortRedirect,
) -> Result<(), ErrorObject> {
    let doing = format!("starting wire '{}'", params.id);
    redirect.attach().map_err(|error| port_refused(&doing, &port.interface, &error))
}
