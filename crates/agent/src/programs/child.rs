//! A started process: reads its output, detects its exit, and collects it. The module also has the list of all running
//! processes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use iolab_protocol::results::{Ending, Output};
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::resource::{getrusage, Usage, UsageWho};
use nix::sys::signal::{killpg, Signal};
use nix::sys::time::TimeVal;
use nix::sys::wait::{waitid, waitpid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use rustix::process::{pidfd_open, PidfdFlags};

use crate::kernel::clock::now_ns;
use crate::kernel::sync::lock;
use crate::programs::capture::{Capture, Search};

/// The exit of a process, with its CPU time.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Exit status or signal.
    pub ending: Ending,
    /// Time at which the exit was detected, in ns.
    pub end_ns: u64,
    /// CPU time in user mode, in ns.
    pub cpu_user_ns: u64,
    /// CPU time in kernel mode, in ns.
    pub cpu_system_ns: u64,
}

/// The agent's ends of a process's pipes.
pub struct Pipes {
    /// Standard input, with the bytes to write.
    pub stdin: Option<(File, Vec<u8>)>,
    /// Standard output.
    pub stdout: Option<File>,
    /// Standard error.
    pub stderr: Option<File>,
}

/// Treatment of the other members of a process group after the exit of its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// The members are killed.
    End,
    /// The members continue, as after a shell's command.
    GoOn,
}

/// Result of serving a program.
pub enum Tended {
    /// The program has exited and was collected.
    Ended {
        /// Whether it was killed at its deadline.
        timed_out: bool,
    },
    /// The program was killed but does not exit, because it waits in the kernel, for example for an unresponsive disk.
    /// The pipes of the program must still be served.
    Stuck(Pipes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    End,
    Stdout,
    Stderr,
    Stdin,
}

/// A started process, which leads its process group.
pub struct Child {
    /// Process ID.
    pub pid: u32,
    /// Start time in ns.
    pub begin_ns: u64,
    handle: OwnedFd,
    seen: Mutex<Seen>,
    changed: Condvar,
}

struct Seen {
    stdout: (Capture, Search),
    stderr: (Capture, Search),
    end: Option<End>,
}

impl Child {
    /// Create the handle of the process `pid`, which was just started.
    pub fn new(pid: u32, begin_ns: u64, capture_bytes: usize, search: Option<&str>) -> io::Result<Self> {
        let handle = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        let handle = pidfd_open(handle.ok_or(ErrorKind::InvalidInput)?, PidfdFlags::empty())?;
        let stream = || (Capture::new(capture_bytes), Search::new(search.unwrap_or_default()));
        let seen = Mutex::new(Seen { stdout: stream(), stderr: stream(), end: None });
        Ok(Self { pid, begin_ns, handle, seen, changed: Condvar::new() })
    }

    /// Send `signal` to the process group, unless the process was already collected.
    pub fn signal(&self, signal: Signal) {
        let seen = lock(&self.seen);
        // The kernel does not reuse the group ID before the leader is collected.
        if seen.end.is_none() {
            let _ = killpg(self.group(), signal);
        }
    }

    /// Kill the process group.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Return the exit of the process; `None` while it runs.
    pub fn end(&self) -> Option<End> {
        lock(&self.seen).end
    }

    /// Whether the search text was found in the output.
    pub fn search_found(&self) -> bool {
        let seen = lock(&self.seen);
        seen.stdout.1.found() || seen.stderr.1.found()
    }

    /// Return the output so far.
    pub fn output(&self) -> Output {
        let seen = lock(&self.seen);
        let (stdout, stdout_dropped_bytes) = seen.stdout.0.text();
        let (stderr, stderr_dropped_bytes) = seen.stderr.0.text();
        Output { stdout, stderr, stdout_dropped_bytes, stderr_dropped_bytes }
    }

    /// Return the first `limit` bytes of the output, standard error after standard output.
    pub fn output_beginning(&self, limit: usize) -> String {
        let seen = lock(&self.seen);
        let mut text = seen.stdout.0.beginning(limit);
        text.push_str(&seen.stderr.0.beginning(limit.saturating_sub(text.len())));
        text
    }

    /// Wait for a change of the process, for at most `limit`.
    pub fn wait_for_change(&self, limit: Duration) {
        let seen = lock(&self.seen);
        if seen.end.is_none() {
            drop(self.changed.wait_timeout(seen, limit));
        }
    }

    /// Wait for the exit of the process, until `deadline`.
    pub fn wait_for_end(&self, deadline: Instant) -> Option<End> {
        let mut seen = lock(&self.seen);
        while seen.end.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            seen = self.changed.wait_timeout(seen, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        seen.end
    }

    /// Serve the pipes of the process until it exits, then collect it. The process group is killed at `deadline`, and
    /// with `Kin::End` also when the process exits. Outputs that stay open after the exit (held by a daemon) are closed
    /// after a short time. The result is never `Stuck` without a deadline.
    pub fn tend(&self, mut pipes: Pipes, deadline: Option<Instant>, kin: Kin) -> Tended {
        if let Some((stdin, _)) = &pipes.stdin {
            let _ = fcntl(stdin, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        }
        let (mut killed, mut ended) = (None::<Instant>, None::<(Instant, u64)>);
        loop {
            let now = Instant::now();
            if killed.is_none() && ended.is_none() && deadline.is_some_and(|deadline| deadline <= now) {
                killed = Some(now);
                self.kill();
            }
            if ended.is_none() && killed.is_some_and(|at| at + KILL_LIMIT <= now) {
                return Tended::Stuck(pipes);
            }
            let closed = pipes.stdout.is_none() && pipes.stderr.is_none();
            if let Some((at, end_ns)) = ended {
                if closed || now >= at + DRAIN {
                    self.collect(end_ns);
                    return Tended::Ended { timed_out: killed.is_some() };
                }
            }
            let limit = killed.map(|at| at + KILL_LIMIT).or(deadline);
            let until = ended.map(|(at, _)| at + DRAIN).or(limit);
            if self.serve(
                &mut pipes,
                until.map(|until| until.saturating_duration_since(now)),
                ended.is_some(),
            ) {
                ended = Some((Instant::now(), now_ns()));
                if kin == Kin::End {
                    self.kill();
                }
            }
        }
    }

    /// Wait for events and handle them. Return whether the process has exited.
    fn serve(&self, pipes: &mut Pipes, limit: Option<Duration>, ended: bool) -> bool {
        let ready = self.wait_for_events(pipes, limit, ended);
        for event in &ready {
            match event {
                Event::End => {}
                Event::Stdout => self.take(&mut pipes.stdout, |seen| &mut seen.stdout),
                Event::Stderr => self.take(&mut pipes.stderr, |seen| &mut seen.stderr),
                Event::Stdin => feed(&mut pipes.stdin),
            }
        }
        ready.contains(&Event::End)
    }

    fn wait_for_events(&self, pipes: &Pipes, limit: Option<Duration>, ended: bool) -> Vec<Event> {
        let stdin = pipes.stdin.as_ref().map(|(file, _)| file);
        let sources = [
            (Event::End, (!ended).then(|| self.handle.as_fd()), PollFlags::POLLIN),
            (Event::Stdout, pipes.stdout.as_ref().map(File::as_fd), PollFlags::POLLIN),
            (Event::Stderr, pipes.stderr.as_ref().map(File::as_fd), PollFlags::POLLIN),
            (Event::Stdin, stdin.map(File::as_fd), PollFlags::POLLOUT),
        ];
        let open =
            sources.into_iter().filter_map(|(event, descriptor, flags)| Some((event, descriptor?, flags)));
        let (events, mut polled): (Vec<Event>, Vec<PollFd<'_>>) =
            open.map(|(event, descriptor, flags)| (event, PollFd::new(descriptor, flags))).unzip();
        // An interrupted or failed poll reports no events; the caller repeats it.
        let _ = poll(&mut polled, poll_timeout(limit));
        let ready = events.into_iter().zip(&polled).filter(|(_, polled)| polled.any().unwrap_or(false));
        ready.map(|(event, _)| event).collect()
    }

    #[allow(clippy::large_stack_arrays)] // the thread's stack is many times as large as the buffer
    fn take(&self, pipe: &mut Option<File>, stream: fn(&mut Seen) -> &mut (Capture, Search)) {
        let mut buffer = [0; 64 * 1024];
        let Some(file) = pipe else { return };
        match file.read(&mut buffer) {
            Ok(0) => *pipe = None,
            Ok(length) => {
                let mut seen = lock(&self.seen);
                let (capture, search) = stream(&mut seen);
                capture.push(&buffer[..length]);
                search.push(&buffer[..length]);
                drop(seen);
                self.changed.notify_all();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => *pipe = None,
        }
    }

    fn collect(&self, end_ns: u64) {
        // The difference of two rusage readings is the CPU time of this child only if no other child is
        // collected in between.
        let _alone = lock(&COLLECTING);
        let mut seen = lock(&self.seen);
        let before = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let ending = wait(self.group());
        let after = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let spent = |time: fn(&Usage) -> TimeVal| match (&before, &after) {
            (Some(before), Some(after)) => nanoseconds(time(after)).saturating_sub(nanoseconds(time(before))),
            _ => 0,
        };
        let (cpu_user_ns, cpu_system_ns) = (spent(Usage::user_time), spent(Usage::system_time));
        seen.end = Some(End { ending, end_ns, cpu_user_ns, cpu_system_ns });
        drop(seen);
        self.changed.notify_all();
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid).unwrap_or(i32::MAX))
    }
}

fn wait(pid: Pid) -> Ending {
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, status)) => return Ending { exit_status: Some(status), signal: None },
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                return Ending { exit_status: None, signal: Some(signal as i32) }
            }
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(_) => return Ending { exit_status: None, signal: None },
        }
    }
}

fn feed(stdin: &mut Option<(File, Vec<u8>)>) {
    let Some((file, text)) = stdin else { return };
    match file.write(text) {
        Ok(length) if length < text.len() => drop(text.drain(..length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        // All bytes are written, or the program has closed its input.
        _ => *stdin = None,
    }
}

fn poll_timeout(limit: Option<Duration>) -> PollTimeout {
    limit.map_or(PollTimeout::NONE, |limit| {
        // Round up, so that the deadline has passed when poll returns.
        let limit_ms = i32::try_from(limit.as_millis() + 1).unwrap_or(i32::MAX);
        PollTimeout::try_from(limit_ms).unwrap_or(PollTimeout::MAX)
    })
}

fn nanoseconds(time: TimeVal) -> u64 {
    u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_usec() * 1_000).unwrap_or(0)
}

/// Lock that is held while a child is collected, so that its CPU time is separated from that of other children.
static COLLECTING: Mutex<()> = Mutex::new(());

/// Call a function that starts a short program and waits for it, such as one of the standard library.
///
/// No child is collected during the call: an agent that is the first process would mistake the program for an
/// orphan.
pub fn collecting_alone<T>(run: impl FnOnce() -> T) -> T {
    let _alone = lock(&COLLECTING);
    run()
}

/// Maximum time for a killed process to exit.
pub const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Maximum time for outputs to stay open after the exit of their process.
const DRAIN: Duration = Duration::from_millis(100);

/// Maximum number of attempts to collect the orphans that an exited child of the agent hides.
const ORPHAN_TRIES: usize = 100;

/// All running processes.
#[derive(Default)]
pub struct Children {
    list: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    closed: bool,
    any_started: bool,
    children: HashMap<u32, Arc<Child>>,
}

impl Children {
    /// Start and add a process, unless the agent is shutting down; with `undoes`, also start it during the shutdown.
    pub fn admit<T>(
        &self,
        undoes: bool,
        start: impl FnOnce() -> io::Result<(Arc<Child>, T)>,
    ) -> io::Result<(Arc<Child>, T)> {
        let mut list = lock(&self.list);
        if list.closed && !undoes {
            return Err(io::Error::new(ErrorKind::Interrupted, "the agent ends"));
        }
        list.children.retain(|_, child| child.end().is_none());
        let (child, rest) = start()?;
        list.any_started = true;
        list.children.insert(child.pid, Arc::clone(&child));
        Ok((child, rest))
    }

    /// Kill all processes, and refuse new ones.
    pub fn close(&self) {
        let mut list = lock(&self.list);
        list.closed = true;
        list.children.values().for_each(|child| child.kill());
    }

    /// Collect orphaned processes that have exited, if this agent is the first process of a machine.
    pub fn collect_orphans(&self) {
        for _ in 0..ORPHAN_TRIES {
            if self.collect_orphans_once() {
                return;
            }
            // An exited child of the agent hides the orphans until its thread collects it.
            std::thread::sleep(DRAIN / 10);
        }
    }

    /// Collect the visible orphans. Return false if an exited child of the agent hides further orphans.
    fn collect_orphans_once(&self) -> bool {
        let _alone = lock(&COLLECTING);
        let list = lock(&self.list);
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            let Some(pid) = waitid(Id::All, flags).ok().and_then(|seen| seen.pid()) else { return true };
            if u32::try_from(pid.as_raw()).is_ok_and(|pid| list.children.contains_key(&pid)) {
                return false;
            }
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }

    /// Whether any process was ever started.
    pub fn any_started(&self) -> bool {
        lock(&self.list).any_started
    }
}
