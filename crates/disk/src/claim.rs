//! Checks whether a block device may be overwritten. The user must have claimed it by its serial number. Neither the
//! device nor its partitions nor its parent may be in use. The device must have no signature of a file system, a
//! partition table or other disk software.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use iolab_sys::reservation_key;
use rustix::fs::OFlags;

use crate::device::{probe, Device, Obstacle, ObstacleKind};
use crate::error::DiskError;
use crate::request::Claim;

/// Check whether a device may be overwritten.
///
/// # Errors
/// Returns the first reason against overwriting the device.
pub fn check(asked: &Claim) -> Result<(), DiskError> {
    take(asked).map(drop)
}

/// Open a device for exclusive writing (`O_EXCL`) that bypasses the page cache.
///
/// # Errors
/// Returns the first reason against overwriting the device.
pub fn take(asked: &Claim) -> Result<File, DiskError> {
    let named = asked.device.display();
    if !asked.claim {
        return Err(DiskError::refused(format!(
            "writing to {named} destroys what is on it, and nobody has said that it may: claim it with --claim"
        )));
    }
    let device = Device::at(&asked.device)?;
    let known = device.serials();
    if !known.iter().any(|serial| serial == asked.serial.trim()) {
        return Err(DiskError::refused(format!(
            "{named} is not the device with serial number or WWN {:?}: the kernel shows {}; \
             give the one of the device that is meant",
            asked.serial,
            if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        )));
    }
    check_unused(&device, &asked.device)?;
    let file = open_alone(&asked.device, &device, OFlags::DIRECT)?;
    check_not_reserved(&file, &asked.device)?;
    check_signatures(&file, &asked.device)?;
    Ok(file)
}

/// Open a device for exclusive writing, and verify that it is the device that was checked. While the device
/// is open with `O_EXCL`, it can be neither mounted nor added to an array or volume group.
pub(crate) fn open_alone(path: &Path, checked: &Device, extra: OFlags) -> Result<File, DiskError> {
    let flags = i32::try_from((OFlags::EXCL | extra).bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = opened.map_err(DiskError::at("opening, alone,", path))?;
    if !Device::behind(&file, path).is_ok_and(|seen| seen.number() == checked.number()) {
        return Err(DiskError::refused(format!(
            "{} became another device while it was looked at",
            path.display()
        )));
    }
    Ok(file)
}

/// Return an error if the device, its disk or one of its partitions is in use.
pub(crate) fn check_unused(device: &Device, path: &Path) -> Result<(), DiskError> {
    let uses = device.uses(Path::new("/proc"))?;
    let Some(Obstacle { kind, name, part }) = uses.first() else { return Ok(()) };
    let (used, how) = match kind {
        ObstacleKind::Held => (part, format!("is held by {name} (LVM, md, device mapper or bcache)")),
        ObstacleKind::Loop => (name, "is a loop device that lies on it".to_owned()),
        ObstacleKind::Swap => (part, "is swapped to".to_owned()),
        _ => (part, format!("is mounted on {name}")),
    };
    Err(DiskError::refused(format!("{} is in use: {used} {how}; it is left alone", path.display())))
}

/// Return an error if a host has reserved the disk, even if it is this host: a cluster shares the disk.
pub(crate) fn check_not_reserved(device: &File, path: &Path) -> Result<(), DiskError> {
    let Some(key) = reservation_key(device) else { return Ok(()) };
    Err(DiskError::refused(format!(
        "{} has a persistent reservation with key {key:#x}, so other hosts may use it; it is left alone",
        path.display()
    )))
}

/// Return an error if libblkid finds a signature on the device.
pub(crate) fn check_signatures(device: &File, path: &Path) -> Result<(), DiskError> {
    let found = probe(device, path)?.signatures;
    if found.is_empty() {
        return Ok(());
    }
    Err(DiskError::refused(format!(
        "{} bears a signature ({}); if what is on it may be lost, remove it yourself: wipefs --all {0}",
        path.display(),
        found.join(", "),
    )))
}
