//! A block device as the kernel shows it: its identity, its uses, and the signatures on it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{major, minor, OFlags};
use serde::Serialize;

use crate::error::DiskError;

/// A reason against writing to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// Kind of the reason.
    pub kind: ObstacleKind,
    /// The mount point, the device on top, or the type of the signature.
    pub name: String,
    /// The device that is in use: this device, its disk or one of its partitions.
    pub part: String,
}

/// Kind of a reason against writing to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObstacleKind {
    /// A different device is built on this device: LVM, md, device mapper or bcache.
    Held,
    /// A loop device uses the device.
    Loop,
    /// The device is mounted.
    Mounted,
    /// The device is swap space.
    Swap,
    /// A program or the kernel has opened the device exclusively.
    Busy,
    /// The SCSI disk has a persistent reservation.
    Reserved,
    /// The device cannot be opened.
    Unreadable,
    /// The device has the signature of a file system, a partition table or other disk software.
    Signature,
    /// The device is read-only.
    ReadOnly,
}

/// An open block device and its folder in /sys.
#[derive(Debug)]
pub struct Device {
    number: u64,
    sys: PathBuf,
}

/// Signatures and partition entry that libblkid finds on a device.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// `TYPE=` and `PTTYPE=` of the signatures.
    pub signatures: Vec<String>,
    /// UUID of the partition in its partition table.
    pub partition_uuid: Option<String>,
}

impl Device {
    /// Return the device at `path`.
    ///
    /// # Errors
    /// Returns an error if the file is not a block device.
    pub fn at(path: &Path) -> Result<Self, DiskError> {
        Self::of(&fs::metadata(path).map_err(DiskError::at("looking at", path))?, path)
    }

    /// Return the device behind an open file; `path` is its name in errors.
    ///
    /// # Errors
    /// Returns an error if the file is not a block device.
    pub fn behind(file: &File, path: &Path) -> Result<Self, DiskError> {
        Self::of(&file.metadata().map_err(DiskError::at("looking at", path))?, path)
    }

    fn of(seen: &fs::Metadata, path: &Path) -> Result<Self, DiskError> {
        if !seen.file_type().is_block_device() {
            return Err(DiskError::refused(format!("{} is no block device", path.display())));
        }
        let number = seen.rdev();
        let link = PathBuf::from(format!("/sys/dev/block/{}", name_of(number)));
        let sys = fs::canonicalize(&link).map_err(DiskError::at("looking for the device", &link))?;
        Ok(Self { number, sys })
    }

    /// Return the device number.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Return the kernel's name of the device.
    pub fn name(&self) -> String {
        last(&self.sys)
    }

    /// Return the kernel's name of the whole disk.
    pub fn disk(&self) -> String {
        last(self.whole())
    }

    /// Return the folder of the whole disk: the device itself, or the parent of a partition.
    fn whole(&self) -> &Path {
        match self.sys.parent() {
            Some(parent) if self.is_partition() => parent,
            _ => &self.sys,
        }
    }

    fn is_partition(&self) -> bool {
        self.sys.join("partition").exists()
    }

    /// Whether the kernel refuses writes to the device or its disk.
    pub fn is_read_only(&self) -> bool {
        [self.sys.as_path(), self.whole()]
            .iter()
            .any(|part| fs::read_to_string(part.join("ro")).is_ok_and(|text| text.trim() == "1"))
    }

    /// Return all serial numbers and WWNs that the kernel reports for the disk.
    pub fn serials(&self) -> Vec<String> {
        let files = ["serial", "wwid", "device/serial", "device/wwid", "nsid/wwid", "loop/backing_file"];
        let mut found: Vec<String> = files
            .iter()
            .filter_map(|name| fs::read_to_string(self.whole().join(name)).ok())
            .map(|text| text.trim().to_owned())
            .collect();
        // Unit serial number page of the SCSI vital product data (SPC-4), after a header of four bytes.
        if let Ok(page) = fs::read(self.whole().join("device/vpd_pg80")) {
            found.push(String::from_utf8_lossy(page.get(4..).unwrap_or_default()).trim().to_owned());
        }
        found.retain(|serial| !serial.is_empty());
        found
    }

    /// Return the UUID of a logical volume as lvs(8) shows it.
    pub fn volume_uuid(&self) -> Option<String> {
        fs::read_to_string(self.sys.join("dm/uuid")).ok().and_then(|text| volume_uuid(text.trim()))
    }

    /// Return the disks below the device: the disks below a logical volume, or otherwise the device's own disk. A loop
    /// device has its backing file as a second disk, because several loop devices can share the file.
    pub fn disks_below(&self) -> BTreeSet<String> {
        let below = entries(&self.whole().join("slaves"));
        if below.is_empty() {
            return [Some(self.disk()), self.backing_file()].into_iter().flatten().collect();
        }
        below
            .iter()
            .filter_map(|name| fs::canonicalize(Path::new("/sys/class/block").join(name)).ok())
            .flat_map(|sys| Self { number: 0, sys }.disks_below())
            .collect()
    }

    /// Return device and inode number of a loop device's backing file.
    fn backing_file(&self) -> Option<String> {
        let path = fs::read_to_string(self.whole().join("loop/backing_file")).ok()?;
        let seen = fs::metadata(path.trim_end()).ok()?;
        Some(format!("file-{}-{}", seen.dev(), seen.ino()))
    }

    /// Return the reasons why the device, its partitions or its disk are in use.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report the uses.
    pub fn uses(&self, proc: &Path) -> Result<Vec<Obstacle>, DiskError> {
        let related = self.related();
        let mut found = Vec::new();
        for part in &related {
            found.extend(entries(&part.join("holders")).into_iter().map(|name| Obstacle {
                kind: ObstacleKind::Held,
                name,
                part: last(part),
            }));
        }
        let numbers: BTreeSet<String> = related
            .iter()
            .filter_map(|part| fs::read_to_string(part.join("dev")).ok())
            .map(|text| text.trim().to_owned())
            .collect();
        if let Some(name) = stored_on(&numbers) {
            found.push(Obstacle { kind: ObstacleKind::Loop, part: self.name(), name });
        }
        for line in read(&proc.join("self/mountinfo"))?.lines() {
            let mut words = line.split(' ').skip(2);
            if let (Some(number), _, Some(place)) = (words.next(), words.next(), words.next()) {
                if numbers.contains(number) {
                    let part = name_in_sys(number);
                    found.push(Obstacle { kind: ObstacleKind::Mounted, name: place.to_owned(), part });
                }
            }
        }
        for line in read(&proc.join("swaps"))?.lines().skip(1) {
            let path = PathBuf::from(line.split_whitespace().next().unwrap_or_default());
            let number = fs::metadata(&path).map(|seen| {
                // A swap file counts as use of the device that contains it.
                if seen.file_type().is_block_device() {
                    seen.rdev()
                } else {
                    seen.dev()
                }
            });
            if let Ok(number) = number.map(name_of).as_ref().map_err(|_| ()) {
                if numbers.contains(number) {
                    let part = name_in_sys(number);
                    found.push(Obstacle { kind: ObstacleKind::Swap, name: path.display().to_string(), part });
                }
            }
        }
        Ok(found)
    }

    /// Return the folders in /sys of a disk and its partitions, or of a partition and its disk.
    fn related(&self) -> Vec<PathBuf> {
        if self.is_partition() {
            return vec![self.sys.clone(), self.whole().to_owned()];
        }
        let parts = entries(&self.sys)
            .into_iter()
            .map(|name| self.sys.join(name))
            .filter(|path| path.join("partition").exists());
        std::iter::once(self.sys.clone()).chain(parts).collect()
    }
}

/// Return the signatures and the partition entry that libblkid finds on an open device. `blkid -p` reads the device
/// itself, not a cache.
///
/// # Errors
/// Returns an error if blkid cannot be run, or fails.
pub fn probe(device: &File, path: &Path) -> Result<Probed, DiskError> {
    let opened = format!("/proc/{}/fd/{}", std::process::id(), device.as_raw_fd());
    // The agent of a guest is the guest's first process, and the kernel sets no PATH for it.
    let asked =
        Command::new("blkid").env("PATH", SYSTEM_PATH).args(["-p", "-o", "export"]).arg(opened).output();
    let answer = asked.map_err(DiskError::at("looking for signatures with blkid on", path))?;
    match answer.status.code() {
        Some(2) if answer.stdout.is_empty() => Ok(Probed::default()),
        Some(0) => Ok(probed(&String::from_utf8_lossy(&answer.stdout))),
        Some(8) => Ok(Probed { signatures: vec!["of several kinds".to_owned()], partition_uuid: None }),
        _ => Err(DiskError::refused(format!(
            "looking for signatures on {}: blkid says {:?}",
            path.display(),
            String::from_utf8_lossy(&answer.stderr).trim()
        ))),
    }
}

/// Parse the output of `blkid -p -o export`. A partition has `PART_ENTRY_...` lines, even if it is blank.
fn probed(text: &str) -> Probed {
    let signatures = text
        .lines()
        .filter(|line| line.starts_with("TYPE=") || line.starts_with("PTTYPE="))
        .map(str::to_owned)
        .collect();
    let uuid = text.lines().find_map(|line| line.strip_prefix("PART_ENTRY_UUID="));
    Probed { signatures, partition_uuid: uuid.map(str::to_owned) }
}

/// Whether a program or the kernel has opened the device exclusively: a mount, an array, QEMU.
pub fn is_busy(path: &Path) -> bool {
    let flags = i32::try_from((OFlags::EXCL | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()))
}

/// Return the UUID of a logical volume as lvs(8) shows it, from its name in device mapper.
fn volume_uuid(text: &str) -> Option<String> {
    let both = text.strip_prefix("LVM-").filter(|both| both.len() >= 64 && both.is_ascii())?;
    let uuid = &both[32..64];
    let parts = [0..6, 6..10, 10..14, 14..18, 18..22, 22..26, 26..32].map(|range| &uuid[range]);
    Some(parts.join("-"))
}

/// Return the name of a loop device that is backed by one of these devices; the kernel does not list loop
/// devices as holders.
fn stored_on(numbers: &BTreeSet<String>) -> Option<String> {
    entries(Path::new("/sys/block")).into_iter().find(|name| {
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let path = fs::read_to_string(backing).unwrap_or_default();
        let seen = fs::metadata(path.trim_end()).ok().filter(|seen| seen.file_type().is_block_device());
        seen.is_some_and(|seen| numbers.contains(&name_of(seen.rdev())))
    })
}

/// Return the names in a folder; empty if there is no such folder.
pub fn entries(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .map(|list| list.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default()
}

fn name_of(number: u64) -> String {
    format!("{}:{}", major(number), minor(number))
}

/// Return the kernel's name of the device with the given number.
fn name_in_sys(number: &str) -> String {
    fs::canonicalize(format!("/sys/dev/block/{number}"))
        .map_or_else(|_: io::Error| number.to_owned(), |path| last(&path))
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<String, DiskError> {
    fs::read_to_string(path).map_err(DiskError::at("reading", path))
}

/// Search path for blkid.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests {
    use super::{probed, volume_uuid, Probed};

    #[test]
    fn blank_partition_has_an_identity_but_no_signature() {
        let text = "DEVNAME=/dev/sdb1\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_UUID=6f1e\nPART_ENTRY_TYPE=0fc6\n";
        let found = Probed { signatures: vec![], partition_uuid: Some("6f1e".to_owned()) };
        assert_eq!(probed(text), found);
        let found = probed("DEVNAME=/dev/sdb\nUUID=1\nTYPE=ext4\nUSAGE=filesystem\nPTTYPE=dos\n");
        assert_eq!(found.signatures, ["TYPE=ext4", "PTTYPE=dos"]);
    }

    #[test]
    fn uuid_of_a_logical_volume_is_the_one_that_lvs_shows() {
        let group = "0123456789abcdefghijklmnopqrstuv";
        let text = format!("LVM-{group}ABCDEFghijKLMNopqrSTUVwxyz012345");
        assert_eq!(volume_uuid(&text).as_deref(), Some("ABCDEF-ghij-KLMN-opqr-STUV-wxyz-012345"));
        assert_eq!(volume_uuid("CRYPT-LUKS2-x"), None);
        assert_eq!(volume_uuid("LVM-short"), None);
    }
}
