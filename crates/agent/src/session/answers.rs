//! Replies to requests, and the threads that execute requests.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use iolab_protocol::{ErrorCode, ErrorData, ErrorObject, Response};
use serde::Serialize;

use crate::host::Host;
use crate::kernel::faults::{refused, Answer};

/// Execute one request on a separate thread.
pub fn work_aside(host: &Arc<Host>, id: i64, job: impl FnOnce(&Arc<Host>) + Send + 'static) {
    let id = Some(id);
    // Relaxed ordering suffices: the counter protects no other data.
    if IN_WORK.fetch_add(1, Ordering::Relaxed) >= MOST_IN_WORK {
        IN_WORK.fetch_sub(1, Ordering::Relaxed);
        let data = ErrorData { limit: Some(MOST_IN_WORK as u64), ..ErrorData::default() };
        let message = format!("{MOST_IN_WORK} requests are being worked on; wait for some of them");
        return answer::<()>(host, id, Err(ErrorObject::new(ErrorCode::Busy, message).with(data)));
    }
    let worker = Arc::clone(host);
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let worked = catch_unwind(AssertUnwindSafe(|| job(&worker)));
        if worked.is_err() {
            let message = "the agent failed in this request; its standard error has the reason";
            answer::<()>(&worker, id, Err(ErrorObject::new(ErrorCode::Internal, message)));
        }
        IN_WORK.fetch_sub(1, Ordering::Relaxed);
    });
    if let Err(error) = thread {
        IN_WORK.fetch_sub(1, Ordering::Relaxed);
        answer::<()>(host, id, Err(refused("starting a thread in", "the agent", &error)));
    }
}

/// Send the reply to request `id`.
pub fn answer<T: Serialize>(host: &Host, id: Option<i64>, outcome: Answer<T>) {
    // A controller that does not read any more counts as disconnected.
    if host.output.send(&Response::new(id, outcome)).is_err() {
        host.hang_up();
    }
}

/// Send the reply to request `id` before the agent exits.
pub fn give_last<T: Serialize>(host: &Host, id: i64, result: &T) {
    // If the reply is never read, the exit status still shows the result.
    let _ = host.output.send(&Response::<&T>::new(Some(id), Ok(result)));
    host.output.drain(LAST_WORD_LIMIT);
}

static IN_WORK: AtomicUsize = AtomicUsize::new(0);
const MOST_IN_WORK: usize = 512;
const STACK_BYTES: usize = 512 * 1024;
/// Maximum wait until the last reply is read.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);
