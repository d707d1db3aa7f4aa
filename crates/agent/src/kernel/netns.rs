//! Named network namespaces: where they are, how a thread enters one. Making and removing them is done with `ip`.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iolab_protocol::ErrorObject;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};

use crate::kernel::faults::{refused, refused_errno, Answer};

/// The file of the namespace `name`, as iproute2 keeps it.
pub fn path(name: &str) -> String {
    format!("/run/netns/{name}")
}

/// Whether there is a namespace `name`.
pub fn exists(name: &str) -> bool {
    Path::new(&path(name)).exists()
}

/// Refuse what cannot be a namespace's name.
pub fn check_name(name: &str) -> Answer<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = (1..=255).contains(&name.len()) && name.bytes().all(plain);
    if fits && !name.starts_with(['-', '.']) {
        return Ok(());
    }
    let message = "a namespace's name is 1 to 255 letters, digits, '-', '_', '.', and begins with none of the marks '-' and '.'";
    Err(ErrorObject::params(message, name))
}

/// Do `work` in the namespace `name`, on a thread of its own; in the agent's when there is no name.
pub fn within<T: Send>(name: Option<&str>, work: impl FnOnce() -> Answer<T> + Send) -> Answer<T> {
    let Some(name) = name else { return work() };
    on_thread(|| {
        Namespace::open(name)?.enter()?;
        work()
    })
}

/// What no other namespace has while one is there: device and inode.
pub type Identity = (u64, u64);

/// That of the namespace `name`.
pub fn identity(name: &str) -> Answer<Identity> {
    check_name(name)?;
    let path = path(name);
    let status = std::fs::metadata(&path).map_err(|error| refused("entering namespace", &path, &error))?;
    Ok((status.dev(), status.ino()))
}

/// A namespace that a thread can enter.
pub struct Namespace {
    path: String,
    file: File,
}

impl Namespace {
    /// That of the name.
    pub fn open(name: &str) -> Answer<Self> {
        check_name(name)?;
        Self::at(path(name))
    }

    /// That of the calling thread.
    pub fn current() -> Answer<Self> {
        Self::at("/proc/thread-self/ns/net".to_owned())
    }

    fn at(path: String) -> Answer<Self> {
        let file = File::open(&path).map_err(|error| refused("entering namespace", &path, &error))?;
        Ok(Self { path, file })
    }

    /// Move the calling thread there.
    pub fn enter(&self) -> Answer<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| refused_errno("entering namespace", &self.path, errno))
    }
}

/// The same with the namespace's own `/sys`.
pub fn within_with_sys<T: Send>(name: Option<&str>, work: impl FnOnce() -> Answer<T> + Send) -> Answer<T> {
    if name.is_none() {
        return work();
    }
    within(name, || {
        mount_own_sys().map_err(|errno| refused_errno("mounting the namespace's own", "/sys", errno))?;
        work()
    })
}

/// Let the calling thread mount what nobody else sees.
pub fn own_mounts() -> nix::Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_SLAVE | MsFlags::MS_REC, NOTHING)
}

/// Show the calling thread, and only it, the `/sys` of its network namespace.
pub fn mount_own_sys() -> nix::Result<()> {
    own_mounts()?;
    umount2("/sys", MntFlags::MNT_DETACH)?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>)
}

/// Do `work` on a thread of its own, which may go where it likes.
pub fn on_thread<T: Send>(work: impl FnOnce() -> Answer<T> + Send) -> Answer<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.map_err(|error| refused("starting a thread in", "the agent", &error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
