//! Reads a file's blocks from the disk below its file system and bypasses the page cache. The blocks on the disk would
//! survive a crash of the host at this moment. The cache inside the disk is not bypassed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iolab_sys::{extents, Extent, ExtentKind};
use rustix::fs::{major, minor, OFlags};

use crate::error::DiskError;

/// A file as stored on its disk.
#[derive(Debug)]
pub struct Below {
    device: File,
    node: PathBuf,
    extents: Vec<Extent>,
}

impl Below {
    /// Find the disk of a file and the file's extents on it.
    ///
    /// # Errors
    /// Returns an error if the file is not on a single block device (tmpfs, btrfs, network file systems), if
    /// its data is stored in encoded form (compressed, encrypted, inline), or if the device cannot be read.
    pub fn of(path: &Path) -> Result<Self, DiskError> {
        let file = File::open(path).map_err(DiskError::at("opening", path))?;
        let seen = file.metadata().map_err(DiskError::at("looking at", path))?;
        let node = node_of(seen.dev()).ok_or_else(|| {
            DiskError::refused(format!(
                "{} lies on no single block device (tmpfs, btrfs and network file systems have none), so nobody can look \
                 below its page cache; mount ext4 or xfs of a disk there",
                path.display()
            ))
        })?;
        let extents = extents(&file).map_err(DiskError::at("looking for the extents of", path))?;
        if extents.iter().any(|extent| extent.kind == ExtentKind::Encoded) {
            return Err(DiskError::refused(format!(
                "the disk has parts of {} compressed, encrypted or among the file system's own: they cannot be read there",
                path.display()
            )));
        }
        let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&node);
        let device = opened.map_err(DiskError::at("looking below the page cache: opening", &node))?;
        Ok(Self { device, node, extents })
    }

    /// Return the path of the disk's device node.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Read a block of the file from the disk, bypassing the page cache. Return false if the disk has no data
    /// for it.
    pub fn read_at(&self, block: &mut [u8], place: u64) -> io::Result<bool> {
        let end = place + block.len() as u64;
        let holds = |extent: &&Extent| extent.logical <= place && end <= extent.logical + extent.bytes;
        match self.extents.iter().find(holds) {
            Some(extent) if extent.kind == ExtentKind::Plain => {
                let there = extent.physical + (place - extent.logical);
                self.device.read_exact_at(block, there).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}

fn node_of(number: u64) -> Option<PathBuf> {
    let about = format!("/sys/dev/block/{}:{}/uevent", major(number), minor(number));
    let text = fs::read_to_string(about).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(Path::new("/dev").join(name))
}
