//! The agent as the first process (PID 1) of a machine: boots the machine, serves consecutive sessions on its
//! channel, and never exits.

mod boot;
mod channel;
mod command_line;
mod modules;
mod mounts;
mod power;

use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::panic;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

pub use power::power_off;

use crate::log;
use command_line::CommandLine;

/// Whether the agent must be the first process of a machine: started as `/init`, or with the argument `init`.
pub fn is_asked_for(program: Option<&OsStr>, argument: Option<&str>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    argument == Some(ARGUMENT) || name == Some(OsStr::new(ARGUMENT))
}

/// Run as the first process. `serve` uses standard input and output.
pub fn begin(again: bool, serve: impl FnOnce() -> anyhow::Result<Infallible> + panic::UnwindSafe) -> u8 {
    if std::process::id() != 1 {
        log("'init' is for the first process of a machine, which this is not; see iolab-agent --help");
        return 2;
    }
    tell_panics();
    let served = panic::catch_unwind(|| {
        if !again {
            boot::bring_up()?;
        }
        let line = CommandLine::read().context("reading /proc/cmdline")?;
        channel::take(line.channel.as_deref(), again).context("finding the channel")?;
        serve()
    });
    match served {
        Ok(Ok(never)) => match never {},
        Ok(Err(error)) => log(&format!("{error:#}; powering off")),
        // The panic hook has already logged the panic.
        Err(_) => log("powering off"),
    }
    power_off()
}

/// Start a new session by executing the agent again in the same process, so that no memory of the old session
/// remains.
pub fn begin_again() -> ! {
    let error = Command::new("/proc/self/exe").args([ARGUMENT, AGAIN]).exec();
    log(&format!("beginning a new session: {error}; powering off"));
    power_off()
}

/// Install a hook that logs panics. A panic of a request only fails that request; a panic of a thread that
/// all requests need powers the machine off.
fn tell_panics() {
    panic::set_hook(Box::new(|what| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("of a request").to_owned();
        log(&format!("thread {name} {what}").replace('\n', " "));
        if VITAL_THREADS.contains(&name.as_str()) {
            log("powering off");
            power_off();
        }
    }));
}

const ARGUMENT: &str = "init";
/// Second command-line argument of the agent in all sessions after the first.
pub const AGAIN: &str = "again";
const VITAL_THREADS: [&str; 3] = ["output", "spawner", "signals"];
