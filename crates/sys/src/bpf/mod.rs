//! BPF programs written here as instructions and loaded by bpf(2): no compiler, no libbpf, no BTF at the user's. What a
//! program does with frames, and where it hangs, is said where it is used.

mod assembler;
mod drop_reasons;
mod error;
mod link;
mod program;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

pub use assembler::{Assembler, Condition, Helper, Label, Operation, Register, Width};
pub use drop_reasons::DropReasons;
pub use error::BpfError;
pub use link::{Link, Place};
pub use program::{keep_program, Map, MapKind, Program, ATTACH_TYPE_XDP};

use crate::Plain;

/// One call of bpf(2) that gives a number (a descriptor, or zero).
///
/// # Safety
/// Every address inside `attributes` must be valid for what `command` does with it, for the length stated there.
pub unsafe fn call<T: Plain>(command: u32, attributes: &mut T) -> io::Result<RawFd> {
    let place = ptr::from_mut(attributes);
    // SAFETY: pointer and size describe `attributes`; what it points to in turn is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, place, size_of::<T>()) };
    i32::try_from(result).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)
}

/// Takes a descriptor that a call above just returned.
///
/// # Safety
/// `fd` must be open and owned by nobody else.
pub unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
