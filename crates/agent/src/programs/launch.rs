//! The child's side of starting a program. This program, started as `iolab-agent launch`, sets up its process
//! (parent-death signal, namespace, CPUs) with ordinary system calls and then executes the requested program.
//! No code runs between fork and exec.

use crate::programs::launched::{agent_gone, die_with_parent, LaunchFailure, LaunchReport};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use iolab_protocol::calls::{Confined, OwnUser};
use iolab_sys::descriptors::{self, Rearranged};
use nix::sched::{sched_setaffinity, setns, unshare, CloneFlags, CpuSet};
use nix::sys::signal::SigSet;
use nix::unistd::{getppid, Pid};
use serde::{Deserialize, Serialize};

use crate::kernel::faults::Answer;
use crate::{kernel::netns, programs::confine, programs::own_user};

/// Settings of the launcher, passed as one JSON argument.
#[derive(Debug, Serialize, Deserialize)]
pub struct Launch {
    /// Process ID of the agent; if the agent is not the parent any more, nothing is started.
    pub parent: i32,
    /// Descriptor on which a failure is reported; exec closes it.
    pub status: i32,
    /// Descriptor on which the launcher waits for a byte before it executes the program.
    pub go: i32,
    /// Network namespace of the program.
    pub place: Place,
    /// CPUs on which the program may run.
    pub cpus: Option<Vec<usize>>,
    /// Inherited descriptors, each with its number in the program.
    pub files: Vec<(i32, i32)>,
    /// Files for the program, if it runs as a separate user.
    pub own_user: Option<OwnUser>,
    /// Objects that the program may reach, if it is confined.
    pub confined: Option<Confined>,
}

/// The network namespace of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// The agent's namespace.
    #[default]
    Here,
    /// The namespace with this name.
    Named(String),
    /// A new namespace, which is removed with the program.
    Fresh,
}

impl Place {
    /// Return the place for the namespace `netns`; without a name, the agent's namespace.
    pub fn of(netns: Option<String>) -> Answer<Self> {
        let Some(name) = netns else { return Ok(Self::Here) };
        netns::check_name(&name)?;
        Ok(Self::Named(name))
    }
}

/// Execute the program in `arguments`: the settings, then the program's argv. The function returns only if
/// the execution failed.
pub fn launch(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let settings = arguments.next().and_then(|text| serde_json::from_str::<Launch>(text.to_str()?).ok());
    let Some(settings) = settings else { return LAUNCH_FAILED };
    let Some((mut status, go, passed)) = inherited(&settings) else { return LAUNCH_FAILED };
    let failure = match passed {
        Ok(()) => {
            let Err(failure) = become_program(&settings, go, &mut status, arguments.collect());
            failure
        }
        Err(error) => LaunchFailure::new("passing files to", "the program", &error),
    };
    LaunchReport::Failure(failure).write(&mut status);
    LAUNCH_FAILED
}

fn become_program(
    settings: &Launch,
    mut go: File,
    status: &mut File,
    argv: Vec<OsString>,
) -> Result<std::convert::Infallible, LaunchFailure> {
    let failed = |doing: &'static str| move |errno: nix::Error| LaunchFailure::new(doing, "", &errno.into());
    match settings.confined {
        None => end_with(settings.parent)?,
        Some(_) => die_with_parent()?, // the agent has no process ID in the new process namespace
    }
    SigSet::empty().thread_set_mask().map_err(failed("unblocking signals"))?;
    if settings.parent == 1 {
        // The first process of a machine is protected from the OOM killer; its programs must not be.
        let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    }
    enter(&settings.place)?;
    if let Some(cpus) = &settings.cpus {
        pin(cpus)
            .map_err(|errno| LaunchFailure::new("pinning to CPUs", format!("{cpus:?}"), &errno.into()))?;
    }
    let mut byte = [0];
    go.read_exact(&mut byte).map_err(|error| LaunchFailure::new("waiting for the agent", "", &error))?;
    if let Some(view) = &settings.confined {
        return confine::become_confined(view, &argv, &go, status);
    }
    if let Some((user, view)) = own_user::user_of(std::process::id()).zip(settings.own_user.as_ref()) {
        own_user::become_user(user, view)?;
        end_with(settings.parent)?; // a change of user clears the parent-death signal
    }
    let mut argv = argv.into_iter();
    let program = argv.next().unwrap_or_default();
    let mut error = Command::new(&program).args(argv).exec();
    if error.kind() == io::ErrorKind::PermissionDenied && !is_found(&program) {
        // An inaccessible folder on the search path causes EACCES even if no folder contains the program.
        error = io::Error::from_raw_os_error(nix::libc::ENOENT);
    }
    Err(LaunchFailure::new("starting program", program.to_string_lossy(), &error))
}

/// Exit when the agent exits.
fn end_with(agent: i32) -> Result<(), LaunchFailure> {
    die_with_parent()?;
    if getppid() != Pid::from_raw(agent) {
        return Err(agent_gone());
    }
    Ok(())
}

/// Return the status pipe and the go pipe to the agent (exec closes both), and the result of giving each passed file
/// its number in the program.
#[expect(
    unsafe_code,
    reason = "only the process that inherited descriptors can say that nothing owns them yet"
)]
fn inherited(settings: &Launch) -> Option<(File, File, io::Result<()>)> {
    let pipes = [settings.status, settings.go];
    // SAFETY: this process has only read its arguments so far.
    let rearranged = unsafe { descriptors::rearrange(&pipes, &settings.files, ABOVE_TARGETS) };
    let Rearranged { kept, passed } = rearranged.ok()?;
    let [status, go] = <[OwnedFd; 2]>::try_from(kept).ok()?;
    Some((status.into(), go.into(), passed))
}

fn is_found(program: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.as_encoded_bytes().contains(&b'/')
        || std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn enter(place: &Place) -> Result<(), LaunchFailure> {
    match place {
        Place::Here => Ok(()),
        Place::Fresh => unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|errno| LaunchFailure::new("making a network namespace", "", &errno.into())),
        Place::Named(name) => {
            let path = netns::path(name);
            let failed = |error: &io::Error| LaunchFailure::new("entering namespace", &path, error);
            let namespace = File::open(&path).map_err(|error| failed(&error))?;
            setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| failed(&errno.into()))?;
            // As with `ip netns exec`, programs find the namespace's interfaces in /sys. If the mount fails,
            // they find the agent's interfaces, which matters to few programs.
            let _ = netns::mount_own_sys();
            Ok(())
        }
    }
}

fn pin(cpus: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// First descriptor number above those that a program may request.
pub const ABOVE_TARGETS: i32 = 512;

/// Exit status of a launcher that could not execute the program; the agent reads the reason from the status
/// pipe.
const LAUNCH_FAILED: u8 = 125;
