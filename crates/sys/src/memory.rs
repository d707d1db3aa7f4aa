//! Memory shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

/// Memory that is mapped as long as the value lives: a UMEM or a ring shared with the kernel.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory that no thread owns; who may touch which part is decided by the rings above it.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives out raw pointers only, no references.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of new, zeroed memory, present at once.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// Maps `bytes` of what `fd` shares at `offset`.
    pub fn shared(fd: &OwnedFd, bytes: usize, offset: i64) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(bytes: usize, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so no existing memory is affected.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes are mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those mmap gave; every user of the memory holds this value and is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
