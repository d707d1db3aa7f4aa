//! The stdio loop: a line is a request, each request has a thread, answers are written when they are there.

use std::io::{self, ErrorKind, Read};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use iolab_protocol::relay::RelaySend;
use iolab_protocol::results::{Done, Pong, UndoReport};
use iolab_protocol::{
    parse_request, Call, ErrorCode, ErrorData, ErrorObject, Frame, LineSplitter, Request, Response,
    LINE_LIMIT_BYTES,
};
use serde::Serialize;

use crate::clock::now_ns;
use crate::ending::{end, end_machine};
use crate::faults::Answer;
use crate::host::Host;
use crate::{
    commands, devices, facts, folders, journals, lease, relays, series, setting, supervise, traffic,
};

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
    match parse_request(line) {
        Ok(Request { id, call: Call::AgentPing(_), .. }) => {
            answer(host, Some(id), Ok(Pong { now_ns: now_ns() }))
        }
        Ok(Request { id, call: Call::RelaySend(params), .. }) => send_over_relay(host, id, params),
        Ok(request) => work_aside(host, request.id, move |host| work(host, request)),
        Err(refusal) => answer::<()>(host, refusal.id, Err(refusal.error)),
    }
}

/// Do one request on a thread of its own.
fn work_aside(host: &Arc<Host>, id: i64, job: impl FnOnce(&Arc<Host>) + Send + 'static) {
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

/// Messages over a relay keep their order, so they are not begun aside.
fn send_over_relay(host: &Arc<Host>, id: i64, params: RelaySend) {
    match relays::send(host, &params) {
        Ok(None) => answer(host, Some(id), Ok(Done {})),
        Ok(Some(waiting)) => work_aside(host, id, move |host| {
            answer(host, Some(id), relays::finish_sending(&waiting, &params.id));
        }),
        Err(error) => answer::<()>(host, Some(id), Err(error)),
    }
}

fn work(host: &Arc<Host>, request: Request) {
    let id = Some(request.id);
    match request.call {
        Call::AgentPing(_) => answer(host, id, Ok(Pong { now_ns: now_ns() })),
        Call::CommandRun(params) => answer(host, id, commands::run(host, params)),
        Call::ProcessStart(params) => answer(host, id, supervise::start(host, params)),
        Call::ProcessWait(params) => answer(host, id, supervise::wait(host, &params)),
        Call::ProcessStop(params) => answer(host, id, supervise::stop(host, &params)),
        Call::NetnsCreate(params) => answer(host, id, commands::create_netns(host, &params)),
        Call::NetnsDelete(params) => answer(host, id, commands::delete_netns(host, &params)),
        Call::FolderCreate(params) => answer(host, id, folders::create(host, &params)),
        Call::FolderDelete(params) => answer(host, id, folders::delete(host, &params)),
        Call::RelayOpen(params) => {
            answer(host, id, relays::open(host, &params));
            relays::begin(host, &params.id);
        }
        Call::RelaySend(params) => send_over_relay(host, request.id, params),
        Call::RelayClose(params) => answer(host, id, relays::close(host, &params)),
        Call::MachinePowerOff(_) if host.is_init => end_machine(host, |report| say_last(host, id, report)),
        Call::MachinePowerOff(_) => {
            let message = "powering off: this agent is not its machine's first process";
            answer::<()>(host, id, Err(ErrorObject::refused(message, Some(nix::libc::EPERM), "")));
        }
        Call::SettingRead(params) => answer(host, id, setting::read(&params)),
        Call::SettingWrite(params) => answer(host, id, setting::write(host, &params)),
        Call::SampleRead(params) => answer(host, id, series::read(host, &params)),
        Call::SampleStart(params) => answer(host, id, series::start(host, params)),
        Call::SampleStop(params) => answer(host, id, series::stop(host, &params)),
        Call::TrafficOpen(params) => answer(host, id, traffic::open(host, &params)),
        Call::TrafficRun(params) => answer(host, id, traffic::run(host, &params)),
        Call::TrafficClose(params) => answer(host, id, traffic::close(host, &params)),
        Call::DeviceStart(params) => answer(host, id, devices::start(host, &params)),
        Call::DeviceRead(params) => answer(host, id, devices::read(host, &params)),
        Call::DeviceStop(params) => answer(host, id, devices::stop(host, &params)),
        Call::FactsRead(params) => answer(host, id, facts::read(host, &params)),
        Call::JournalList(params) => answer(host, id, journals::list(host, &params)),
        Call::JournalUndo(params) => answer(host, id, journals::undo(host, &params)),
        Call::AgentExit(_) => end(host, |report| say_last(host, id, report)),
    }
}

fn say_last(host: &Host, id: Option<i64>, report: &UndoReport) {
    // When nobody reads the answer any more, the exit status still tells.
    let _ = host.output.send(&Response::<&UndoReport>::new(id, Ok(report)));
    host.output.drain(LAST_WORD_LIMIT);
}

fn answer<T: Serialize>(host: &Host, id: Option<i64>, outcome: Answer<T>) {
    // A controller that does not read any more has gone as much as one that does not write.
    if host.output.send(&Response::new(id, outcome)).is_err() {
        end(host, |_| {});
    }
}

static IN_WORK: AtomicUsize = AtomicUsize::new(0);
/// How long the answer to `agent.exit` may take to be read.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);
const MOST_IN_WORK: usize = 512;
const STACK_BYTES: usize = 512 * 1024;
