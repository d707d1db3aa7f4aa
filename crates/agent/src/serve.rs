//! The stdio loop: a line is a request, each request has a thread or is done in order, answers are written when they are there.

use std::io::{self, ErrorKind, Read};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use iolab_protocol::{
    parse_request, ErrorCode, ErrorData, ErrorObject, Frame, LineSplitter, Response, LINE_LIMIT_BYTES,
};
use serde::Serialize;

use crate::ending::end;
use crate::faults::Answer;
use crate::host::Host;
use crate::{lease, verbs};

/// Serve requests until standard input ends, then undo everything and exit.
pub fn serve(host: &Arc<Host>) -> ! {
    let mut splitter = LineSplitter::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut buffer) {
            Ok(0) => end(host, |_| {}),
            Ok(length) => {
                lease::renew();
                splitter.push(&buffer[..length], |frame| take(host, &frame));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => end(host, |_| {}),
        }
    }
}

fn take(host: &Arc<Host>, frame: &Frame) {
    if matches!(frame, Frame::Line(line) if line.trim_ascii().is_empty()) {
        return;
    }
    let Frame::Line(line) = frame else {
        let message = format!("reading a request: the line is longer than {LINE_LIMIT_BYTES} bytes");
        return answer::<()>(host, None, Err(ErrorObject::new(ErrorCode::Request, message)));
    };
    let read = parse_request(line).and_then(|request| Ok((request.id, verbs::read(&request)?)));
    match read {
        Ok((_, (verb, job))) if verb.in_order => job(host),
        Ok((id, (_, job))) => work_aside(host, id, job),
        Err(refusal) => answer::<()>(host, refusal.id, Err(refusal.error)),
    }
}

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
        answer::<()>(host, id, Err(crate::faults::refused("starting a thread in", "the agent", &error)));
    }
}

/// Write the answer to request `id`.
pub fn answer<T: Serialize>(host: &Host, id: Option<i64>, outcome: Answer<T>) {
    // A controller that does not read any more has gone as much as one that does not write.
    if host.output.send(&Response::new(id, outcome)).is_err() {
        end(host, |_| {});
    }
}

static IN_WORK: AtomicUsize = AtomicUsize::new(0);
const MOST_IN_WORK: usize = 512;
const STACK_BYTES: usize = 512 * 1024;
