//! A program that runs as a user of its own: root in nothing, and of closed folders it sees only what it was given.
//!
//! This works in the launched process, before it becomes the program: the user, the mounts and the nodes are its alone.

use crate::programs::launched::LaunchFailure;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{chown, DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use iolab_protocol::calls::OwnUser;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sys::prctl::set_no_new_privs;
use nix::sys::stat::{mknod, umask, Mode, SFlag};
use nix::unistd::{setgroups, setresgid, setresuid, Gid, Uid};

use crate::kernel::netns::own_mounts;

/// Users without a name, which service managers also take from (systemd's DynamicUser): nothing belongs to them.
const USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// Where the node of a device is made, out of sight, before it takes its place.
pub const WORKPLACE: &str = "/run";

/// The user for the process `pid`; none where root may not become it: a user namespace may have root alone.
pub fn user_of(pid: u32) -> Option<u32> {
    let user = USERS.start() + pid % (USERS.end() - USERS.start() + 1);
    may_become(user).then_some(user)
}

/// Whether this process may become `user`: it is root, and its user namespace has such a user.
pub fn may_become(user: u32) -> bool {
    let mapped = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(user)))
    };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    Uid::effective().is_root() && map.lines().any(mapped)
}

/// Become `user`, who owns what it writes and sees what it reads; without rights, and without ways to get any.
pub fn become_user(user: u32, view: &OwnUser) -> Result<(), LaunchFailure> {
    let at = |doing, path: &Path| {
        let path = path.to_string_lossy().into_owned();
        move |error: io::Error| LaunchFailure::new(doing, path, &error)
    };
    umask(Mode::from_bits_truncate(0o022));
    own_mounts().map_err(|errno| at("making mounts for", Path::new("a user of its own"))(errno.into()))?;
    // All are opened before the first folder is covered: what covers one hides what is below it.
    let open = |path: &Path| {
        let file = File::options().read(true).custom_flags(nix::libc::O_PATH).open(path);
        Ok((path.to_owned(), file.map_err(at("opening", path))?))
    };
    let written = with_targets(&view.writes).iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let read = with_targets(&view.reads).iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    for (path, file) in &written {
        give(file, user).map_err(at("giving to a user of its own", path))?;
    }
    let writes = written.iter().map(|one| (one, Mode::S_IRUSR | Mode::S_IWUSR));
    for ((path, file), mode) in writes.chain(read.iter().map(|one| (one, Mode::S_IRUSR))) {
        show(path, file, (user, mode)).map_err(at("showing to a user of its own", path))?;
    }
    drop_rights(user).map_err(|errno| at("becoming a user of its own", Path::new("root"))(errno.into()))
}

/// The paths, and before each what it leads to by symbolic links: that may be in a closed folder too.
fn with_targets(paths: &[String]) -> Vec<PathBuf> {
    let both = |path: &String| [fs::canonicalize(path).unwrap_or_else(|_| path.into()), path.into()];
    let mut all: Vec<PathBuf> = paths.iter().flat_map(both).collect();
    all.dedup();
    all
}

/// Make a file, folder or socket the user's; a device stays the host's.
pub fn give(file: &File, user: u32) -> io::Result<()> {
    if is_device(&file.metadata()?) {
        return Ok(());
    }
    chown(open_again(file), Some(user), Some(user))
}

fn is_device(seen: &Metadata) -> bool {
    seen.file_type().is_char_device() || seen.file_type().is_block_device()
}

/// Let the user reach what is open by its path; a device with these rights.
fn show(path: &Path, file: &File, owner: (u32, Mode)) -> io::Result<()> {
    let seen = file.metadata()?;
    if is_device(&seen) {
        return show_device(path, &seen, owner);
    }
    let is_closed = |seen: Metadata| seen.mode() & 0o001 == 0 && seen.uid() != owner.0;
    let closed = |folder: &&Path| fs::metadata(folder).is_ok_and(is_closed);
    let above: Vec<&Path> = path.ancestors().skip(1).collect();
    if let Some(folder) = above.into_iter().rev().find(closed) {
        cover(folder)?;
    } else if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o711).create(if seen.is_dir() { path } else { parent(path) })?;
    if !seen.is_dir() {
        File::create(path)?;
        if seen.uid() != owner.0 {
            open_to_read(file, &seen)?;
        }
    }
    Ok(bind(&open_again(file), path)?)
}

/// Let the user read a file in a closed folder, where only its owner could: nobody else comes to it.
fn open_to_read(file: &File, seen: &Metadata) -> io::Result<()> {
    if seen.mode() & 0o004 == 0 {
        fs::set_permissions(open_again(file), Permissions::from_mode(seen.mode() & 0o7777 | 0o004))?;
    }
    Ok(())
}

/// Put a node of the user's own in the place of the host's, which is closed to users, or open to a group alone.
fn show_device(path: &Path, seen: &Metadata, (user, mode): (u32, Mode)) -> io::Result<()> {
    let kind = if seen.file_type().is_block_device() { SFlag::S_IFBLK } else { SFlag::S_IFCHR };
    let node = Path::new(WORKPLACE).join("node");
    cover(Path::new(WORKPLACE))?;
    mknod(&node, kind, mode, seen.rdev())?;
    chown(&node, Some(user), Some(user))?;
    bind(&node, path)?;
    Ok(umount2(WORKPLACE, MntFlags::MNT_DETACH)?)
}

fn cover(folder: &Path) -> nix::Result<()> {
    mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=711"))
}

fn bind(from: &Path, to: &Path) -> nix::Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
}

pub fn open_again(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("/"))
}

fn drop_rights(user: u32) -> nix::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    set_no_new_privs()
}
