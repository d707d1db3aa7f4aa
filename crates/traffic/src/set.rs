//! Ports of which trials run one after another, each ended at once when the set is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use iolab_protocol::traffic::{TrafficRan, TrafficRun};
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject};
use iolab_sys::clock::StampClock;

use crate::ports::{lock, OpenPort};
use crate::recordings::Library;
use crate::trial;

/// The ports of one set.
pub struct PortSet {
    /// In the order asked for.
    pub ports: Vec<OpenPort>,
    clock: StampClock,
    stop: AtomicBool,
    running: Mutex<()>,
    /// What was recorded elsewhere and is sent through them.
    pub recordings: Library,
}

impl PortSet {
    /// A set of `ports`; calibrates its clock for some milliseconds.
    pub fn new(ports: Vec<OpenPort>) -> Self {
        let (stop, running) = (AtomicBool::new(false), Mutex::default());
        Self { ports, clock: StampClock::new(), stop, running, recordings: Library::default() }
    }

    /// Run one trial to its end.
    ///
    /// # Errors
    /// The error of a reply: the set is busy, the parameters do not fit it, or an interface failed.
    pub fn run(&self, params: &TrafficRun) -> Result<TrafficRan, ErrorObject> {
        let Ok(_running) = self.running.try_lock() else {
            let message = format!("set '{}' runs a trial already; wait for it or close the set", params.id);
            let data = ErrorData { limit: Some(1), ..ErrorData::default() };
            return Err(ErrorObject::new(ErrorCode::Busy, message).with(data));
        };
        trial::run(&self.ports, params, &self.recordings.whole(), &self.clock, &self.stop)
    }

    /// End a trial that runs, and wait for its threads; none begins afterwards.
    pub fn stop(&self) {
        // Relaxed: only a flag; the lock below orders the rest.
        self.stop.store(true, Ordering::Relaxed);
        drop(lock(&self.running));
    }
}
