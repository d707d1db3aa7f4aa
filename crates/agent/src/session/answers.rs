//! Answers to requests, and the threads that work on them.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use iolab_protocol::{ErrorCode, ErrorData, ErrorObject, Response};
use serde::Serialize;

use crate::host::Host;
use crate::kernel::faults::{refused, Answer};

/// Do one request on a thread of its own.
pub fn work_aside(host: &Arc<Host>, id: i64, job: impl FnOnce(&Arc<Host>) + Send + 'static) {
    let id = Some(id);
    // Only a count: nothing else is published through it.
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

/// Write the answer to request `id`.
pub fn answer<T: Serialize>(host: &Host, id: Option<i64>, outcome: Answer<T>) {
    // A controller that does not read any more has gone as much as one that does not write.
    if host.output.send(&Response::new(id, outcome)).is_err() {
        host.hang_up();
    }
}

/// Write the answer to request `id` as the last thing that the agent does.
pub fn give_last<T: Serialize>(host: &Host, id: i64, result: &T) {
    // When nobody reads the answer any more, the exit status still tells.
    let _ = host.output.send(&Response::<&T>::new(Some(id), Ok(result)));
    host.output.drain(LAST_WORD_LIMIT);
}

static IN_WORK: AtomicUsize = AtomicUsize::new(0);
const MOST_IN_WORK: usize = 512;
const STACK_BYTES: usize = 512 * 1024;
/// How long the last answer may take to be read.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);
