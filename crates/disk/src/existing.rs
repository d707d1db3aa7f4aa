//! Block devices that exist before a lab: facts about them, the record that a lab keeps, and reopening the recorded
//! device. A program that only reads gets a descriptor that is not open for writing.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iolab_sys::{disk_sequence, reservation_key};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::cache::length;
use crate::claim::{check_not_reserved, check_signatures, check_unused, open_alone};
use crate::device::{entries, is_busy, probe, Device, Obstacle, ObstacleKind};
use crate::error::DiskError;
use crate::report::Examined;
use crate::request::Examine;

/// A device as it was when a lab examined it, stored in a file that only the agent's user can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Path of the device.
    pub path: PathBuf,
    /// Device node at the time of the examination.
    pub node: PathBuf,
    /// Identities of the device.
    pub identities: Vec<String>,
    /// Disk sequence number.
    pub sequence: Option<u64>,
    /// Device number.
    pub number: u64,
    /// Whether the user permits writing.
    pub writes: bool,
    /// Whether the user permits the loss of a file system or other content with a signature.
    pub destroys: bool,
}

/// Execute a request to examine a device, and record it if requested.
pub fn examine(asked: &Examine) -> Result<Examined, DiskError> {
    let (file, device) = open_to_read(&asked.device)?;
    let seen = describe(&file, &device, &asked.device)?;
    if let Some(expected) = &asked.expected {
        if !seen.identities.contains(expected) {
            return Err(changed(&asked.device, expected, &seen.identities));
        }
    }
    if let Some(place) = &asked.record {
        let named = |ids: &[String]| ids.iter().any(|id| seen.identities.contains(id));
        let record = Record {
            path: asked.device.clone(),
            node: Path::new("/dev").join(seen.name.replace('!', "/")),
            identities: seen.identities.clone(),
            sequence: seen.sequence,
            number: device.number(),
            writes: named(&asked.allowed),
            destroys: named(&asked.destroyed),
        };
        store(&record, place)?;
    }
    Ok(seen)
}

/// Examine all disks of this kernel and their partitions.
pub fn all() -> Vec<Examined> {
    let folder = Path::new("/sys/class/block");
    let mut names = entries(folder);
    names.sort();
    let nodes = names.iter().filter(|name| {
        let sectors = fs::read_to_string(folder.join(name).join("size")).unwrap_or_default();
        let hidden = fs::read_to_string(folder.join(name).join("hidden")).unwrap_or_default();
        sectors.trim() != "0" && hidden.trim() != "1"
    });
    nodes
        .map(|name| (name, Path::new("/dev").join(name.replace('!', "/"))))
        .filter(|(_, path)| path.exists()) // a container shows the host's disks in /sys, but not their nodes
        .map(|(name, path)| {
            let seen = open_to_read(&path).and_then(|(file, device)| describe(&file, &device, &path));
            seen.unwrap_or_else(|error| unreadable(path, name, &error))
        })
        .collect()
}

fn unreadable(path: PathBuf, name: &str, error: &DiskError) -> Examined {
    let why = Obstacle { kind: ObstacleKind::Unreadable, name: error.to_string(), part: name.to_owned() };
    Examined {
        path,
        name: name.to_owned(),
        disks: BTreeSet::new(),
        identities: Vec::new(),
        sequence: None,
        bytes: 0,
        obstacles: vec![why],
    }
}

/// Open the recorded device: only for reading, or for exclusive writing.
///
/// # Errors
/// Returns an error if the device is a different one, or if writing is not permitted.
pub fn open(place: &Path, writes: bool) -> Result<File, DiskError> {
    let record = recorded(place)?;
    let (file, device) = open_to_read(&record.path)?;
    check_same(&record, &file, &device)?;
    if !writes {
        return Ok(file);
    }
    if !record.writes {
        return Err(DiskError::refused(format!(
            "writing to {} is not permitted: it needs `writes: allowed` in the experiment file and --allow-writes {}",
            record.path.display(),
            record.identities.first().map_or("ID", String::as_str),
        )));
    }
    check_unused(&device, &record.path)?;
    let alone = open_alone(&record.path, &device, OFlags::empty())?;
    check_same(&record, &alone, &device)?;
    check_not_reserved(&alone, &record.path)?;
    if !record.destroys {
        check_signatures(&alone, &record.path)?;
    }
    Ok(alone)
}

/// Open a device without effect on its other users: no `O_EXCL`, so that a mounted disk can be measured, and
/// no write access.
fn open_to_read(path: &Path) -> Result<(File, Device), DiskError> {
    if !path.starts_with("/dev") {
        return Err(DiskError::refused(format!("{} is not below /dev", path.display())));
    }
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(DiskError::at("opening", path))?;
    let device = Device::behind(&file, path)?;
    Ok((file, device))
}

fn describe(file: &File, device: &Device, path: &Path) -> Result<Examined, DiskError> {
    let probed = probe(file, path);
    let mut obstacles = device.uses(Path::new("/proc"))?;
    let found = |kind, name: &str| Obstacle { kind, name: name.to_owned(), part: device.name() };
    if obstacles.is_empty() && is_busy(path) {
        obstacles.push(found(ObstacleKind::Busy, ""));
    }
    if let Some(key) = reservation_key(file) {
        obstacles.push(found(ObstacleKind::Reserved, &format!("{key:#x}")));
    }
    if device.is_read_only() {
        obstacles.push(found(ObstacleKind::ReadOnly, ""));
    }
    let (signatures, partition_uuid) = match probed {
        Ok(probed) => (probed.signatures, probed.partition_uuid),
        Err(error) => (vec![error.to_string()], None),
    };
    obstacles.extend(signatures.iter().map(|one| found(ObstacleKind::Signature, one)));
    Ok(Examined {
        path: path.to_owned(),
        name: device.name(),
        disks: device.disks_below(),
        identities: identities(device, partition_uuid),
        sequence: disk_sequence(file),
        bytes: length(file).map_err(DiskError::at("looking at the size of", path))?,
        obstacles,
    })
}

fn identities(device: &Device, partition_uuid: Option<String>) -> Vec<String> {
    let mut found = device.serials();
    found.extend(partition_uuid);
    found.extend(device.volume_uuid());
    found
}

/// Compare an open device with its record. A device without an identity is compared by its device number and its disk
/// sequence number.
fn check_same(record: &Record, file: &File, device: &Device) -> Result<(), DiskError> {
    let partition_uuid = probe(file, &record.path).ok().and_then(|probed| probed.partition_uuid);
    let identities = identities(device, partition_uuid);
    if device.number() == record.number
        && disk_sequence(file) == record.sequence
        && identities == record.identities
    {
        return Ok(());
    }
    Err(changed(&record.path, record.identities.first().map_or("none", String::as_str), &identities))
}

fn changed(path: &Path, expected: &str, identities: &[String]) -> DiskError {
    DiskError::refused(format!(
        "{} is a different device now: it was {expected}, and the kernel shows {}; it is left alone",
        path.display(),
        if identities.is_empty() { "no identity".to_owned() } else { identities.join(", ") },
    ))
}

fn store(record: &Record, place: &Path) -> Result<(), DiskError> {
    let text = serde_json::to_string(record).map_err(|error| DiskError::refused(error.to_string()))?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(place);
    let mut file = made.map_err(DiskError::at("creating the record", place))?;
    file.write_all(text.as_bytes()).map_err(DiskError::at("writing the record", place))
}

fn recorded(place: &Path) -> Result<Record, DiskError> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(place);
    let file = opened.map_err(DiskError::at("opening the record", place))?;
    let seen = file.metadata().map_err(DiskError::at("looking at the record", place))?;
    if !seen.is_file() || seen.uid() != geteuid().as_raw() || seen.mode() & 0o022 != 0 {
        return Err(DiskError::refused(format!("{} is no record of this user", place.display())));
    }
    serde_json::from_reader(file).map_err(|error| {
        DiskError::refused(format!("the record {} cannot be read: {error}", place.display()))
    })
}
