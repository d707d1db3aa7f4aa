//! Root access for an agent in a user namespace: a process of the same user stays outside the namespace, where sudo
//! works. That process starts the opener once for each request, and exits with the agent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{bail, Context};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::message::{Reply, Request};
use super::opener;
use crate::kernel::packets::{limit_waiting, pair, receive, send};

/// Command-line argument that runs this program as the process outside the namespace.
pub const OUTSIDE: &str = "stay-outside";
/// Program that sudo starts. Root installs it in a folder to which users cannot write, so its existence also shows that
/// root permits its use.
pub const PRIVILEGED: &str = "/usr/local/libexec/iolab-agent";

/// The agent's connection to the process outside the namespace.
pub struct Door {
    control: OwnedFd,
}

impl Door {
    /// Start the process outside the namespace, if sudo permits this user to open macvtaps. Call this before
    /// the agent enters namespaces.
    ///
    /// # Errors
    /// Returns the reason why the agent cannot open macvtaps, as text for the user.
    pub fn make() -> Result<Self, String> {
        if !Path::new(PRIVILEGED).exists() {
            return Err(format!("there is no {PRIVILEGED}"));
        }
        let door = Self::begin().map_err(|error| error.to_string())?;
        match door.ask(&Request::Ready, None, READY_LIMIT)? {
            (Reply::Ready, _) => Ok(door),
            _ => Err(STRANGE.to_owned()),
        }
    }

    fn begin() -> io::Result<Self> {
        let (control, theirs) = pair()?;
        // The process exits when the other end of its standard input is closed.
        Command::new("/proc/self/exe")
            .arg(OUTSIDE)
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { control })
    }

    /// Request the device of the macvtap `interface` in the network namespace `namespace`.
    ///
    /// # Errors
    /// Returns the reason why the device was not opened.
    pub fn open(&self, interface: &str, namespace: BorrowedFd<'_>) -> Result<OwnedFd, String> {
        let request = Request::Open { interface: interface.to_owned() };
        match self.ask(&request, Some(namespace), OPEN_LIMIT)? {
            (Reply::Opened, Some(device)) => Ok(device),
            _ => Err(STRANGE.to_owned()),
        }
    }

    fn ask(
        &self,
        request: &Request,
        file: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> Result<(Reply, Option<OwnedFd>), String> {
        let reply = self.exchange(request, file, limit).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => format!("sudo did not answer within {} s", limit.as_secs()),
            _ => error.to_string(),
        })?;
        match reply.ok_or("the process outside is gone")? {
            (Reply::Refused { why }, _) => Err(why),
            granted => Ok(granted),
        }
    }

    fn exchange(
        &self,
        request: &Request,
        file: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> io::Result<Option<(Reply, Option<OwnedFd>)>> {
        let (own, theirs) = pair()?;
        limit_waiting(own.as_fd(), limit)?;
        send(own.as_fd(), request, file)?;
        send(self.control.as_fd(), &(), Some(theirs.as_fd()))?;
        drop(theirs); // close this copy, so that the end of the reply is detected
        receive(&own)
    }
}

/// Run as the process outside the namespace: start the opener for each connection, until the agent has
/// exited.
///
/// # Errors
/// Returns an error if standard input is not a connection to the agent.
pub fn stand() -> anyhow::Result<()> {
    // The process exits with the agent; openers in progress exit by themselves.
    set_pdeathsig(Signal::SIGKILL).context("asking for the parent-death signal")?;
    let control = io::stdin();
    while let Some(((), socket)) = receive(&control).context("waiting for the agent")? {
        let Some(socket) = socket else { bail!("a request came without a connection") };
        if let Err(why) = start_opener(&socket) {
            // A socket that is closed with unread data discards the data sent on it.
            let _ = limit_waiting(socket.as_fd(), AT_ONCE).and_then(|()| receive::<Request>(&socket));
            // Ignore a failure, because the requester may have exited. If the opener has replied, its reply arrived
            // first.
            let _ = send(socket.as_fd(), &Reply::Refused { why }, None);
        }
    }
    Ok(())
}

fn start_opener(socket: &OwnedFd) -> Result<(), String> {
    let stdin = socket.try_clone().map_err(|error| error.to_string())?;
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "--", PRIVILEGED, opener::ARGUMENT]).env("LC_ALL", "C").stdin(stdin);
    let ran = sudo.output().map_err(|error| format!("starting sudo: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| format!("sudo ended with {}", ran.status), str::to_owned))
}

const STRANGE: &str = "the answer was to another question; is it of another version?";
/// Timeout when an agent starts; sudo may resolve host names.
const READY_LIMIT: Duration = Duration::from_secs(10);
const OPEN_LIMIT: Duration = Duration::from_secs(10);
const AT_ONCE: Duration = Duration::from_millis(1);
