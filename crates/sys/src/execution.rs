//! Functions with which a process drops its privileges and executes a program from a folder that it has already opened.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use crate::check;

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h, with two words for each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// An upper limit of the number of capabilities in any kernel.
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

/// Clear the bounding set and the ambient set, so that no program that this process executes can gain a
/// capability, whatever its user or its file capabilities.
///
/// # Errors
/// Returns an error if the process lacks `CAP_SETPCAP`.
pub fn bound_capabilities() -> io::Result<()> {
    for capability in 0..MOST_CAPABILITIES {
        // SAFETY: the call takes only integers.
        let dropped = check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) });
        match dropped {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break, // no further capabilities
            other => other?,
        };
    }
    // SAFETY: the call takes only integers.
    check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) }).map(drop)
}

/// Drop all capabilities of the calling thread.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn drop_capabilities() -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let none = [CapabilityWords::default(); 2];
    // SAFETY: both structures have the kernel's layout and outlive the call, which only reads them.
    let answer = unsafe { libc::syscall(libc::SYS_capset, ptr::from_ref(&header), none.as_ptr()) };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

/// Execute the program `name` of the open `folder` in this process, with the default action for SIGPIPE. The
/// function returns only if the execution failed.
pub fn become_program(folder: &OwnedFd, name: &CStr, argv: &[CString], environment: &[CString]) -> io::Error {
    let pointers =
        |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: the default action is no function of this program; the arrays end with a null pointer, and all
    // strings that they point to outlive the call, which only reads them.
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
