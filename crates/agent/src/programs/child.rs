//! One started process: read its output, see its end, collect it. And the list of all that run.

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

/// How a process ended and what it cost.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Exit status or signal.
    pub ending: Ending,
    /// When the end was seen (ns).
    pub end_ns: u64,
    /// CPU time in user mode (ns).
    pub cpu_user_ns: u64,
    /// CPU time in the kernel (ns).
    pub cpu_system_ns: u64,
}

/// The agent's ends of a process's pipes.
pub struct Pipes {
    /// Its standard input and what is to be written there.
    pub stdin: Option<(File, Vec<u8>)>,
    /// Its standard output.
    pub stdout: Option<File>,
    /// Its standard error.
    pub stderr: Option<File>,
}

/// What becomes of the rest of a group when its leader has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// It is killed.
    End,
    /// It goes on, as after a shell's command.
    GoOn,
}

/// What became of a program that was tended.
pub enum Tended {
    /// It has ended, and was collected.
    Ended {
        /// Whether it was killed because its time was over.
        timed_out: bool,
    },
    /// It was killed and does not end: it waits in the kernel, as for a disk that does not answer. Its pipes are still to be served.
    Stuck(Pipes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    End,
    Stdout,
    Stderr,
    Stdin,
}

/// A started process, leader of its group.
pub struct Child {
    /// The process.
    pub pid: u32,
    /// When it was started (ns).
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
    /// The process `pid`, which was just started.
    pub fn new(pid: u32, begin_ns: u64, capture_bytes: usize, search: Option<&str>) -> io::Result<Self> {
        let handle = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        let handle = pidfd_open(handle.ok_or(ErrorKind::InvalidInput)?, PidfdFlags::empty())?;
        let stream = || (Capture::new(capture_bytes), Search::new(search.unwrap_or_default()));
        let seen = Mutex::new(Seen { stdout: stream(), stderr: stream(), end: None });
        Ok(Self { pid, begin_ns, handle, seen, changed: Condvar::new() })
    }

    /// Send `signal` to the process's group, unless the process was collected already.
    pub fn signal(&self, signal: Signal) {
        let seen = lock(&self.seen);
        // While the leader is not collected its number is not given to another group.
        if seen.end.is_none() {
            let _ = killpg(self.group(), signal);
        }
    }

    /// Kill the process's group.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// How it ended; `None` while it runs.
    pub fn end(&self) -> Option<End> {
        lock(&self.seen).end
    }

    /// Whether the searched text was seen in its output.
    pub fn search_found(&self) -> bool {
        let seen = lock(&self.seen);
        seen.stdout.1.found() || seen.stderr.1.found()
    }

    /// What it wrote so far.
    pub fn output(&self) -> Output {
        let seen = lock(&self.seen);
        let (stdout, stdout_dropped_bytes) = seen.stdout.0.text();
        let (stderr, stderr_dropped_bytes) = seen.stderr.0.text();
        Output { stdout, stderr, stdout_dropped_bytes, stderr_dropped_bytes }
    }

    /// The first `limit` bytes of its output, standard error after standard output.
    pub fn output_beginning(&self, limit: usize) -> String {
        let seen = lock(&self.seen);
        let mut text = seen.stdout.0.beginning(limit);
        text.push_str(&seen.stderr.0.beginning(limit.saturating_sub(text.len())));
        text
    }

    /// Wait until something about the process changes, at most for `limit`.
    pub fn wait_for_change(&self, limit: Duration) {
        let seen = lock(&self.seen);
        if seen.end.is_none() {
            drop(self.changed.wait_timeout(seen, limit));
        }
    }

    /// Wait for the end, at most until `deadline`.
    pub fn wait_for_end(&self, deadline: Instant) -> Option<End> {
        let mut seen = lock(&self.seen);
        while seen.end.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            seen = self.changed.wait_timeout(seen, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        seen.end
    }

    /// Serve the process's pipes until it has ended, then collect it. At `deadline` its group is killed. With `Kin::End` the rest
    /// of its group is killed when it ends. Outputs that stay open after the end (a daemon left behind holds them) are given up
    /// after a short while. Without a deadline it always ends.
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

    /// Wait for events and serve them; returns whether the process was seen to have ended.
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
        // A poll that was interrupted or refused has no events; the caller's loop tries again.
        let _ = poll(&mut polled, poll_timeout(limit));
        let ready = events.into_iter().zip(&polled).filter(|(_, polled)| polled.any().unwrap_or(false));
        ready.map(|(event, _)| event).collect()
    }

    #[allow(clippy::large_stack_arrays)] // Its thread has a stack many times as large.
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
        // Two rusage readings around one collection differ by what that child used, if no other is collected between them.
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
        // All written, or the program reads no more.
        _ => *stdin = None,
    }
}

fn poll_timeout(limit: Option<Duration>) -> PollTimeout {
    limit.map_or(PollTimeout::NONE, |limit| {
        // Rounded up, so that the deadline has passed when poll returns.
        let limit_ms = i32::try_from(limit.as_millis() + 1).unwrap_or(i32::MAX);
        PollTimeout::try_from(limit_ms).unwrap_or(PollTimeout::MAX)
    })
}

fn nanoseconds(time: TimeVal) -> u64 {
    u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_usec() * 1_000).unwrap_or(0)
}

/// Held while a child is collected, so that its CPU time can be told from other children's.
static COLLECTING: Mutex<()> = Mutex::new(());

/// Do something that starts a short program and waits for it by itself, as the standard library does.
///
/// Meanwhile nobody else collects: a first process would take that program for an orphan, and its end would be lost.
pub fn collecting_alone<T>(run: impl FnOnce() -> T) -> T {
    let _alone = lock(&COLLECTING);
    run()
}

/// How long a killed process may take to end.
pub const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How long outputs may stay open after a process ended.
const DRAIN: Duration = Duration::from_millis(100);

/// How often to look for orphans behind a process of ours that has ended.
const ORPHAN_TRIES: usize = 100;

/// All processes that run.
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
    /// Start one more, unless the agent ends; `undoes` is allowed even then.
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

    /// Kill all, admit no more.
    pub fn close(&self) {
        let mut list = lock(&self.list);
        list.closed = true;
        list.children.values().for_each(|child| child.kill());
    }

    /// Collect ended processes that nobody waits for: the orphans of a machine whose first process this is.
    pub fn collect_orphans(&self) {
        for _ in 0..ORPHAN_TRIES {
            if self.collect_orphans_once() {
                return;
            }
            // One of ours stands before them until its thread collects it.
            std::thread::sleep(DRAIN / 10);
        }
    }

    /// The same; false when it could not see them all.
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

    /// Whether there ever was one.
    pub fn any_started(&self) -> bool {
        lock(&self.list).any_started
    }
}
