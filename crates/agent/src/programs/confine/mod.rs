//! Confinement: a program reaches only the objects that it works on. Without a separate user, root folder and
//! process namespace, the program is not started. Landlock and a seccomp filter are added if the kernel
//! supports them.
//!
//! The confinement is set up in the launched process before it executes the program, and it ends with the
//! program.

mod root;

use crate::programs::launched::{agent_gone, die_with_parent, LaunchFailure, LaunchReport};
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iolab_protocol::calls::Confined;
use iolab_protocol::results::Walls;
use iolab_sys::execution::{become_program, bound_capabilities, drop_capabilities};
use iolab_sys::landlock::{self, Access};
use iolab_sys::page_cache::flush_block_device;
use iolab_sys::seccomp::{filter, serve_flushes, Filtered};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{unshare, CloneFlags};
use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::stat::{umask, Mode};
use nix::unistd::{access, setgroups, setresgid, setresuid, AccessFlags, Gid, Uid};

use crate::kernel::faults::describe;
use crate::kernel::packets::{pair, receive, send};
use crate::programs::own_user::may_become;
use root::Root;

/// Command-line argument that runs this program as the process that flushes a device for a confined program.
pub const FLUSHER: &str = "flush-for-a-program";
/// User ID of confined programs. This user owns nothing, and its ID is never assigned: systemd leaves 65520 to 65533
/// unused.
const USER: u32 = 65_520;
/// Limit of locked memory, for buffers that fio registers with `io_uring`, in bytes.
const LOCKED_BYTES: u64 = 1 << 30;
/// Maximum number of threads and processes of the user, including the kernel's `io_uring` workers.
const MOST_PROCESSES: u64 = 4096;
/// Value of `RLIMIT_NICE` that permits all nice(2) values to the program's processes.
const EVERY_NICE: u64 = 40;

/// Make the next process that this thread starts the first of a new process namespace. That process sees no other
/// processes, and its exit kills all processes of the namespace.
pub fn have_own_processes() -> io::Result<()> {
    let lacking = |errno: nix::Error| {
        let why = describe(errno as i32);
        io::Error::other(format!(
            "it cannot have a process namespace of its own (unshare(CLONE_NEWPID)): {why}"
        ))
    };
    unshare(CloneFlags::CLONE_NEWPID).map_err(lacking)
}

/// Execute the program `argv` with access to the objects of `view`. `go` is open as long as the agent lives;
/// the confinement is reported on `status`.
pub fn become_confined(
    view: &Confined,
    argv: &[OsString],
    go: &File,
    status: &mut File,
) -> Result<Infallible, LaunchFailure> {
    let name = argv.first().map_or_else(|| OsStr::new(""), OsString::as_os_str);
    let refused = |doing: &'static str| {
        let name = name.to_string_lossy().into_owned();
        move |error: io::Error| LaunchFailure::new(doing, name.clone(), &error)
    };
    let lacking = |doing: &'static str| {
        let refused = refused(doing);
        move |errno: nix::Error| refused(errno.into())
    };
    let user = may_become(USER).then_some(USER);
    let program = find(name).map_err(refused("starting program"))?;
    // The flusher stays unconfined, so it is started before the confinement.
    let flusher = if view.devices.is_empty() && view.opened.is_empty() {
        None
    } else {
        Some(begin_flusher().map_err(refused("starting what flushes the disk of"))?)
    };
    if let Some(folder) = &view.cgroup {
        let join = Path::new(folder).join("cgroup.procs");
        fs::write(&join, "0").map_err(|error| {
            LaunchFailure::new("limiting the memory of a program by", join.to_string_lossy(), &error)
        })?;
    }
    limit();
    umask(Mode::from_bits_truncate(0o022));
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWUTS,
    )
    .map_err(lacking("giving mount, IPC and network namespaces of its own to"))?;
    let root = Root::open(view, &program, user)?;
    if let (Some(flusher), Some(device)) = (&flusher, root.device()) {
        send(flusher.as_fd(), &(), Some(device.as_fd())).map_err(refused("flushing the disk of"))?;
    }
    root.enter(user)?;
    umask(Mode::from_bits_truncate(0o077));
    give_up_rights(user).map_err(refused("taking every right from"))?;
    die_with_parent()?; // a change of user clears the parent-death signal
    if is_closed(go) {
        return Err(agent_gone());
    }
    let folder = File::open(root::PROGRAM_FOLDER).map_err(refused("looking for"))?;
    let walls = restrict(&root, user, flusher.as_ref(), refused)?;
    let words =
        |texts: &mut dyn Iterator<Item = Vec<u8>>| texts.filter_map(|text| CString::new(text).ok()).collect();
    let argv: Vec<CString> = words(&mut argv.iter().map(|word| word.as_bytes().to_vec()));
    let environment: Vec<CString> =
        words(&mut std::env::vars_os().map(|(key, value)| [key.as_bytes(), b"=", value.as_bytes()].concat()));
    let file = CString::new(root.program_name().as_bytes()).unwrap_or_default();
    LaunchReport::Walls(walls).write(status);
    Err(refused("starting program")(become_program(&OwnedFd::from(folder), &file, &argv, &environment)))
}

/// Apply the confinement that only some kernels support, and send the listener of the seccomp filter to the
/// flusher.
fn restrict<F: FnOnce(io::Error) -> LaunchFailure>(
    root: &Root,
    user: Option<u32>,
    flusher: Option<&OwnedFd>,
    refused: impl Fn(&'static str) -> F,
) -> Result<Walls, LaunchFailure> {
    let landlock_abi = landlock::restrict(&root.allowed())
        .map_err(refused("limiting by Landlock what is reached by"))?
        .then(landlock::version)
        .flatten();
    let filtered = filter(flusher.is_some()).map_err(refused("limiting the system calls of"))?;
    let seccomp = matches!(filtered, Filtered::Yes(_));
    if let (Filtered::Yes(Some(listener)), Some(flusher)) = (filtered, flusher) {
        send(flusher.as_fd(), &(), Some(listener.as_fd())).map_err(refused("flushing the disk of"))?;
    }
    Ok(Walls { user, landlock_abi, seccomp })
}

/// Return the program's file: a path, or a name on the search path.
fn find(name: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && access(file, AccessFlags::X_OK).is_ok())
        .ok_or_else(|| io::ErrorKind::NotFound.into())
        .map_err(|_: io::Error| io::Error::from_raw_os_error(nix::libc::ENOENT))
}

/// Limit the memory and the processes of a program. If a limit cannot be set, the current limit applies.
fn limit() {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = setrlimit(Resource::RLIMIT_NPROC, MOST_PROCESSES, MOST_PROCESSES);
    let _ = setrlimit(Resource::RLIMIT_NICE, EVERY_NICE, EVERY_NICE);
    if getrlimit(Resource::RLIMIT_MEMLOCK).is_ok_and(|(now, _)| now < LOCKED_BYTES) {
        let _ = setrlimit(Resource::RLIMIT_MEMLOCK, LOCKED_BYTES, LOCKED_BYTES);
    }
}

/// Drop all privileges permanently. Without `user`, the process remains root of its user namespace; outside the
/// namespace it is an ordinary user.
fn give_up_rights(user: Option<u32>) -> io::Result<()> {
    bound_capabilities()?;
    if let Some(user) = user {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    drop_capabilities()?;
    Ok(set_no_new_privs()?)
}

fn is_closed(go: &File) -> bool {
    let mut watched = [PollFd::new(go.as_fd(), PollFlags::empty())];
    let _ = poll(&mut watched, PollTimeout::ZERO);
    watched[0].revents().is_some_and(|seen| seen.contains(PollFlags::POLLHUP))
}

/// Start the process that flushes a device for an unprivileged program (BLKFLSBUF requires `CAP_SYS_ADMIN`). The
/// flushing process receives the device and then the listener over the socket. That process is not confined, and
/// accepts no other requests.
fn begin_flusher() -> io::Result<OwnedFd> {
    let (own, theirs) = pair()?;
    Command::new("/proc/self/exe")
        .arg(FLUSHER)
        .env_clear()
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(own)
}

/// Run as the process that flushes one device for one program, as long as the program runs.
///
/// # Errors
/// Returns an error if standard input is not a socket of the launcher.
pub fn flush_for_a_program() -> anyhow::Result<()> {
    let socket = io::stdin();
    let (device, listener) = (receive(&socket)?, receive(&socket)?);
    let (Some(((), Some(device))), Some(((), Some(listener)))) = (device, listener) else {
        return Ok(()); // the program was not started
    };
    let path = format!("/proc/self/fd/{}", device.as_raw_fd());
    let never = serve_flushes(&listener, || flush_block_device(&File::open(&path)?))?;
    match never {}
}

/// Folders and files that Landlock permits to a program, with the permitted access.
type Allowed<'a> = Vec<(&'a Path, Access)>;
