//! A set of ports for consecutive trials; closing the set ends a running trial at once.

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
    /// Ports in the order of the request.
    pub ports: Vec<OpenPort>,
    clock: StampClock,
    stop: AtomicBool,
    running: Mutex<()>,
    /// Uploaded recordings for replay through the ports.
    pub recordings: Library,
}

impl PortSet {
    /// Create a set of `ports` and calibrate its clock, which takes some milliseconds.
    pub fn new(ports: Vec<OpenPort>) -> Self {
        let (stop, running) = (AtomicBool::new(false), Mutex::default());
        Self { ports, clock: StampClock::new(), stop, running, recordings: Library::default() }
    }

    /// Run one trial to its end.
    ///
    /// # Errors
    /// Returns an error object for the reply, if the set is busy, the parameters do not fit the set, or an interface
    /// failed.
    pub fn run(&self, params: &TrafficRun) -> Result<TrafficRan, ErrorObject> {
        let Ok(_running) = self.running.try_lock() else {
            let message = format!("set '{}' runs a trial already; wait for it or close the set", params.id);
            let data = ErrorData { limit: Some(1), ..ErrorData::default() };
            return Err(ErrorObject::new(ErrorCode::Busy, message).with(data));
        };
        trial::run(&self.ports, params, &self.recordings.whole(), &self.clock, &self.stop)
    }

    /// End a running trial, wait for its threads, and refuse further trials.
    pub fn stop(&self) {
        // Relaxed: the value is only a flag; the lock below orders all other accesses.
        self.stop.store(true, Ordering::Relaxed);
        drop(lock(&self.running));
    }
}
