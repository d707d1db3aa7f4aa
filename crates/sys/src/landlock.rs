//! Landlock: a process gives up access to files, for itself and for every program that it becomes or starts.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;

use crate::check;

/// What may be done with files beneath a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Files are read, folders are listed.
    Read,
    /// The same, and programs are started.
    Execute,
    /// One file or device is read and written.
    Use,
    /// Files and folders are made, read, written and removed.
    Own,
}

/// linux/landlock.h: `LANDLOCK_ACCESS_FS_*`
mod right {
    pub const EXECUTE: u64 = 1;
    pub const WRITE_FILE: u64 = 1 << 1;
    pub const READ_FILE: u64 = 1 << 2;
    pub const READ_DIR: u64 = 1 << 3;
    pub const REMOVE_DIR: u64 = 1 << 4;
    pub const REMOVE_FILE: u64 = 1 << 5;
    pub const MAKE_DIR: u64 = 1 << 7;
    pub const MAKE_REG: u64 = 1 << 8;
    /// The thirteen of the first ABI.
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

/// The kernel's version of Landlock; none where it has none, or where it is not switched on.
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

/// Gives up all access to files but these, TCP, and what the kernel's version knows besides. The process must have
/// given up ways to gain privileges before. False: the kernel has no Landlock.
///
/// # Errors
/// When a path is not there or the kernel refuses.
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
    // SAFETY: the structure has the kernel's layout and outlives the call, which reads its first `bytes`.
    let made =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::from_ref(&attributes), bytes, 0u32) };
    let made = i32::try_from(made).unwrap_or(-1);
    check(made)?;
    // SAFETY: the kernel has just opened this descriptor for us.
    let ruleset = unsafe { OwnedFd::from_raw_fd(made) };
    for (path, access) in allowed {
        allow(&ruleset, path, rights(*access) & known)?;
    }
    // SAFETY: takes integers only.
    let restricted = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    check(i32::try_from(restricted).unwrap_or(-1))?;
    Ok(true)
}

const fn rights(access: Access) -> u64 {
    const READ: u64 = right::READ_FILE | right::READ_DIR;
    match access {
        Access::Read => READ,
        Access::Execute => READ | right::EXECUTE,
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
        // The kernel refuses rights of folders to what is none.
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
