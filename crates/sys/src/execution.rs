//! A process that gives up its rights and becomes a program that is open already.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use crate::check;

/// linux/capability.h: `_LINUX_CAPABILITY_VERSION_3`, with its two words of each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// More than any kernel has.
const MOST_CAPABILITIES: libc::c_ulong = 64;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Lets no program that this process becomes gain a capability, whoever runs it and whatever its file has.
///
/// # Errors
/// When the process has no right to.
pub fn bound_capabilities() -> io::Result<()> {
    for capability in 0..MOST_CAPABILITIES {
        // SAFETY: takes integers only.
        let dropped = check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) });
        match dropped {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break, // the kernel has no more
            other => other?,
        };
    }
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) }).map(drop)
}

/// Gives up every capability of the calling thread.
///
/// # Errors
/// When the kernel refuses.
pub fn drop_capabilities() -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let none = [CapabilityWords::default(); 2];
    // SAFETY: both have the kernel's layout and outlive the call, which only reads them.
    let answer = unsafe { libc::syscall(libc::SYS_capset, ptr::from_ref(&header), none.as_ptr()) };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

/// Becomes the program `name` in the open `folder`, with SIGPIPE as programs expect it. Returns only when that failed.
pub fn become_program(folder: &OwnedFd, name: &CStr, argv: &[CString], environment: &[CString]) -> io::Error {
    let pointers =
        |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: the default action is no function of ours; the arrays end with a null pointer, and all that they point
    // to outlives the call, which only reads it.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::syscall(
            libc::SYS_execveat,
            folder.as_raw_fd(),
            name.as_ptr(),
            argv.as_ptr(),
            environment.as_ptr(),
            0,
        );
    }
    io::Error::last_os_error()
}
