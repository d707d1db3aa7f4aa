//! What of a file or a block device the page cache holds, and how a block device gives its part up.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// What the page cache holds of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cached {
    /// Pages that are there.
    pub pages: u64,
    /// Of them, those that differ from the disk. None: the kernel's answer does not say.
    pub dirty_pages: Option<u64>,
}

#[repr(C)]
#[derive(Default)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// `cachestat` in every architecture's table of calls that were added since Linux 5.0.
const SYS_CACHESTAT: libc::c_long = 451;

/// Asks cachestat(2), which is there since Linux 6.5.
pub fn cachestat(file: &File) -> io::Result<Cached> {
    // A length of zero is everything from the offset on.
    let range = CachestatRange::default();
    let mut found = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call, which writes into the second only.
    let answer = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), ptr::from_ref(&range), ptr::from_mut(&mut found), 0)
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Cached { pages: found.cached, dirty_pages: Some(found.dirty + found.writeback) })
}

/// Asks mincore(2) about the first `bytes` of a file. It answers for the file's owner and for who may write it.
pub fn mincore(file: &File, bytes: usize) -> io::Result<Cached> {
    if bytes == 0 {
        return Ok(Cached { pages: 0, dirty_pages: None });
    }
    // SAFETY: the kernel chooses the place, so no existing memory is affected.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut present = vec![0u8; bytes.div_ceil(page_bytes())];
    // SAFETY: the range was mapped above; `present` has a byte for each of its pages.
    let answer = unsafe { libc::mincore(start, bytes, present.as_mut_ptr()) };
    let why = io::Error::last_os_error();
    // SAFETY: the mapping above, which nobody else knows.
    unsafe { libc::munmap(start, bytes) };
    if answer < 0 {
        return Err(why);
    }
    let pages = present.iter().filter(|&&page| page & 1 == 1).count();
    Ok(Cached { pages: pages as u64, dirty_pages: None })
}

/// The size of a page. (bytes)
pub fn page_bytes() -> usize {
    // SAFETY: takes a constant and touches no memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// linux/fs.h: _IO(0x12, 97)
pub(crate) const BLKFLSBUF: libc::c_ulong = 0x1261;

/// Writes a block device's dirty pages out and drops its part of the page cache (BLKFLSBUF); root may do that.
pub fn flush_block_device(device: &File) -> io::Result<()> {
    // SAFETY: this request takes no argument.
    super::check(unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as _, 0) }).map(drop)
}
