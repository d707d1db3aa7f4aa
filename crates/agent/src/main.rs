//! `iolab-agent`: works for an iolab controller on one kernel. `contract/agent-v1.md` defines the protocol.
//!
//! Without arguments the program speaks the protocol on standard input and output; with `launch` it launches the
//! programs of an agent.

mod changes;
mod disk;
mod facts;
mod host;
mod init;
mod kernel;
mod measuring;
mod programs;
mod roundtrip;
mod session;
mod verbs;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use iolab_protocol::hello::NotificationLine;
use iolab_protocol::Notification;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Uid;

use crate::changes::commands;
use crate::host::journal::Author;
use crate::host::state::StateFolder;
use crate::host::Host;
use crate::kernel::{clock, macvtap, open_files, procfs, rootless};
use crate::programs::{confine, launch};
use crate::session::greeting::Beginning;
use crate::session::{ending, greeting, serve, silence};

const HELP: &str = "\
iolab-agent works for an iolab controller on this host: it runs commands, supervises processes, makes network
namespaces, reads counters, and takes every change back when it ends.

Usage: iolab-agent             speak JSON-RPC 2.0, one message per line, on standard input and output
       iolab-agent --silence-s N the same, and take N seconds without a request for the controller's end
       iolab-agent init        be the first process of a machine: bring it up and serve its channel
       iolab-agent disk         run the disk program that standard input asks for (contract/disk-v1.md)
       iolab-agent attach FILE  attach a loop device that reads nothing ahead to a file, and print its node
       iolab-agent roundtrip REQUEST  serve, or measure, round trips (contract/roundtrip-v1.md)
       iolab-agent open-macvtap  by sudo: open one macvtap's device for an agent of an ordinary user
       iolab-agent --version   print the version
       iolab-agent --help      print this

When standard input closes, everything is undone. Environment: IOLAB_STATE_DIR, the folder of its lock and journals.
";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let first = std::env::args().nth(1);
    if init::is_asked_for(program.as_deref(), first.as_deref()) {
        let again = std::env::args().nth(2).as_deref() == Some(init::AGAIN);
        return ExitCode::from(init::begin(again, || work(None, Role::Init)));
    }
    match arguments.next().as_ref().map(|argument| argument.to_string_lossy()).as_deref() {
        Some(disk::ARGUMENT) => exit(disk::serve()),
        Some(disk::ATTACH) => exit(disk::attach(arguments.next())),
        Some(roundtrip::ARGUMENT) => {
            exit(roundtrip::serve(arguments.next().as_deref().and_then(|text| text.to_str())))
        }
        Some("launch") => ExitCode::from(launch::launch(arguments)),
        Some(confine::FLUSHER) => exit(confine::flush_for_a_program()),
        Some("--version") => print(&format!("iolab-agent {}\n", env!("CARGO_PKG_VERSION"))),
        Some("--help") => print(HELP),
        Some(rootless::TRIAL) => exit(rootless::enter()),
        Some(macvtap::OUTSIDE) => exit(macvtap::stand()),
        Some(macvtap::OPENER) => ExitCode::from(macvtap::open_for_caller()),
        Some(silence::ARGUMENT) => {
            let given = arguments.next();
            let silence = silence::parse(given.as_deref().and_then(|text| text.to_str()));
            exit(silence.and_then(|silence| work(Some(silence), Role::Visitor).map(|never| match never {})))
        }
        Some(other) => {
            log(&format!("no such argument '{other}'; see iolab-agent --help"));
            ExitCode::from(2)
        }
        None => exit(work(None, Role::Visitor).map(|never| match never {})),
    }
}

/// Role of the agent on its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An ordinary process.
    Visitor,
    /// The first process (PID 1).
    Init,
}

/// Log the error of `outcome`, if any, and return the exit status.
fn exit(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn work(silence: Option<Duration>, role: Role) -> anyhow::Result<std::convert::Infallible> {
    if role == Role::Visitor && io::stdin().is_terminal() {
        log("this speaks JSON-RPC 2.0 to an iolab controller, one message per line; end it with Ctrl-D; see --help");
    }
    open_files::raise()?;
    let signals = block_signals(role)?;
    let user = Uid::effective();
    let state = StateFolder::open()?;
    let host_interfaces = (!user.is_root()).then(facts::interfaces);
    // The process that stays outside the namespaces must be started before the agent enters namespaces.
    let door = (!user.is_root()).then(macvtap::Door::make);
    let refusal = if user.is_root() {
        None
    } else {
        rootless::enter_if_possible().err().map(|error| format!("{error:#}"))
    };
    let author = introduce(!user.is_root() && refusal.is_none())?;
    let (door, closed) = match door {
        Some(Err(why)) => (None, Some(why)),
        made => (made.and_then(Result::ok), None),
    };
    let host =
        Host::new(state, author, host_interfaces, role == Role::Init, door, |host| ending::end(host, |_| {}));
    let host = Arc::new(host.context("starting the agent's threads")?);
    end_on_signals(&host, signals)?;
    if host.author.rootless {
        commands::bring_up_loopback(&host);
    }
    let hello = greeting::greet(&host, &Beginning { user, refusal, closed })?;
    if let Some(silence) = silence {
        silence::watch(&host, silence)?;
    }
    let ends = Arc::clone(&host);
    host.output.begin(move || ending::end(&ends, |_| {})).context("starting a thread")?;
    // The queue is empty before the first line, so sending cannot fail.
    let _ = host.output.send(&NotificationLine::from(Notification::Hello(hello)));
    serve::serve(&host)
}

/// Return this process as the author of the journal.
fn introduce(rootless: bool) -> anyhow::Result<Author> {
    let pid = std::process::id();
    let seen = procfs::stat(pid).context("reading /proc/self/stat; is /proc mounted?")?;
    Ok(Author {
        pid,
        start_ticks: seen.start_ticks,
        started_ns: clock::now_ns(),
        boot_id: procfs::boot_id(),
        rootless,
    })
}

/// Block the signals in all threads, so that one thread receives them. The controller handles keyboard
/// interrupts.
fn block_signals(role: Role) -> anyhow::Result<SigSet> {
    let mut signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT]);
    if role == Role::Init {
        signals.add(Signal::SIGCHLD);
    }
    signals.thread_block().context("blocking signals")?;
    Ok(signals)
}

fn end_on_signals(host: &Arc<Host>, signals: SigSet) -> anyhow::Result<()> {
    let host = Arc::clone(host);
    let thread = thread::Builder::new().name("signals".to_owned());
    let waiting = thread.spawn(move || loop {
        match signals.wait() {
            Ok(Signal::SIGTERM | Signal::SIGHUP) => ending::end(&host, |_| {}),
            Ok(Signal::SIGCHLD) => host.children.collect_orphans(),
            _ => {}
        }
    });
    waiting.map(drop).context("starting a thread")
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn log(text: &str) {
    // Without standard error there is no place for the message.
    let _ = writeln!(io::stderr(), "iolab-agent: {text}");
}
