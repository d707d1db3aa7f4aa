//! Named network namespaces: their paths, and functions that move a thread into a namespace. `ip` creates and removes
//! the namespaces.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iolab_protocol::ErrorObject;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};

use crate::kernel::faults::{refused, refused_errno, Answer};

/// Return the path of the namespace `name`, as used by iproute2.
pub fn path(name: &str) -> String {
    format!("/run/netns/{name}")
}

/// Whether the namespace `name` exists.
pub fn exists(name: &str) -> bool {
    Path::new(&path(name)).exists()
}

/// Refuse an invalid namespace name.
pub fn check_name(name: &str) -> Answer<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = (1..=255).contains(&name.len()) && name.bytes().all(plain);
    if fits && !name.starts_with(['-', '.']) {
        return Ok(());
    }
    let message = "a namespace's name is 1 to 255 letters, digits, '-', '_', '.', and begins with none of the marks '-' and '.'";
    Err(ErrorObject::params(message, name))
}

/// Run `work` in the namespace `name`, on a separate thread; without a name, in the agent's namespace.
pub fn within<T: Send>(name: Option<&str>, work: impl FnOnce() -> Answer<T> + Send) -> Answer<T> {
    let Some(name) = name else { return work() };
    on_thread(|| {
        Namespace::open(name)?.enter()?;
        work()
    })
}

/// Device and inode number, which identify a namespace among all existing namespaces.
pub type Identity = (u64, u64);

/// Return the identity of the namespace `name`.
pub fn identity(name: &str) -> Answer<Identity> {
    check_name(name)?;
    let path = path(name);
    let status = std::fs::metadata(&path).map_err(|error| refused("entering namespace", &path, &error))?;
    Ok((status.dev(), status.ino()))
}

/// An open network namespace.
pub struct Namespace {
    path: String,
    file: File,
}

impl Namespace {
    /// Open the namespace `name`.
    pub fn open(name: &str) -> Answer<Self> {
        check_name(name)?;
        Self::at(path(name))
    }

    /// Open the namespace of the calling thread.
    pub fn current() -> Answer<Self> {
        Self::at("/proc/thread-self/ns/net".to_owned())
    }

    fn at(path: String) -> Answer<Self> {
        let file = File::open(&path).map_err(|error| refused("entering namespace", &path, &error))?;
        Ok(Self { path, file })
    }

    /// Move the calling thread into the namespace.
    pub fn enter(&self) -> Answer<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| refused_errno("entering namespace", &self.path, errno))
    }
}

/// Run `work` in the namespace `name`, on a separate thread with the `/sys` of that namespace.
pub fn within_with_sys<T: Send>(name: Option<&str>, work: impl FnOnce() -> Answer<T> + Send) -> Answer<T> {
    if name.is_none() {
        return work();
    }
    within(name, || {
        mount_own_sys().map_err(|errno| refused_errno("mounting the namespace's own", "/sys", errno))?;
        work()
    })
}

/// Give the calling thread a private mount namespace.
pub fn own_mounts() -> nix::Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_SLAVE | MsFlags::MS_REC, NOTHING)
}

/// Mount the `/sys` of the calling thread's network namespace, visible only to this thread.
pub fn mount_own_sys() -> nix::Result<()> {
    own_mounts()?;
    umount2("/sys", MntFlags::MNT_DETACH)?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>)
}

/// Run `work` on a separate thread, which may change its namespaces.
pub fn on_thread<T: Send>(work: impl FnOnce() -> Answer<T> + Send) -> Answer<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.map_err(|error| refused("starting a thread in", "the agent", &error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
