//! Whether a block device may be written: the user named it by its serial number and gave it up, nothing uses it, its
//! parent or a part of it, and it bears no signature of a file system, a partition table or another user of disks.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{major, minor, OFlags};

use crate::error::DiskError;
use crate::request::Claim;

/// Refuses a device that must not be written.
///
/// # Errors
/// The first reason not to.
pub fn check(asked: &Claim) -> Result<(), DiskError> {
    take(asked).map(drop)
}

/// Opens a device for writing, alone (`O_EXCL`) and past the page cache.
///
/// # Errors
/// The first reason not to.
pub fn take(asked: &Claim) -> Result<File, DiskError> {
    let named = asked.device.display();
    if !asked.claim {
        return Err(DiskError::refused(format!(
            "writing to {named} destroys what is on it, and nobody has said that it may: claim it with --claim"
        )));
    }
    let device = Device::of(&asked.device)?;
    let known = device.serials();
    if !known.iter().any(|serial| serial == asked.serial.trim()) {
        return Err(DiskError::refused(format!(
            "{named} is not the device with serial number or WWN {:?}: the kernel shows {}; \
             give the one of the device that is meant",
            asked.serial,
            if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        )));
    }
    device.check_unused(Path::new("/proc"))?;
    let flags = i32::try_from((OFlags::EXCL | OFlags::DIRECT).bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&asked.device);
    let file = opened.map_err(DiskError::at("opening, alone,", &asked.device))?;
    // What was looked at and what is open now are the same device.
    let seen = file.metadata().map_err(DiskError::at("looking at", &asked.device))?;
    if !seen.file_type().is_block_device() || seen.rdev() != device.number {
        return Err(DiskError::refused(format!("{named} became another device while it was looked at")));
    }
    // While it is open alone, nobody can mount it or make it a part of something.
    check_signatures(&asked.device)?;
    Ok(file)
}

/// A block device below /sys.
#[derive(Debug)]
struct Device {
    path: PathBuf,
    number: u64,
    sys: PathBuf,
}

impl Device {
    fn of(path: &Path) -> Result<Self, DiskError> {
        let seen = fs::metadata(path).map_err(DiskError::at("looking at", path))?;
        if !seen.file_type().is_block_device() {
            return Err(DiskError::refused(format!("{} is no block device", path.display())));
        }
        let number = seen.rdev();
        let link = PathBuf::from(format!("/sys/dev/block/{}", name_of(number)));
        let sys = fs::canonicalize(&link).map_err(DiskError::at("looking for the device", &link))?;
        Ok(Self { path: path.to_owned(), number, sys })
    }

    /// The whole disk that this is, or is a part of.
    fn whole(&self) -> &Path {
        match self.sys.parent() {
            Some(parent) if self.sys.join("partition").exists() => parent,
            _ => &self.sys,
        }
    }

    /// Every serial number and WWN that the kernel shows of it.
    fn serials(&self) -> Vec<String> {
        let files = ["serial", "wwid", "device/serial", "device/wwid", "nsid/wwid", "loop/backing_file"];
        let mut found: Vec<String> = files
            .iter()
            .filter_map(|name| fs::read_to_string(self.whole().join(name)).ok())
            .map(|text| text.trim().to_owned())
            .collect();
        // The unit serial number page of SCSI's vital product data (SPC-4), behind a head of four bytes.
        if let Ok(page) = fs::read(self.whole().join("device/vpd_pg80")) {
            found.push(String::from_utf8_lossy(page.get(4..).unwrap_or_default()).trim().to_owned());
        }
        found.retain(|serial| !serial.is_empty());
        found
    }

    /// Refuses a device that is mounted, swapped to, or under another device, in any of its parts or its parent.
    fn check_unused(&self, proc: &Path) -> Result<(), DiskError> {
        let family = family(self.whole());
        for part in &family {
            let held = entries(&part.join("holders"));
            if let Some(holder) = held.first() {
                return Err(
                    self.used(part, &format!("is held by {holder} (LVM, md, device mapper or bcache)"))
                );
            }
        }
        let numbers: BTreeSet<String> = family
            .iter()
            .filter_map(|part| fs::read_to_string(part.join("dev")).ok())
            .map(|text| text.trim().to_owned())
            .collect();
        if let Some(name) = stored_on(&numbers) {
            return Err(self.used(Path::new(&name), "is a loop device that lies on it"));
        }
        let mounts = read(&proc.join("self/mountinfo"))?;
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(2);
            if let (Some(number), _, Some(place)) = (words.next(), words.next(), words.next()) {
                if numbers.contains(number) {
                    return Err(self.used(Path::new(number), &format!("is mounted on {place}")));
                }
            }
        }
        for line in read(&proc.join("swaps"))?.lines().skip(1) {
            let path = PathBuf::from(line.split_whitespace().next().unwrap_or_default());
            let swapped = fs::metadata(&path).is_ok_and(|seen| {
                // A swap file counts for the device it lies on.
                let number = if seen.file_type().is_block_device() { seen.rdev() } else { seen.dev() };
                numbers.contains(&name_of(number))
            });
            if swapped {
                return Err(self.used(&path, "is swapped to"));
            }
        }
        Ok(())
    }

    fn used(&self, part: &Path, how: &str) -> DiskError {
        let part = part
            .file_name()
            .map_or_else(|| part.display().to_string(), |name| name.to_string_lossy().into_owned());
        DiskError::refused(format!("{} is in use: {part} {how}; it is left alone", self.path.display()))
    }
}

/// A whole disk and its partitions, below /sys.
fn family(whole: &Path) -> Vec<PathBuf> {
    let parts = entries(whole)
        .into_iter()
        .map(|name| whole.join(name))
        .filter(|path| path.join("partition").exists());
    std::iter::once(whole.to_owned()).chain(parts).collect()
}

/// A loop device whose bytes are on one of these devices: the kernel shows it as no holder.
fn stored_on(numbers: &BTreeSet<String>) -> Option<String> {
    entries(Path::new("/sys/block")).into_iter().find(|name| {
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let path = fs::read_to_string(backing).unwrap_or_default();
        let seen = fs::metadata(path.trim_end()).ok().filter(|seen| seen.file_type().is_block_device());
        seen.is_some_and(|seen| numbers.contains(&name_of(seen.rdev())))
    })
}

fn entries(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .map(|list| list.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default()
}

fn name_of(number: u64) -> String {
    format!("{}:{}", major(number), minor(number))
}

fn read(path: &Path) -> Result<String, DiskError> {
    fs::read_to_string(path).map_err(DiskError::at("reading", path))
}

/// Where blkid is looked for.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Refuses what libblkid knows anything of: `blkid -p` looks at the device itself, not at a cache.
fn check_signatures(device: &Path) -> Result<(), DiskError> {
    // The agent of a guest is its first process: the kernel gives it no PATH.
    let asked =
        Command::new("blkid").env("PATH", SYSTEM_PATH).args(["-p", "-o", "export"]).arg(device).output();
    let answer = asked.map_err(DiskError::at("looking for signatures with blkid on", device))?;
    match answer.status.code() {
        Some(2) if answer.stdout.is_empty() => Ok(()),
        Some(0 | 8) => {
            let said = String::from_utf8_lossy(&answer.stdout);
            let kind = said.lines().filter(|line| line.contains("TYPE=")).collect::<Vec<_>>().join(", ");
            Err(DiskError::refused(format!(
                "{} bears a signature ({}); if what is on it may be lost, remove it yourself: wipefs --all {0}",
                device.display(),
                if kind.is_empty() { "of several kinds" } else { &kind },
            )))
        }
        _ => Err(DiskError::refused(format!(
            "looking for signatures on {}: blkid says {:?}",
            device.display(),
            String::from_utf8_lossy(&answer.stderr).trim()
        ))),
    }
}
