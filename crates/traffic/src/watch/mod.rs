//! A watch: counts the traffic of interfaces without affecting the frames, as requested by the parameters of
//! `watch.start`.

mod eye;
mod headers;
mod packed;
mod packets;
mod report;
mod stolen;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use iolab_engine::{Nanos, ObserverConfig};
use iolab_protocol::watch::{WatchPart, WatchRead, WatchStart, WatchStarted, Watched};
use iolab_protocol::{ErrorCode, ErrorObject};

pub use self::eye::{open_eye, Eye};
pub use self::headers::flow_key;
pub use self::packed::text;
use self::report::Seen;
use self::thread::Work;
use crate::faults::bad_params;

/// Maximum number of measuring points in one watch, because each has separate rings.
const MOST_POINTS: usize = 64;
/// Unit of window lengths, because bins are one microsecond long (ns).
const MICROSECOND_NS: u64 = 1_000;

/// A running watch, or the result of a stopped watch; it ends on drop.
#[derive(Debug)]
pub struct RunningWatch {
    id: String,
    started: WatchStarted,
    state: State,
}

#[derive(Debug)]
enum State {
    Running { stop: Arc<AtomicBool>, thread: JoinHandle<Result<Seen, String>> },
    Over(Box<Seen>),
    Failed(String),
}

/// Validate the parameters before any resource is opened.
///
/// # Errors
/// Returns an error object for the reply.
pub fn check(params: &WatchStart) -> Result<(), ErrorObject> {
    if params.points.is_empty() || params.points.len() > MOST_POINTS {
        let message = format!("'points' has 1 to {MOST_POINTS} entries");
        return Err(ErrorObject::params(message, params.points.len()));
    }
    let wrong = params.windows_ns.iter().find(|&&window| window == 0 || window % MICROSECOND_NS != 0);
    if let Some(&window) = wrong {
        return Err(ErrorObject::params("a window is a whole number of microseconds, 1 at least", window));
    }
    let Some(&first) = params.windows_ns.first() else {
        return Err(ErrorObject::params("'windows_ns' has one length at least", 0));
    };
    if params.flows > iolab_port::MOST_FLOWS {
        let message = format!("at most {} flows are counted apart", iolab_port::MOST_FLOWS);
        return Err(ErrorObject::params(message, params.flows));
    }
    if params.flows > 0 && first / MICROSECOND_NS < iolab_port::SHORTEST_FLOW_WINDOW_US {
        let least = iolab_port::SHORTEST_FLOW_WINDOW_US;
        return Err(ErrorObject::params(
            format!("flows are counted apart in windows of {least} us or more"),
            first,
        ));
    }
    iolab_engine::Observer::new(&config(params)).map(drop).map_err(|error| bad_params("watch", &error))
}

fn config(params: &WatchStart) -> ObserverConfig {
    ObserverConfig {
        windows: params.windows_ns.iter().copied().map(Nanos).collect(),
        line_bps: params.line_bps,
        train_gap: Nanos(params.train_gap_ns),
        rates_bps: params.rates_bps.clone(),
        buffers_bytes: params.buffers_bytes.clone(),
        kept_bytes: params.kept_bytes,
    }
}

impl RunningWatch {
    /// Start to count with `eyes`, one per measuring point.
    ///
    /// # Errors
    /// Returns an error object for the reply.
    pub fn start(params: &WatchStart, eyes: Vec<Eye>) -> Result<Self, ErrorObject> {
        let fallbacks = eyes.iter().filter_map(|eye| eye.fallback.clone()).collect();
        let by = eyes.iter().map(|eye| eye.by().to_owned()).collect();
        let work =
            Work::new(&config(params), params.flows, eyes).map_err(|error| bad_params("watch", &error))?;
        let begin_ns = work.begin_ns;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, refused) = (Arc::clone(&stop), |error: std::io::Error| {
            ErrorObject::new(ErrorCode::Refused, format!("starting watch '{}': {error}", params.id))
        });
        let thread = std::thread::Builder::new().name("iolab-watch".to_owned());
        let thread = thread.spawn(move || work.run(&stopped)).map_err(refused)?;
        let started = WatchStarted { by, fallbacks, begin_ns };
        Ok(Self { id: params.id.clone(), started, state: State::Running { stop, thread } })
    }

    /// Return the reply to the start request.
    pub fn describe(&self) -> WatchStarted {
        self.started.clone()
    }

    /// Stop the watch and return its results; a repeated call returns the same results.
    ///
    /// # Errors
    /// Fails if the watch has failed.
    pub fn stop(&mut self) -> Result<Watched, ErrorObject> {
        let state = std::mem::replace(&mut self.state, State::Failed("it was being stopped".to_owned()));
        self.state = match state {
            State::Running { stop, thread } => {
                // Release: pairs with the thread's Acquire; the flag publishes no other data.
                stop.store(true, Ordering::Release);
                match thread.join() {
                    Ok(Ok(seen)) => State::Over(Box::new(seen)),
                    Ok(Err(reason)) => State::Failed(reason),
                    Err(_) => State::Failed("it crashed".to_owned()),
                }
            }
            other => other,
        };
        Ok(self.seen("stopping")?.describe())
    }

    /// Return a part of the individually stored windows.
    ///
    /// # Errors
    /// Fails if there are no such windows, or the watch is running.
    pub fn read(&self, params: &WatchRead) -> Result<WatchPart, ErrorObject> {
        let seen = self.seen("reading")?;
        let kept = seen
            .kept(params)
            .ok_or_else(|| ErrorObject::params("there are no such windows in this watch", params.windows))?;
        Ok(packed::part(kept, params.offset_bytes))
    }

    fn seen(&self, doing: &str) -> Result<&Seen, ErrorObject> {
        let reason = match &self.state {
            State::Over(seen) => return Ok(seen),
            State::Running { .. } => "it runs; stop it first",
            State::Failed(reason) => reason,
        };
        let message = format!("{doing} watch '{}': {reason}", self.id);
        Err(ErrorObject::new(ErrorCode::Refused, message))
    }
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
