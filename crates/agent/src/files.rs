//! Open what `process.start` passes to a program: taps, macvtap devices, devices below /dev.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_port::{open_tap, TapKind, TUN_DEVICE};
use iolab_protocol::files::{Opening, PassedFile};
use iolab_protocol::ErrorObject;
use nix::sys::stat::{makedev, mknod, Mode, SFlag};

use crate::faults::{refused, Answer};
use crate::launch::ABOVE_TARGETS;
use crate::netns;

/// Refuse what can never be passed.
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
            Opening::Device { path } if !path.starts_with("/dev/") => {
                return Err(ErrorObject::params("a device's path is below /dev", path.as_str()));
            }
            Opening::Device { .. } => {}
        }
    }
    Ok(())
}

fn check_interface(name: &str) -> Answer<()> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':' && byte != b'%';
    if (1..=15).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != ".." {
        return Ok(());
    }
    let message = "an interface's name is 1 to 15 printable characters without space, '/', ':' and '%'";
    Err(ErrorObject::params(message, name))
}

/// Open all of them, in order, each with the number the program finds it under.
pub fn open_all(files: &[PassedFile]) -> Answer<Vec<(i32, OwnedFd)>> {
    files.iter().map(|file| Ok((file.fd, open(&file.open)?))).collect()
}

fn open(opening: &Opening) -> Answer<OwnedFd> {
    match opening {
        Opening::Tap { netns, name, vnet_header, multi_queue } => {
            let kind = TapKind { vnet_header: *vnet_header, multi_queue: *multi_queue };
            netns::within(netns.as_deref(), || {
                open_tap(name, kind).map_err(|error| match error.raw_os_error() {
                    Some(nix::libc::ENOENT | nix::libc::ENODEV) => {
                        refused("opening (is the module tun loaded?)", TUN_DEVICE, &error)
                    }
                    _ => refused("opening tap", name, &error),
                })
            })
        }
        Opening::Macvtap { netns, interface } => {
            let number = netns::within_with_sys(netns.as_deref(), || {
                macvtap_number(interface)
                    .map_err(|error| refused("finding the device of macvtap", interface, &error))
            })?;
            open_number(number).map_err(|error| refused("opening the device of macvtap", interface, &error))
        }
        Opening::Device { path } => {
            open_device(path).map_err(|error| refused("opening device", path, &error))
        }
    }
}

/// The device number of a macvtap interface, which sysfs tells in the file `dev` of its one `tapN`.
fn macvtap_number(interface: &str) -> io::Result<u64> {
    let folder = Path::new("/sys/class/net").join(interface);
    fs::metadata(&folder)?;
    let not_one = || io::Error::from_raw_os_error(nix::libc::ENODEV);
    let devices = fs::read_dir(folder.join("macvtap")).map_err(|_| not_one())?;
    let device = devices.flatten().next().ok_or_else(not_one)?.path();
    let text = fs::read_to_string(device.join("dev"))?;
    let number = text
        .trim()
        .split_once(':')
        .and_then(|(major, minor)| Some(makedev(major.parse().ok()?, minor.parse().ok()?)));
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Open the character device of that number through a node of our own: what is called `/dev/tapN` may be another namespace's.
fn open_number(number: u64) -> io::Result<OwnedFd> {
    // Only a name nobody else has.
    let unique = NODES.fetch_add(1, Ordering::Relaxed);
    let node = format!("/dev/iolab-{}-{unique}", std::process::id());
    mknod(node.as_str(), SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, number)?;
    let opened = File::options().read(true).write(true).open(&node);
    fs::remove_file(&node)?;
    let file = opened?;
    if file.metadata()?.rdev() != number {
        return Err(io::Error::from_raw_os_error(nix::libc::ENODEV));
    }
    Ok(file.into())
}

fn open_device(path: &str) -> io::Result<OwnedFd> {
    let target = fs::canonicalize(path)?;
    let kind = fs::metadata(&target)?.file_type();
    if !target.starts_with("/dev/") || !(kind.is_char_device() || kind.is_block_device()) {
        return Err(io::Error::from_raw_os_error(nix::libc::ENODEV));
    }
    Ok(File::options().read(true).write(true).open(target)?.into())
}

static NODES: AtomicU64 = AtomicU64::new(0);
const MOST_FILES: usize = 256;
