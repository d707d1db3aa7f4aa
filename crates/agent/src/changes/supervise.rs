//! Verbs `process.start`, `process.wait` and `process.stop`, for supervised processes, which the controller names.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iolab_protocol::calls::{ProcessStart, ProcessStop, ProcessWait, Ready, StopSignal};
use iolab_protocol::results::{Ending, ProcessEnded, ProcessStarted, Walls};
use iolab_protocol::{ErrorCode, ErrorData, ErrorObject, Undo};
use iolab_samplers::Supervised;
use nix::sys::signal::Signal;

use crate::host::{Host, Process};
use crate::kernel::clock::now_ns;
use crate::kernel::faults::{refused, Answer};
use crate::kernel::procfs::stat;
use crate::programs::capture::check_capture;
use crate::programs::child::{Child, End, Kin, KILL_LIMIT};
use crate::programs::files;
use crate::programs::launch::Place;
use crate::programs::ready::is_bound;
use crate::programs::spawn::Program;
use crate::verbs::{verb, Verb};

/// Return the verbs for processes.
pub fn verbs() -> [Verb; 3] {
    [
        verb("process.start", |host, params| start(host, params)),
        verb("process.wait", |host, params| wait(host, &params)),
        verb("process.stop", |host, params| stop(host, &params)),
    ]
}

/// Return the running supervised processes, for the samplers.
pub fn supervised(host: &Host) -> Vec<Supervised> {
    host.processes.each(|name, process| {
        let runs = process.child.end().is_none();
        runs.then(|| Supervised { name: name.to_owned(), pid: process.child.pid })
    })
}

/// Kill the processes in the namespace `netns`, and wait until they have exited.
pub fn kill_in(host: &Host, netns: &str) {
    let inside = host
        .processes
        .each(|_, process| (process.netns.as_deref() == Some(netns)).then(|| Arc::clone(&process.child)));
    let deadline = Instant::now() + KILL_LIMIT;
    inside.iter().for_each(|child| child.kill());
    for child in &inside {
        child.wait_for_end(deadline);
    }
}

/// Answer `process.start`.
pub fn start(host: &Host, params: ProcessStart) -> Answer<ProcessStarted> {
    check_capture(params.capture_bytes)?;
    if params.cpus.as_ref().is_some_and(Vec::is_empty) {
        return Err(ErrorObject::params("'cpus' has at least one CPU, or is absent", Vec::<usize>::new()));
    }
    files::check(&params.files)?;
    if params.confined.is_some() && (params.own_user.is_some() || params.netns.is_some()) {
        let message = "'confined' comes without 'own_user' and 'netns': such a program has a user and a namespace already";
        return Err(ErrorObject::params(message, "both"));
    }
    let _change = host.may_change()?;
    let reserved = host.processes.reserve(&params.id)?;
    let (process, walls, ready_ns) = start_until_ready(host, params)?;
    let (pid, begin_ns) = (process.child.pid, process.child.begin_ns);
    reserved.fill(process);
    Ok(ProcessStarted { pid, begin_ns, ready_ns, walls })
}

/// Start a process and wait until it is ready. Return the process, its confinement if any, and the time at which it was
/// ready, in ns.
fn start_until_ready(host: &Host, params: ProcessStart) -> Answer<(Process, Option<Walls>, u64)> {
    let program_name = params.argv.first().cloned().unwrap_or_default();
    let search = match &params.ready {
        Some(Ready::Output { contains }) => Some(contains.clone()),
        _ => None,
    };
    let program = Program {
        argv: params.argv,
        env: params.env,
        place: Place::of(params.netns.clone())?,
        cpus: params.cpus,
        stdin: params.stdin,
        capture_bytes: params.capture_bytes,
        search,
        files: files::open_all(&params.files, host.door.as_ref())?.into(),
        own_user: params.own_user,
        confined: params.confined,
        ..Program::default()
    };
    let deadline = Instant::now().checked_add(Duration::from_millis(params.timeout_ms));
    let (started, walls) = begin(host, program, &params.id, params.netns)?;
    let child = &started.child;
    let ready_ns = wait_until_ready(child, params.ready.as_ref(), deadline);
    let not_ready = match ready_ns {
        NotReady::No(ready_ns) => return Ok((started, walls, ready_ns)),
        other => other,
    };
    child.kill();
    let end = child.wait_for_end(Instant::now() + KILL_LIMIT);
    if end.is_some() {
        host.mark_undone(started.sequence)?;
    }
    Err(tell_not_ready(&not_ready, child, end, &program_name, params.timeout_ms))
}

/// Record the undo of a program in the journal, and then start the program.
fn begin(host: &Host, program: Program, id: &str, netns: Option<String>) -> Answer<(Process, Option<Walls>)> {
    let held = host.start(program)?;
    let child = Arc::clone(&held.child);
    let recorded = match stat(child.pid) {
        Some(seen) => host.record(
            &format!("process:{id}"),
            Undo::Process { pid: child.pid, start_ticks: seen.start_ticks },
        ),
        None => Err(refused("starting program", "launcher", &std::io::ErrorKind::NotFound.into())),
    };
    let sequence = match recorded {
        Ok(sequence) => sequence,
        Err(error) => {
            held.abandon();
            return Err(error);
        }
    };
    let begun = held.begin().and_then(|(child, pipes, walls)| {
        let tender = Arc::clone(&child);
        let thread = thread::Builder::new().name(format!("tend {}", child.pid));
        let thread = thread.spawn(move || {
            tender.tend(pipes, None, Kin::End);
        });
        thread.map(|_| walls).map_err(|error| {
            child.kill();
            refused("starting a thread in", "the agent", &error)
        })
    });
    match begun {
        Ok(walls) => Ok((Process { child, netns, sequence }, walls)),
        Err(error) => {
            host.mark_undone(sequence)?;
            Err(error)
        }
    }
}

enum NotReady {
    /// Time at which the process became ready, in ns.
    No(u64),
    Late,
    Ended,
}

fn wait_until_ready(child: &Child, ready: Option<&Ready>, deadline: Option<Instant>) -> NotReady {
    loop {
        let is_ready = match ready {
            None => true,
            Some(Ready::Listening { protocol, port }) => is_bound(child.pid, *protocol, *port),
            Some(Ready::Output { .. }) => child.search_found(),
        };
        if is_ready {
            return NotReady::No(now_ns());
        }
        if child.end().is_some() {
            return NotReady::Ended;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return NotReady::Late;
        }
        child.wait_for_change(LOOK_AGAIN);
    }
}

fn tell_not_ready(
    not_ready: &NotReady,
    child: &Child,
    end: Option<End>,
    program: &str,
    timeout_ms: u64,
) -> ErrorObject {
    let output = Some(child.output_beginning(OUTPUT_BYTES));
    if matches!(not_ready, NotReady::Late) {
        let data = ErrorData { timeout_ms: Some(timeout_ms), output, ..ErrorData::default() };
        let message =
            format!("waiting for '{program}' to become ready: {timeout_ms} ms have passed; it was stopped");
        return ErrorObject::new(ErrorCode::Deadline, message).with(data);
    }
    let ending = end.map_or(Ending { exit_status: None, signal: None }, |end| end.ending);
    let Ending { exit_status, signal } = ending;
    let path = Some(program.to_owned());
    let message = format!("waiting for '{program}' to become ready: it ended with {ending}");
    let data = ErrorData { path, output, exit_status, signal, ..ErrorData::default() };
    ErrorObject::new(ErrorCode::Refused, message).with(data)
}

/// Answer `process.wait`.
pub fn wait(host: &Host, params: &ProcessWait) -> Answer<ProcessEnded> {
    let started = host.processes.find(&params.id)?;
    let limit = Duration::from_millis(params.timeout_ms).min(FOREVER);
    if let Some(end) = started.child.wait_for_end(Instant::now() + limit) {
        collect(host, &params.id, &started, end)
    } else {
        let message =
            format!("waiting for process '{}': {} ms have passed; it goes on", params.id, params.timeout_ms);
        Err(ErrorObject::deadline(message, params.timeout_ms))
    }
}

/// Answer `process.stop`.
pub fn stop(host: &Host, params: &ProcessStop) -> Answer<ProcessEnded> {
    let started = host.processes.find(&params.id)?;
    let child = &started.child;
    child.signal(signal(params.signal));
    let grace = Duration::from_millis(params.grace_ms).min(FOREVER);
    let end = child.wait_for_end(Instant::now() + grace).or_else(|| {
        child.kill();
        child.wait_for_end(Instant::now() + KILL_LIMIT)
    });
    let Some(end) = end else {
        let message = format!("stopping process '{}': it does not end although it was killed", params.id);
        return Err(ErrorObject::deadline(message, params.grace_ms));
    };
    collect(host, &params.id, &started, end)
}

fn collect(host: &Host, id: &str, started: &Process, end: End) -> Answer<ProcessEnded> {
    // A different request may have collected the process already, and a new process may have the same name.
    let _ = host.processes.take_if(id, |each| Arc::ptr_eq(&each.child, &started.child));
    host.mark_undone(started.sequence)?;
    Ok(ProcessEnded {
        ending: end.ending,
        output: started.child.output(),
        begin_ns: started.child.begin_ns,
        end_ns: end.end_ns,
        cpu_user_ns: end.cpu_user_ns,
        cpu_system_ns: end.cpu_system_ns,
    })
}

fn signal(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Term => Signal::SIGTERM,
        StopSignal::Int => Signal::SIGINT,
        StopSignal::Hup => Signal::SIGHUP,
        StopSignal::Quit => Signal::SIGQUIT,
        StopSignal::Usr1 => Signal::SIGUSR1,
        StopSignal::Usr2 => Signal::SIGUSR2,
        StopSignal::Kill => Signal::SIGKILL,
    }
}

/// Interval between checks whether a port is bound.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Upper limit of all timeouts, so that a deadline never overflows the clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
const OUTPUT_BYTES: usize = 4096;
