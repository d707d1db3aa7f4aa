//! Loop devices that read no further ahead in their file than they are asked to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// linux/loop.h
const LOOP_SET_FD: libc::c_ulong = 0x4C00;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
/// Another program may attach the device that was free a moment before.
const TRIES: usize = 64;

/// Attaches a free loop device to a file and returns its node.
///
/// The kernel's page cache reads exactly what the device is asked for (`POSIX_FADV_RANDOM)`: read-ahead would take its
/// share of whatever limits the file, and answer requests from memory. The advice belongs to the open file, which
/// the device keeps; losetup(8) opens its own.
///
/// # Errors
/// The kernel's, of the file, of `/dev/loop-control` or of the device.
pub fn attach_without_readahead(path: &Path) -> io::Result<PathBuf> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: the call takes numbers only.
    let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..TRIES {
        // SAFETY: this request takes no argument.
        let number = super::check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _, 0) })?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        match attach(&node, &file) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            attached => return attached.map(|()| node),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

fn attach(node: &Path, file: &File) -> io::Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(node)?;
    // SAFETY: the argument is a descriptor, which the kernel takes its own reference to.
    super::check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD as _, file.as_raw_fd()) }).map(drop)
}
