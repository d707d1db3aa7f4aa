//! The agent's side of starting a program. One long-lived thread starts all programs, because the kernel
//! sends the parent-death signal when the *thread* that started a process exits.

use crate::programs::launched::{LaunchFailure, LaunchReport};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iolab_protocol::calls::{Confined, OwnUser};
use iolab_protocol::results::Walls;
use iolab_protocol::{ErrorCode, ErrorObject};
use nix::fcntl::{fcntl, FcntlArg, FdFlag, OFlag};
use nix::unistd::pipe2;

use crate::kernel::clock::now_ns;
use crate::kernel::faults::{describe, refused, Answer};
use crate::kernel::procfs::MARK;
use crate::programs::child::{Child, Children, End, Kin, Pipes, Tended};
use crate::programs::confine;
use crate::programs::launch::{Launch, Place};

/// A program to start.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Name or path of the program, and its arguments; not empty.
    pub argv: Vec<String>,
    /// Variables added to the agent's environment.
    pub env: BTreeMap<String, String>,
    /// Network namespace of the program.
    pub place: Place,
    /// CPUs on which the program may run.
    pub cpus: Option<Vec<usize>>,
    /// Standard input of the program.
    pub stdin: String,
    /// Maximum number of bytes to capture from each output stream.
    pub capture_bytes: usize,
    /// Text to search for in the output.
    pub search: Option<String>,
    /// Open files passed to the program, each with its number.
    pub files: Arc<[(i32, OwnedFd)]>,
    /// Files for the program, if it runs as a separate user.
    pub own_user: Option<OwnUser>,
    /// Objects that the program may reach, if it is confined.
    pub confined: Option<Confined>,
    /// Whether the program undoes a change; such a program may start while the agent is shutting down.
    pub undoes: bool,
}

/// A program that waits for permission to start.
pub struct Held {
    /// Process of the program.
    pub child: Arc<Child>,
    /// Pipes of the program's standard streams.
    pub pipes: Pipes,
    status: File,
    go: File,
}

impl Held {
    /// Start the program. Return its confinement, if any; an error if it could not be started.
    pub fn begin(self) -> Answer<(Arc<Child>, Pipes, Option<Walls>)> {
        let Self { child, pipes, mut status, mut go } = self;
        // A launcher that has failed does not read the byte; the status pipe contains the reason.
        let _ = go.write_all(b"g");
        let mut told = Vec::new();
        // If the status pipe is unreadable, the program may have started: only a report shows that it has
        // not.
        let _ = status.read_to_end(&mut told);
        match begun(&told) {
            Ok(walls) => Ok((child, pipes, walls)),
            Err(failure) => {
                child.tend(pipes, None, Kin::End);
                Err(failure)
            }
        }
    }

    /// Kill the launcher before it executes the program.
    pub fn abandon(self) {
        self.child.kill();
        self.child.tend(self.pipes, None, Kin::End);
    }
}

/// Parse the launcher's reports: the confinement, or the reason why the program was not started.
fn begun(told: &[u8]) -> Answer<Option<Walls>> {
    let mut walls = None;
    for report in serde_json::Deserializer::from_slice(told).into_iter::<LaunchReport>() {
        match report {
            Ok(LaunchReport::Walls(each)) => walls = Some(each),
            Ok(LaunchReport::Failure(LaunchFailure { doing, path, errno })) => {
                let message = format!("{doing} '{path}': {}", describe(errno));
                return Err(ErrorObject::refused(message, Some(errno), path));
            }
            Err(_) => {
                return Err(ErrorObject::refused("starting program: the launcher was killed", None, ""))
            }
        }
    }
    Ok(walls)
}

type Order = (Program, Sender<Answer<Held>>);

/// The thread that starts programs.
pub struct Spawner {
    orders: Sender<Order>,
    journal: String,
    children: Arc<Children>,
}

impl Spawner {
    /// Start the thread, which starts programs for the agent with the journal ID `journal` and adds the programs to
    /// `children`.
    pub fn begin(journal: String, children: Arc<Children>) -> io::Result<Self> {
        let (orders, received) = mpsc::channel::<Order>();
        let spawner = Self { orders, journal: journal.clone(), children: Arc::clone(&children) };
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for (program, answer) in received {
                let started = start(&program, &journal, &children);
                // Close the agent's copies of the passed files.
                drop(program);
                // If the requester does not wait any more, the agent is shutting down.
                let _ = answer.send(started);
            }
        })?;
        Ok(spawner)
    }

    /// Start a launcher, which waits for permission to execute the program.
    pub fn start(&self, program: Program) -> Answer<Held> {
        let gone = || refused("starting program", "the agent ends", &io::ErrorKind::BrokenPipe.into());
        check_words(&program.argv, &program.env)?;
        let (answer, answered) = mpsc::channel();
        if program.confined.is_some() {
            self.start_confined(program, answer)?;
        } else {
            self.orders.send((program, answer)).map_err(|_| gone())?;
        }
        answered.recv().map_err(|_| gone())?
    }
}

impl Spawner {
    /// Start a confined program from a separate thread, which lasts as long as the program. A thread with a
    /// new process namespace starts all later children in it, and without privileges it cannot return.
    fn start_confined(&self, program: Program, answer: Sender<Answer<Held>>) -> Answer<()> {
        let (journal, children) = (self.journal.clone(), Arc::clone(&self.children));
        let work = move || {
            let name = program.argv[0].clone();
            let own =
                confine::have_own_processes().map_err(|error| refused("starting program", &name, &error));
            let started = own.and_then(|()| start(&program, &journal, &children));
            drop(program);
            let child = started.as_ref().ok().map(|held| Arc::clone(&held.child));
            let _ = answer.send(started);
            while child.as_ref().is_some_and(|child| child.end().is_none()) {
                child.iter().for_each(|child| child.wait_for_change(LOOK_AGAIN));
            }
        };
        let thread = thread::Builder::new().name("spawner".to_owned()).spawn(work);
        thread.map(drop).map_err(|error| refused("starting a thread in", "the agent", &error))
    }
}

/// Interval between checks whether the program has exited; its exit also wakes the thread.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Refuse arguments and environment variables that the system cannot pass to a program.
pub fn check_words(argv: &[String], env: &BTreeMap<String, String>) -> Answer<()> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(ErrorObject::params("'argv' needs a program", argv));
    }
    let mut words = argv.iter().chain(env.keys()).chain(env.values());
    if let Some(word) = words.find(|word| word.contains('\0')) {
        return Err(ErrorObject::params("'argv' and 'env' are texts without NUL", word.as_str()));
    }
    match env.keys().find(|name| name.is_empty() || name.contains('=')) {
        Some(name) => {
            Err(ErrorObject::params("a variable's name in 'env' is not empty and has no '='", name.as_str()))
        }
        None => Ok(()),
    }
}

fn start(program: &Program, journal: &str, children: &Children) -> Answer<Held> {
    let name = program.argv[0].clone();
    try_start(program, journal, children).map_err(|error| refused("starting program", &name, &error))
}

fn try_start(program: &Program, journal: &str, children: &Children) -> io::Result<Held> {
    let (status, status_of_child) = pipe2(OFlag::O_CLOEXEC)?;
    let (go_of_child, go) = pipe2(OFlag::O_CLOEXEC)?;
    inherit(&status_of_child)?;
    inherit(&go_of_child)?;
    program.files.iter().try_for_each(|(_, file)| inherit(file))?;
    let settings = Launch {
        parent: i32::try_from(std::process::id()).unwrap_or(0),
        status: status_of_child.as_raw_fd(),
        go: go_of_child.as_raw_fd(),
        place: program.place.clone(),
        cpus: program.cpus.clone(),
        files: program.files.iter().map(|(target, file)| (file.as_raw_fd(), *target)).collect(),
        own_user: program.own_user.clone(),
        confined: program.confined.clone(),
    };
    let mut command = Command::new("/proc/self/exe");
    command.arg("launch").arg(serde_json::to_string(&settings)?).args(&program.argv);
    if program.confined.is_some() {
        command.env_clear(); // do not expose the environment of the agent's user
    }
    command.env("PATH", search_path()).envs(&program.env).env(MARK, journal).process_group(0);
    let stdin = if program.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin_ns = now_ns();
    let (child, mut process) = children.admit(program.undoes, || {
        let process = command.spawn()?;
        let child = Child::new(process.id(), begin_ns, program.capture_bytes, program.search.as_deref())?;
        Ok((Arc::new(child), process))
    })?;
    let pipes = Pipes {
        stdin: process
            .stdin
            .take()
            .map(|pipe| (File::from(OwnedFd::from(pipe)), program.stdin.clone().into_bytes())),
        stdout: process.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe))),
        stderr: process.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe))),
    };
    Ok(Held { child, pipes, status: status.into(), go: go.into() })
}

fn inherit(descriptor: &OwnedFd) -> io::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Return the agent's PATH with the folders of system programs, which an ordinary user's PATH lacks.
pub fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}
/// A program that has exited.
pub struct Ran {
    /// Process of the program.
    pub child: Arc<Child>,
    /// Exit of the program.
    pub end: End,
    /// Whether it was killed at its deadline.
    pub timed_out: bool,
}

/// A running program whose pipes are not served yet.
pub struct Begun {
    /// Process of the program.
    pub child: Arc<Child>,
    /// Pipes of the program's standard streams.
    pub pipes: Pipes,
    /// Time of the request.
    pub ordered: Instant,
}

impl Begun {
    /// Serve the program until it exits, for at most `limit` after the request. A program that does not exit
    /// even when killed is an error, and is collected when it exits.
    pub fn finish(self, limit: Duration) -> Answer<Ran> {
        let Self { child, pipes, ordered } = self;
        let timed_out = match child.tend(pipes, ordered.checked_add(limit), Kin::GoOn) {
            Tended::Ended { timed_out } => timed_out,
            Tended::Stuck(pipes) => return Err(stuck(child, pipes, limit)),
        };
        let end = child.end().ok_or_else(|| ErrorObject::new(ErrorCode::Internal, "a program was lost"))?;
        Ok(Ran { child, end, timed_out })
    }
}

fn stuck(child: Arc<Child>, pipes: Pipes, limit: Duration) -> ErrorObject {
    let pid = child.pid;
    // If no thread can be started, the process is never collected, which is harmless.
    let _ = std::thread::Builder::new().name(format!("tend {pid}")).spawn(move || {
        child.tend(pipes, None, Kin::GoOn);
    });
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let message = format!(
        "process {pid} did not end within {limit_ms} ms, nor when it was killed: it waits in the kernel, as for a disk that does not answer"
    );
    ErrorObject::deadline(message, limit_ms)
}
