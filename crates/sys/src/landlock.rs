//! Landlock: a process gives up access to files, for itself and for all programs that it executes or starts.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;

use crate::check;

/// Permitted access to files beneath a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read files and list folders.
    Read,
    /// Read files, list folders and execute programs.
    Execute,
    /// Read a single device, and query its properties.
    ReadDevice,
    /// Read and write a single file or device.
    Use,
    /// Create, read, write and remove files and folders.
    Own,
}

/// `LANDLOCK_ACCESS_FS_*` of linux/landlock.h.
mod right {
    pub const EXECUTE: u64 = 1;
    pub const WRITE_FILE: u64 = 1 << 1;
    pub const READ_FILE: u64 = 1 << 2;
    pub const READ_DIR: u64 = 1 << 3;
    pub const REMOVE_DIR: u64 = 1 << 4;
    pub const REMOVE_FILE: u64 = 1 << 5;
    pub const MAKE_DIR: u64 = 1 << 7;
    pub const MAKE_REG: u64 = 1 << 8;
    /// The thirteen access rights of the first ABI.
    pub const FIRST: u64 = (1 << 13) - 1;
    pub const REFER: u64 = 1 << 13;
    pub const TRUNCATE: u64 = 1 << 14;
    pub const IOCTL_DEV: u64 = 1 << 15;
}

/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const ALL_NETWORK: u64 = 0b11;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL`.
const ALL_SCOPES: u64 = 0b11;
const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scopes: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// Return the kernel's Landlock ABI version; `None` if the kernel lacks Landlock or it is disabled.
pub fn version() -> Option<u32> {
    // SAFETY: without attributes the call reads no memory.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<RulesetAttributes>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(answer).ok().filter(|&version| version > 0)
}

/// Restrict this process to the `allowed` paths. If the kernel's ABI version supports this, also deny TCP, signals to
/// other processes and abstract Unix sockets of other processes. The process must have set `no_new_privs` before.
/// Return false if the kernel has no Landlock.
///
/// # Errors
/// Returns an error if a path does not exist or the kernel refuses.
pub fn restrict(allowed: &[(&Path, Access)]) -> io::Result<bool> {
    let Some(version) = version() else { return Ok(false) };
    let known = right::FIRST
        | if version >= 2 { right::REFER } else { 0 }
        | if version >= 3 { right::TRUNCATE } else { 0 }
        | if version >= 5 { right::IOCTL_DEV } else { 0 };
    let attributes = RulesetAttributes {
        files: known,
        network: if version >= 4 { ALL_NETWORK } else { 0 },
        scopes: if version >= 6 { ALL_SCOPES } else { 0 },
    };
    let bytes = match version {
        ..4 => 8,
        4..6 => 16,
        _ => size_of::<RulesetAttributes>(),
    };
    // SAFETY: the structure has the kernel's layout and outlives the call, which reads its first `bytes`
    // bytes.
    let made =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::from_ref(&attributes), bytes, 0u32) };
    let made = i32::try_from(made).unwrap_or(-1);
    check(made)?;
    // SAFETY: the kernel has just opened this descriptor for this process.
    let ruleset = unsafe { OwnedFd::from_raw_fd(made) };
    for (path, access) in allowed {
        allow(&ruleset, path, rights(*access) & known)?;
    }
    // SAFETY: the call takes only integers.
    let restricted = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    check(i32::try_from(restricted).unwrap_or(-1))?;
    Ok(true)
}

const fn rights(access: Access) -> u64 {
    const READ: u64 = right::READ_FILE | right::READ_DIR;
    match access {
        Access::Read => READ,
        Access::Execute => READ | right::EXECUTE,
        Access::ReadDevice => right::READ_FILE | right::IOCTL_DEV,
        Access::Use => right::READ_FILE | right::WRITE_FILE | right::TRUNCATE | right::IOCTL_DEV,
        Access::Own => {
            READ | right::WRITE_FILE
                | right::TRUNCATE
                | right::REMOVE_DIR
                | right::REMOVE_FILE
                | right::MAKE_DIR
                | right::MAKE_REG
                | right::REFER
        }
    }
}

fn allow(ruleset: &OwnedFd, path: &Path, mut allowed: u64) -> io::Result<()> {
    let file = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !file.metadata()?.is_dir() {
        // The kernel rejects folder rights on a path that is not a folder.
        allowed &= right::EXECUTE | right::READ_FILE | right::WRITE_FILE | right::TRUNCATE | right::IOCTL_DEV;
    }
    let beneath = PathBeneath { allowed, parent: file.as_raw_fd() };
    // SAFETY: the structure has the kernel's layout and outlives the call, which only reads it.
    let added = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            ptr::from_ref(&beneath),
            0u32,
        )
    };
    check(i32::try_from(added).unwrap_or(-1)).map(drop)
}
