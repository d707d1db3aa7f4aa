//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

/// A memory mapping, which lasts until the value is dropped: a UMEM, or a ring that is shared with the
/// kernel.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory that no thread owns; the rings that use it decide which thread accesses
// which part.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` returns only raw pointers, no references.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map `bytes` bytes of new, zeroed memory and populate its pages.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// Map `bytes` bytes of the memory that `fd` shares, from `offset` on.
    pub fn shared(fd: &OwnedFd, bytes: usize, offset: i64) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(bytes: usize, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no existing memory is affected.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }

    /// Return the address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Return the length of the mapping in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: address and length are those of mmap; each user of the memory keeps this value alive, so no
        // user remains.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
