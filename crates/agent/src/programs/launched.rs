//! Common steps of all launched processes: they exit with the agent, and they report failures.

use iolab_protocol::results::Walls;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};

/// The reason why a program was not started.
#[derive(Debug, Serialize, Deserialize)]
pub struct LaunchFailure {
    /// The operation that failed.
    pub doing: String,
    /// File or program of the operation.
    pub path: String,
    /// Error number of the operating system.
    pub errno: i32,
}

impl LaunchFailure {
    /// Create a failure from the operation, its file and the error.
    pub fn new(doing: &str, path: impl Into<String>, error: &io::Error) -> Self {
        Self { doing: doing.to_owned(), path: path.into(), errno: error.raw_os_error().unwrap_or(0) }
    }
}

/// A launcher's report on its status pipe.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchReport {
    /// The launcher is about to execute the program with this confinement.
    Walls(Walls),
    /// The launcher could not execute the program.
    Failure(LaunchFailure),
}

impl LaunchReport {
    /// Write the report. A failure is ignored, because the agent has exited then.
    pub fn write(&self, status: &mut File) {
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = status.write_all(&text);
        }
    }
}

/// Set the parent-death signal, so that this process exits with the agent.
pub fn die_with_parent() -> Result<(), LaunchFailure> {
    set_pdeathsig(Signal::SIGKILL)
        .map_err(|errno| LaunchFailure::new("asking for the parent-death signal", "", &errno.into()))
}

/// Create the failure for an agent that exited before the parent-death signal was set.
pub fn agent_gone() -> LaunchFailure {
    LaunchFailure::new("looking for the agent", "", &nix::Error::ESRCH.into())
}
