//! Where on its block device a file system keeps the bytes of a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::check;

/// A run of bytes of a file that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file. (bytes)
    pub logical: u64,
    /// Where it begins on the device. (bytes)
    pub physical: u64,
    /// How long it is. (bytes)
    pub bytes: u64,
    /// What the device has there.
    pub kind: ExtentKind,
}

/// What a device has at an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentKind {
    /// The file's bytes.
    Plain,
    /// Nothing of the file yet: it reads as zeros, or its place is not chosen.
    Empty,
    /// Its bytes in another form: compressed, encrypted, or among the file system's own.
    Encoded,
}

/// Of one call: a file that was allocated at once has few.
const MOST: u32 = 256;
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
const LAST: u32 = 0x1;
/// Unknown place, not allocated yet, allocated but not written.
const EMPTY: u32 = 0x2 | 0x4 | 0x800;
/// Encoded, encrypted, not aligned, inline, in a shared tail.
const ENCODED: u32 = 0x8 | 0x80 | 0x100 | 0x200 | 0x400;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; MOST as usize],
}

/// Asks FIEMAP for all extents of a file. Nothing is written out for it.
pub fn extents(file: &File) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Map {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: MOST,
            reserved: 0,
            extents: [RawExtent::default(); MOST as usize],
        };
        // SAFETY: the structure has the kernel's layout, with room for the `count` extents that it says, and outlives
        // the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) })?;
        let seen = map.extents.get(..map.mapped as usize).unwrap_or(&map.extents);
        found.extend(seen.iter().map(read));
        match seen.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
            _ => return Ok(found),
        }
    }
}

const fn read(raw: &RawExtent) -> Extent {
    let kind = if raw.flags & EMPTY != 0 {
        ExtentKind::Empty
    } else if raw.flags & ENCODED != 0 {
        ExtentKind::Encoded
    } else {
        ExtentKind::Plain
    };
    Extent { logical: raw.logical, physical: raw.physical, bytes: raw.length, kind }
}
