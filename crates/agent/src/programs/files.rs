//! Opens the files that `process.start` passes to a program: taps, macvtap devices, devices in /dev.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;

use iolab_disk::{claim, existing, Claim};
use iolab_protocol::files::{Opening, PassedFile};
use iolab_protocol::ErrorObject;
use iolab_sys::tap::{open_tap, TapKind, TUN_DEVICE};

use crate::kernel::faults::{refused, Answer};
use crate::kernel::macvtap::{self, check_interface, Door};
use crate::kernel::netns;
use crate::programs::child::collecting_alone;
use crate::programs::launch::ABOVE_TARGETS;

/// Refuse files that can never be passed.
pub fn check(files: &[PassedFile]) -> Answer<()> {
    if files.len() > MOST_FILES {
        return Err(ErrorObject::params(format!("'files' has at most {MOST_FILES} entries"), files.len()));
    }
    let mut seen = BTreeSet::new();
    for file in files {
        if !(3..ABOVE_TARGETS).contains(&file.fd) || !seen.insert(file.fd) {
            let message = format!("'fd' is 3 to {}, and each number is given once", ABOVE_TARGETS - 1);
            return Err(ErrorObject::params(message, file.fd));
        }
        match &file.open {
            Opening::Tap { name, .. } | Opening::Macvtap { interface: name, .. } => check_interface(name)?,
            Opening::Device { path } | Opening::Claimed { path, .. } if !path.starts_with("/dev/") => {
                return Err(ErrorObject::params("a device's path is below /dev", path.as_str()));
            }
            Opening::Existing { record, .. } if !record.starts_with("/run/") || record.contains("/../") => {
                return Err(ErrorObject::params("the record of a device is below /run", record.as_str()));
            }
            Opening::Device { .. } | Opening::Claimed { .. } | Opening::Existing { .. } => {}
        }
    }
    Ok(())
}

/// Open all files in order, each with its number in the program; macvtaps through `door` if given.
pub fn open_all(files: &[PassedFile], door: Option<&Door>) -> Answer<Vec<(i32, OwnedFd)>> {
    files.iter().map(|file| Ok((file.fd, open(&file.open, door)?))).collect()
}

fn open(opening: &Opening, door: Option<&Door>) -> Answer<OwnedFd> {
    match opening {
        Opening::Tap { netns, name, vnet_header, multi_queue } => {
            let kind = TapKind { vnet_header: *vnet_header, multi_queue: *multi_queue, never_waits: false };
            netns::within(netns.as_deref(), || {
                open_tap(name, kind).map_err(|error| match error.raw_os_error() {
                    Some(nix::libc::ENOENT | nix::libc::ENODEV) => {
                        refused("opening (is the module tun loaded?)", TUN_DEVICE, &error)
                    }
                    _ => refused("opening tap", name, &error),
                })
            })
        }
        Opening::Macvtap { netns, interface } => macvtap::open(netns.as_deref(), interface, door),
        Opening::Device { path } => {
            open_device(path).map_err(|error| refused("opening device", path, &error))
        }
        Opening::Claimed { path, serial } => {
            let claim = Claim { device: path.into(), serial: serial.clone(), claim: true };
            // `claim::take` runs blkid, so no other child may be collected meanwhile.
            collecting_alone(|| claim::take(&claim))
                .map(OwnedFd::from)
                .map_err(|error| ErrorObject::refused(error.to_string(), None, path.as_str()))
        }
        Opening::Existing { record, writes } => collecting_alone(|| existing::open(record.as_ref(), *writes))
            .map(OwnedFd::from)
            .map_err(|error| ErrorObject::refused(error.to_string(), None, record.as_str())),
    }
}

fn open_device(path: &str) -> io::Result<OwnedFd> {
    let target = fs::canonicalize(path)?;
    let kind = fs::metadata(&target)?.file_type();
    if !target.starts_with("/dev/") || !(kind.is_char_device() || kind.is_block_device()) {
        return Err(io::Error::from_raw_os_error(nix::libc::ENODEV));
    }
    Ok(File::options().read(true).write(true).open(target)?.into())
}

const MOST_FILES: usize = 256;
