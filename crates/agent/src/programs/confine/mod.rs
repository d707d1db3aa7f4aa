//! A program that reaches nothing but what it works on. Where it is a user, a root folder and processes of its own cannot be had, it
//! is not started; Landlock and a filter of system calls come on top where the kernel has them.
//!
//! This works in the launched process, before it becomes the program. What makes up the walls ends with the program.

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

/// The argument with which this binary flushes a device for a confined program.
pub const FLUSHER: &str = "flush-for-a-program";
/// The user of confined programs. Nothing belongs to it and nobody gives it away: systemd leaves 65520 to 65533 unused.
const USER: u32 = 65_520;
/// Of memory that stays in memory: buffers that fio registers with `io_uring` (bytes).
const LOCKED_BYTES: u64 = 1 << 30;
/// Threads and processes of the user, the kernel's workers for `io_uring` among them.
const MOST_PROCESSES: u64 = 4096;
/// In units of `RLIMIT_NICE`: every nice(2) may be had, within the program's own processes.
const EVERY_NICE: u64 = 40;

/// Let the next process that this thread starts be the first of a process namespace: it sees no others, and all end with it.
pub fn have_own_processes() -> io::Result<()> {
    let lacking = |errno: nix::Error| {
        let why = describe(errno as i32);
        io::Error::other(format!(
            "it cannot have a process namespace of its own (unshare(CLONE_NEWPID)): {why}"
        ))
    };
    unshare(CloneFlags::CLONE_NEWPID).map_err(lacking)
}

/// Become the program `argv` that reaches what `view` has. `go` is open for as long as the agent lives; what walls there are is
/// said on `status`.
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
    // It stays outside, so it comes before the walls.
    let flusher = if view.devices.is_empty() {
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
    die_with_parent()?; // who changes users loses the signal
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

/// Put up the walls that not every kernel has, and give the flusher what the filter tells it.
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

/// The program's file: the words are a path, or a name on the search path.
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

/// What a program takes of the host's memory and processes. Where a limit cannot be set, the one there is holds.
fn limit() {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = setrlimit(Resource::RLIMIT_NPROC, MOST_PROCESSES, MOST_PROCESSES);
    let _ = setrlimit(Resource::RLIMIT_NICE, EVERY_NICE, EVERY_NICE);
    if getrlimit(Resource::RLIMIT_MEMLOCK).is_ok_and(|(now, _)| now < LOCKED_BYTES) {
        let _ = setrlimit(Resource::RLIMIT_MEMLOCK, LOCKED_BYTES, LOCKED_BYTES);
    }
}

/// Have no right more, whatever program comes. Without `user`, root in a user namespace stays who it is: outside, an
/// ordinary user.
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

/// Start the process that flushes a device for a program without the right to (BLKFLSBUF takes `CAP_SYS_ADMIN`). On the socket it
/// waits for the device, then for the listener. It is in none of the walls, and takes no other order.
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

/// Be the process that flushes one device for one program, for as long as there is that program.
///
/// # Errors
/// When standard input is no launcher's.
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

/// The folders and files that Landlock leaves to a program, and what may be done there.
type Allowed<'a> = Vec<(&'a Path, Access)>;
