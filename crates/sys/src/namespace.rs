//! The owner of a network namespace, through `ioctl_nsfs(2)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Return the user ID that created the user namespace which owns the network namespace `file`, as mapped in
/// the user namespace of this process.
///
/// # Errors
/// Returns `ENODEV` if the file is not a network namespace; otherwise the kernel's error.
pub fn network_namespace_owner(file: BorrowedFd<'_>) -> io::Result<u32> {
    // Check the type first: other kinds of files may interpret these ioctl numbers differently.
    if !is_namespace(file)? || ask(file, NS_GET_NSTYPE)? != libc::CLONE_NEWNET {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let number = ask(file, NS_GET_USERNS)?;
    // SAFETY: the kernel has just opened this descriptor for this process, and no other code knows its
    // number.
    let users = unsafe { OwnedFd::from_raw_fd(number) };
    let mut owner: libc::uid_t = 0;
    // SAFETY: the request writes one uid_t, which outlives the call.
    if unsafe { libc::ioctl(users.as_raw_fd(), NS_GET_OWNER_UID as _, &mut owner) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(owner)
}

fn is_namespace(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: a statfs consists of integers; zeros are valid.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one statfs, which outlives the call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut status) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i128::from(status.f_type) == NSFS_MAGIC) // the width of f_type depends on the architecture
}

/// Call ioctl without an argument and return its integer result.
fn ask(file: BorrowedFd<'_>, request: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: these requests take no argument, and the caller has checked the kind of the file.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request as _) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}

// linux/nsfs.h, linux/magic.h
const NS_GET_USERNS: libc::c_ulong = 0xb701;
const NS_GET_NSTYPE: libc::c_ulong = 0xb703;
const NS_GET_OWNER_UID: libc::c_ulong = 0xb704;
const NSFS_MAGIC: i128 = 0x6e73_6673;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_a_network_namespace_has_an_owner() {
        let owner = |path: &str| network_namespace_owner(File::open(path).unwrap().as_fd());
        assert!(owner("/proc/self/ns/net").is_ok());
        for other in ["/proc/self/ns/uts", "/proc/self/comm", "/dev/null"] {
            assert_eq!(owner(other).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{other}");
        }
    }
}
