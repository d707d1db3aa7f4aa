//! What the disk below a file system has of a file: that is what a crash of the computer at this moment would leave of it,
//! for its page cache is passed by. A cache in the disk itself is not.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iolab_sys::{extents, Extent, ExtentKind};
use rustix::fs::{major, minor, OFlags};

use crate::error::DiskError;

/// A file, as its disk has it.
#[derive(Debug)]
pub struct Below {
    device: File,
    node: PathBuf,
    extents: Vec<Extent>,
}

impl Below {
    /// Finds the disk and the file's places on it.
    ///
    /// # Errors
    /// The file lies on no block device (tmpfs, btrfs, a network), not as it is (compressed), or the device is not to be
    /// read.
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

    /// Where the disk is.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Reads a block of the file from the disk, past the page cache; false: the disk has nothing of it.
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
