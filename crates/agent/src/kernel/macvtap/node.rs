//! Opening of the character device of a macvtap. A name such as `/dev/tapN` is not trusted, because interfaces of
//! different namespaces may have the same number N.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;
use nix::sys::stat::{makedev, mknod, Mode, SFlag};

/// Whether `name` is a valid interface name and not a path.
pub fn is_interface_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':' && byte != b'%';
    (1..=15).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != ".."
}

/// Return the device number of a macvtap interface, from the file `dev` of its `tapN` folder in the sysfs at
/// `sys`.
pub fn number_of(sys: &Path, interface: &str) -> io::Result<u64> {
    let folder = sys.join("class/net").join(interface);
    fs::metadata(&folder)?;
    let not_one = || io::Error::from_raw_os_error(libc::ENODEV);
    let devices = fs::read_dir(folder.join("macvtap")).map_err(|_| not_one())?;
    let device = devices.flatten().next().ok_or_else(not_one)?.path();
    let text = fs::read_to_string(device.join("dev"))?;
    let number = text
        .trim()
        .split_once(':')
        .and_then(|(major, minor)| Some(makedev(major.parse().ok()?, minor.parse().ok()?)));
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Open the character device with the given number through a temporary device node in `folder`.
pub fn open_number(folder: &Path, number: u64) -> io::Result<OwnedFd> {
    // The counter only makes the name unique.
    let unique = NODES.fetch_add(1, Ordering::Relaxed);
    let node = folder.join(format!("iolab-{}-{unique}", std::process::id()));
    mknod(&node, SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, number)?;
    let opened = File::options().read(true).write(true).open(&node);
    fs::remove_file(&node)?;
    let file = opened?;
    if file.metadata()?.rdev() != number {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    Ok(file.into())
}

static NODES: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_name_cannot_be_a_path_and_has_at_most_15_characters() {
        assert!(is_interface_name("mt0") && is_interface_name("a.b@c"));
        for wrong in ["", ".", "..", "../x", "a/b", "a b", "a:b", "a%d", "a\n", "sixteen-letters-"] {
            assert!(!is_interface_name(wrong), "{wrong:?}");
        }
    }
}
