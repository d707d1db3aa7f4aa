//! Pages of a file or a block device in the page cache, and the flush of a block device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// Page cache use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cached {
    /// Number of cached pages.
    pub pages: u64,
    /// Number of cached pages that are dirty or under writeback; `None` if the system call does not report
    /// it.
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

/// Number of the system call `cachestat`, which is the same on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// Return the page cache use of a file from cachestat(2), which exists since Linux 6.5.
pub fn cachestat(file: &File) -> io::Result<Cached> {
    // A length of zero means up to the end of the file.
    let range = CachestatRange::default();
    let mut found = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call, which writes only to the second.
    let answer = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), ptr::from_ref(&range), ptr::from_mut(&mut found), 0)
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Cached { pages: found.cached, dirty_pages: Some(found.dirty + found.writeback) })
}

/// Return the page cache use of the first `bytes` bytes of a file from mincore(2). The result is valid only
/// for the file's owner and for processes with write permission.
pub fn mincore(file: &File, bytes: usize) -> io::Result<Cached> {
    if bytes == 0 {
        return Ok(Cached { pages: 0, dirty_pages: None });
    }
    // SAFETY: the kernel chooses the address, so no existing memory is affected.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut present = vec![0u8; bytes.div_ceil(page_bytes())];
    // SAFETY: the range was mapped above; `present` has a byte for each of its pages.
    let answer = unsafe { libc::mincore(start, bytes, present.as_mut_ptr()) };
    let why = io::Error::last_os_error();
    // SAFETY: the range was mapped above, and no other code knows its address.
    unsafe { libc::munmap(start, bytes) };
    if answer < 0 {
        return Err(why);
    }
    let pages = present.iter().filter(|&&page| page & 1 == 1).count();
    Ok(Cached { pages: pages as u64, dirty_pages: None })
}

/// Return the page size in bytes.
pub fn page_bytes() -> usize {
    // SAFETY: the call takes a constant and accesses no memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// `_IO(0x12, 97)` of linux/fs.h.
pub(crate) const BLKFLSBUF: libc::c_ulong = 0x1261;

/// Write a block device's dirty pages to the device and drop its pages from the page cache (BLKFLSBUF); this
/// requires root.
pub fn flush_block_device(device: &File) -> io::Result<()> {
    // SAFETY: this request takes no argument.
    super::check(unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as _, 0) }).map(drop)
}
