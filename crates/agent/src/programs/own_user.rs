//! A program that runs as a separate user, without root privileges. In folders that are closed to other users, the
//! program sees only the files that it was given.
//!
//! The user, the mounts and the device nodes are set up in the launched process before it executes the
//! program, and belong to it alone.

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

/// User IDs without a name, which service managers also use (systemd's `DynamicUser`). These users own no files.
const USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// Folder in which a device node is created, invisible to other processes, before the node is bind-mounted.
pub const WORKPLACE: &str = "/run";

/// Return the user ID for the process `pid`; `None` if root may not switch to it, as in a user namespace in which root
/// is the only user.
pub fn user_of(pid: u32) -> Option<u32> {
    let user = USERS.start() + pid % (USERS.end() - USERS.start() + 1);
    may_become(user).then_some(user)
}

/// Whether this process may switch to `user`: it is root, and its user namespace maps the user.
pub fn may_become(user: u32) -> bool {
    let mapped = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(user)))
    };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    Uid::effective().is_root() && map.lines().any(mapped)
}

/// Switch to `user`, who owns the writable files and sees the readable files of `view`, without any
/// privileges.
pub fn become_user(user: u32, view: &OwnUser) -> Result<(), LaunchFailure> {
    let at = |doing, path: &Path| {
        let path = path.to_string_lossy().into_owned();
        move |error: io::Error| LaunchFailure::new(doing, path, &error)
    };
    umask(Mode::from_bits_truncate(0o022));
    own_mounts().map_err(|errno| at("making mounts for", Path::new("a user of its own"))(errno.into()))?;
    // Open all files before the first mount over a folder, because the mount hides the files in the folder.
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

/// Return each path, preceded by the target of its symbolic links, which may also be in a closed folder.
fn with_targets(paths: &[String]) -> Vec<PathBuf> {
    let both = |path: &String| [fs::canonicalize(path).unwrap_or_else(|_| path.into()), path.into()];
    let mut all: Vec<PathBuf> = paths.iter().flat_map(both).collect();
    all.dedup();
    all
}

/// Change the owner of a file, folder or socket to the user; the owner of a device stays unchanged.
pub fn give(file: &File, user: u32) -> io::Result<()> {
    if is_device(&file.metadata()?) {
        return Ok(());
    }
    chown(open_again(file), Some(user), Some(user))
}

fn is_device(seen: &Metadata) -> bool {
    seen.file_type().is_char_device() || seen.file_type().is_block_device()
}

/// Make an open file accessible to the user under its path; a device gets the given mode.
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

/// Make a file in a closed folder readable for the user; the folder still keeps other users out.
fn open_to_read(file: &File, seen: &Metadata) -> io::Result<()> {
    if seen.mode() & 0o004 == 0 {
        fs::set_permissions(open_again(file), Permissions::from_mode(seen.mode() & 0o7777 | 0o004))?;
    }
    Ok(())
}

/// Replace the host's device node, which is closed to users or open only to a group, with a node that belongs to the
/// user.
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
