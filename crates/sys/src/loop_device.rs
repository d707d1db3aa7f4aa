//! Loop devices without read-ahead on their backing file, and the sequence numbers of disks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// linux/loop.h.
const LOOP_SET_FD: libc::c_ulong = 0x4C00;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
/// linux/fs.h: `_IOR(0x12, 128, __u64)`.
const BLKGETDISKSEQ: libc::c_ulong = 0x8008_1280;
/// Number of attempts, because a different program may attach the free device first.
const TRIES: usize = 64;

/// Attach a free loop device to a file and return the path of its device node.
///
/// `POSIX_FADV_RANDOM` limits the page cache's reads to the requested bytes. Read-ahead would count towards
/// the I/O limits of the file and would serve requests from memory. The advice belongs to the open file,
/// which the device keeps; losetup(8) would open the file again, without the advice.
///
/// # Errors
/// Returns the kernel's error for the file, for `/dev/loop-control` or for the device.
pub fn attach_without_readahead(path: &Path) -> io::Result<PathBuf> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: the call takes only numbers.
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

/// Return the sequence number of a disk, which is never used again for a different disk until the next boot
/// (`BLKGETDISKSEQ`); `None` before Linux 5.15.
pub fn disk_sequence(device: &File) -> Option<u64> {
    let mut sequence = 0_u64;
    // SAFETY: the kernel writes 64 bits to the argument.
    let asked = unsafe { libc::ioctl(device.as_raw_fd(), BLKGETDISKSEQ as _, &raw mut sequence) };
    super::check(asked).is_ok().then_some(sequence)
}

fn attach(node: &Path, file: &File) -> io::Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(node)?;
    // SAFETY: the argument is a descriptor, on whose file the kernel takes a separate reference.
    super::check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD as _, file.as_raw_fd()) }).map(drop)
}
