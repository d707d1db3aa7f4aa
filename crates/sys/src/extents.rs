//! Locations of a file's data on its block device (FIEMAP).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::check;

/// A contiguous range of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the extent in the file, in bytes.
    pub logical: u64,
    /// Offset of the extent on the device, in bytes.
    pub physical: u64,
    /// Length of the extent, in bytes.
    pub bytes: u64,
    /// Kind of data in the extent.
    pub kind: ExtentKind,
}

/// Kind of data that the device holds in an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentKind {
    /// The file's data as written.
    Plain,
    /// No data: the extent reads as zeros, or its location is not allocated yet.
    Empty,
    /// Data in a different form: compressed, encrypted, or inside the file system's metadata.
    Encoded,
}

/// Maximum number of extents of one call. A file that was allocated at once has few extents.
const MOST: u32 = 256;
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
const LAST: u32 = 0x1;
/// Flags of an extent without data: unknown location, delayed allocation, unwritten.
const EMPTY: u32 = 0x2 | 0x4 | 0x800;
/// Flags of an extent with encoded data: encoded, encrypted, not aligned, inline, packed tail.
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

/// Return all extents of a file through FIEMAP, without a sync of the file.
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
        // SAFETY: the structure has the kernel's layout, has room for the stated `count` of extents, and
        // outlives the call.
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
