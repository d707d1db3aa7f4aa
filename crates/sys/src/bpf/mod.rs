//! BPF programs that are assembled by this crate and loaded through bpf(2). The user's host needs no
//! compiler, no libbpf and no BTF. The callers document the programs and their attachment points.

mod assembler;
mod attached;
mod drop_reasons;
mod error;
mod link;
mod program;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

pub use assembler::{Assembler, Condition, Helper, Label, Operation, Register, Width};
pub use attached::attached_programs;
pub use drop_reasons::DropReasons;
pub use error::BpfError;
pub use link::{Link, Place};
pub use program::{keep_program, Map, MapKind, Program, ATTACH_TYPE_XDP};

use crate::Plain;

/// Call bpf(2) and return its result, a descriptor or zero.
///
/// # Safety
/// Every address inside `attributes` must be valid for the accesses of `command`, for the length stated in
/// `attributes`.
pub unsafe fn call<T: Plain>(command: u32, attributes: &mut T) -> io::Result<RawFd> {
    let place = ptr::from_mut(attributes);
    // SAFETY: pointer and size describe `attributes`; the caller guarantees that the addresses inside it are
    // valid.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, place, size_of::<T>()) };
    i32::try_from(result).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)
}

/// Take ownership of a descriptor that [`call`] has just returned.
///
/// # Safety
/// `fd` must be open, and it must have no other owner.
pub unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller guarantees that `fd` is open and has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
