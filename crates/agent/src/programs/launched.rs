//! What every launched process does: it dies with the agent, and says what it could not do.

use iolab_protocol::results::Walls;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};

/// Why a program was not started.
#[derive(Debug, Serialize, Deserialize)]
pub struct LaunchFailure {
    /// What was being done.
    pub doing: String,
    /// The file or program.
    pub path: String,
    /// What the system said.
    pub errno: i32,
}

impl LaunchFailure {
    /// What was being done with which file, and the error.
    pub fn new(doing: &str, path: impl Into<String>, error: &io::Error) -> Self {
        Self { doing: doing.to_owned(), path: path.into(), errno: error.raw_os_error().unwrap_or(0) }
    }
}

/// What a launcher says on its status pipe.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchReport {
    /// The next thing it does is to become the program, within these.
    Walls(Walls),
    /// It did not become the program.
    Failure(LaunchFailure),
}

impl LaunchReport {
    /// Say it. Nobody is left to tell when the agent has gone.
    pub fn write(&self, status: &mut File) {
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = status.write_all(&text);
        }
    }
}

/// Ask for the signal with which the agent's end is this process's too.
pub fn die_with_parent() -> Result<(), LaunchFailure> {
    set_pdeathsig(Signal::SIGKILL)
        .map_err(|errno| LaunchFailure::new("asking for the parent-death signal", "", &errno.into()))
}

/// The agent has ended before the signal was asked for.
pub fn agent_gone() -> LaunchFailure {
    LaunchFailure::new("looking for the agent", "", &nix::Error::ESRCH.into())
}
