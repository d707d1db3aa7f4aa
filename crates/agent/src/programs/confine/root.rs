//! The root folder of a confined program: libraries, the program itself, a few devices that hold no data (such as
//! /dev/null), and the objects that it works on.

use crate::programs::launched::LaunchFailure;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{symlink, DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use iolab_protocol::calls::Confined;
use iolab_sys::landlock::Access;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sys::stat::{major, minor, mknod, Mode, SFlag};
use nix::sys::statvfs::{statvfs, FsFlags};
use nix::unistd::{chdir, chroot, pivot_root};

use super::Allowed;
use crate::programs::own_user::{give, open_again, WORKPLACE};

/// Folder that contains only the program.
pub const PROGRAM_FOLDER: &str = "/program";
/// Library folders, and the files that the dynamic loader uses.
const LIBRARIES: &[&str] = &[
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/nix/store",
    "/gnu/store",
];
/// Folders with information about CPUs and memory nodes.
const SYSTEM: &[&str] = &["/sys/devices/system/cpu", "/sys/devices/system/node"];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
const TEMPORARY: &str = "/tmp";
/// Mount options of each folder in memory. Such a folder also holds a copy of a program that other users may
/// not read.
const MEMORY: &str = "size=64m,mode=755";
const NOTHING: Option<&str> = None;

/// An object of the host, as an open descriptor with its path for the program.
struct Shown {
    path: PathBuf,
    file: File,
}

/// Open descriptors of all objects that a program sees.
pub struct Root {
    program: Shown,
    libraries: Vec<Shown>,
    system: Vec<Shown>,
    null_devices: Vec<Shown>,
    devices: Vec<Shown>,
    /// Paths of the devices that the program only reads.
    read_only: Vec<PathBuf>,
    folders: Vec<Shown>,
    files: Vec<Shown>,
    /// Symbolic links, each with its target.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Root {
    /// Open all objects that the program sees, and change the owner of writable objects to `user`. Later steps show the
    /// program exactly these open objects, even if their paths change.
    pub fn open(view: &Confined, program: &Path, user: Option<u32>) -> Result<Self, LaunchFailure> {
        let program = program_file(program)?;
        let (mut libraries, mut links) = (Vec::new(), Vec::new());
        for path in library_folders(&program.path) {
            match fs::symlink_metadata(&path) {
                Ok(seen) if seen.is_symlink() => {
                    let target = fs::read_link(&path).map_err(at("reading", &path))?;
                    links.push((path, target));
                }
                Ok(_) => libraries.push(opened(&path)?),
                Err(_) => {}
            }
        }
        let named = view.devices.iter().map(|path| block_device(Path::new(path), Path::new(path)));
        let opened_before = view.opened.iter().map(|device| {
            block_device(&PathBuf::from(format!("/proc/self/fd/{}", device.fd)), Path::new(&device.path))
        });
        let devices = named.chain(opened_before).collect::<Result<Vec<_>, _>>()?;
        let read_only = view.opened.iter().filter(|device| !may_write(device.fd));
        let read_only = read_only.map(|device| PathBuf::from(&device.path)).collect();
        let mut system = there(SYSTEM)?;
        for device in &devices {
            let number = device.file.metadata().map_err(at("looking at", &device.path))?.rdev();
            let name = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
            let Ok(folder) = fs::canonicalize(&name) else { continue };
            let short = Path::new("/sys/block").join(folder.file_name().unwrap_or_default());
            links.extend([(name, folder.clone()), (short, folder.clone())]);
            system.push(opened(&folder)?);
        }
        let folders = opened_all(&view.folders)?;
        let files = opened_all(&view.files)?;
        if let Some(user) = user {
            for each in folders.iter().chain(&files) {
                give(&each.file, user).map_err(at("giving to a user of its own", &each.path))?;
            }
        }
        let null_devices = there(DEVICES)?;
        Ok(Self { program, libraries, system, null_devices, devices, read_only, folders, files, links })
    }

    /// Return the first device that the program works on.
    pub fn device(&self) -> Option<&File> {
        self.devices.first().map(|device| &device.file)
    }

    /// Return the name of the program's file in [`PROGRAM_FOLDER`].
    pub fn program_name(&self) -> String {
        let name = self.program.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Change to the new root folder, in which only these objects are visible.
    pub fn enter(&self, user: Option<u32>) -> Result<(), LaunchFailure> {
        let root = Path::new(WORKPLACE);
        mount(NOTHING, "/", NOTHING, MsFlags::MS_SLAVE | MsFlags::MS_REC, NOTHING)
            .and_then(|()| in_memory(root, MEMORY))
            .map_err(|errno| at("making a root folder of its own for", &self.program.path)(errno.into()))?;
        furnish(root, user).map_err(at("furnishing the root folder of", &self.program.path))?;
        for each in self.libraries.iter().chain(&self.system) {
            show(root, each, MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV)?;
        }
        for each in &self.null_devices {
            show(root, each, MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC)?;
        }
        for each in &self.devices {
            let reads = self.read_only.contains(&each.path);
            show_device(root, each, user, reads).map_err(at("showing to a confined program", &each.path))?;
        }
        for each in &self.folders {
            show(root, each, MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC)?;
        }
        for each in &self.files {
            show(
                root,
                each,
                MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
            )?;
        }
        self.show_program(root).map_err(at("showing to itself", &self.program.path))?;
        for (name, target) in &self.links {
            let name = below(root, name);
            make_folder(name.parent().unwrap_or(root))
                .and_then(|()| symlink(target, &name))
                .map_err(at("naming", &name))?;
        }
        change_root(root)
            .map_err(|errno| at("changing to a root folder of its own for", &self.program.path)(errno.into()))
    }

    fn show_program(&self, root: &Path) -> io::Result<()> {
        let place = below(root, Path::new(PROGRAM_FOLDER));
        make_folder(&place)?;
        let place = place.join(self.program_name());
        let all = 0o555;
        let may_be_read = self.program.file.metadata()?.mode() & all == all;
        File::create(&place)?;
        if may_be_read && bind(&open_again(&self.program.file), &place).is_ok() {
            return Ok(harden(&place, MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV)?);
        }
        // Copy the program if other users may not read its file (such as the agent's file on a host), or if the file
        // was deleted.
        fs::copy(open_again(&self.program.file), &place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(all))
    }

    /// Return the paths that Landlock permits to the program, as seen in its root folder.
    pub fn allowed(&self) -> Allowed<'_> {
        let mut allowed = vec![
            (Path::new("/"), Access::Read),
            (Path::new(PROGRAM_FOLDER), Access::Execute),
            (Path::new(TEMPORARY), Access::Own),
        ];
        let groups = [
            (&self.libraries, Access::Execute),
            (&self.null_devices, Access::Use),
            (&self.folders, Access::Own),
        ];
        for (shown, access) in groups {
            allowed.extend(shown.iter().map(|each| (each.path.as_path(), access)));
        }
        allowed.extend(self.devices.iter().map(|each| {
            let reads = self.read_only.contains(&each.path);
            (each.path.as_path(), if reads { Access::ReadDevice } else { Access::Use })
        }));
        allowed
    }
}

fn at(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> LaunchFailure {
    let path = path.to_string_lossy().into_owned();
    move |error| LaunchFailure::new(doing, path.clone(), &error)
}

fn opened(path: &Path) -> Result<Shown, LaunchFailure> {
    let file = File::options().read(true).custom_flags(nix::libc::O_PATH).open(path);
    Ok(Shown { path: path.into(), file: file.map_err(at("opening", path))? })
}

/// Open the program by its real path, because /proc/PID/exe cannot be bind-mounted but its target can.
fn program_file(path: &Path) -> Result<Shown, LaunchFailure> {
    let shown = opened(path)?;
    let same = |one: &Shown| -> io::Result<bool> {
        let (seen, other) = (one.file.metadata()?, shown.file.metadata()?);
        Ok((seen.dev(), seen.ino()) == (other.dev(), other.ino()))
    };
    let target = fs::canonicalize(path).ok().and_then(|target| opened(&target).ok());
    Ok(match target {
        Some(target) if same(&target).unwrap_or(false) => target,
        _ => shown,
    })
}

fn opened_all(paths: &[String]) -> Result<Vec<Shown>, LaunchFailure> {
    paths.iter().map(|path| opened(Path::new(path))).collect()
}

/// Open the paths that exist on this host.
fn there(paths: &[&str]) -> Result<Vec<Shown>, LaunchFailure> {
    paths.iter().map(Path::new).filter(|path| path.exists()).map(opened).collect()
}

/// Open the block device at `path`, to be shown to the program as `name`.
fn block_device(path: &Path, name: &Path) -> Result<Shown, LaunchFailure> {
    let shown = Shown { path: name.into(), ..opened(path)? };
    let seen = shown.file.metadata().map_err(at("looking at", &shown.path))?;
    if seen.file_type().is_block_device() {
        return Ok(shown);
    }
    let no_device = io::Error::from_raw_os_error(nix::libc::ENOTBLK);
    Err(at("showing to a confined program", &shown.path)(no_device))
}

/// Return the library folders of this host, and those installed with the program.
fn library_folders(program: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = LIBRARIES.iter().map(PathBuf::from).collect();
    let target = fs::canonicalize(program).unwrap_or_default();
    if let Some(prefix) = target.parent().and_then(Path::parent).filter(|prefix| *prefix != Path::new("/")) {
        all.extend(["lib", "lib64"].map(|name| prefix.join(name)));
    }
    all.sort();
    all.dedup();
    all
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn in_memory(place: &Path, options: &str) -> nix::Result<()> {
    mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::MS_NOSUID, Some(options))
}

/// Show a file or folder of the host under its path in the new root folder.
fn show(root: &Path, shown: &Shown, flags: MsFlags) -> Result<(), LaunchFailure> {
    let place = below(root, &shown.path);
    let make = || {
        if shown.file.metadata()?.is_dir() {
            make_folder(&place)?;
        } else {
            make_folder(place.parent().unwrap_or(root))?;
            File::create(&place)?;
        }
        bind(&open_again(&shown.file), &place)?;
        Ok(harden(&place, flags)?)
    };
    make().map_err(at("showing to a confined program", &shown.path))
}

/// Bind-mount with all submounts: in a user namespace the kernel refuses to reveal the files that submounts cover.
fn bind(from: &Path, to: &Path) -> nix::Result<()> {
    mount(Some(from), to, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)
}

/// Add flags to a mount and keep its present flags, which a user namespace may not clear.
fn harden(place: &Path, flags: MsFlags) -> nix::Result<()> {
    let has = statvfs(place)?.flags();
    let kept = [
        (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY),
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let kept = kept.iter().filter(|(seen, _)| has.contains(*seen)).fold(flags, |all, (_, flag)| all | *flag);
    mount(NOTHING, place, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | kept, NOTHING)
}

/// Whether a passed descriptor is open for writing.
fn may_write(fd: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|octal| i32::from_str_radix(octal.trim(), 8).ok());
    flags.is_some_and(|flags| flags & nix::libc::O_ACCMODE != nix::libc::O_RDONLY)
}

/// Create a device node of the program for the open device; if that fails, bind-mount the host's node with its
/// permissions. A node that the program only reads belongs to root, because an owner could change the mode of the node.
fn show_device(root: &Path, shown: &Shown, user: Option<u32>, reads: bool) -> io::Result<()> {
    let place = below(root, &shown.path);
    make_folder(place.parent().unwrap_or(root))?;
    let number = shown.file.metadata()?.rdev();
    let made = user.map(|user| {
        if reads {
            mknod(&place, SFlag::S_IFBLK, Mode::S_IRGRP, number)?;
            std::os::unix::fs::chown(&place, None, Some(user))?;
            return fs::set_permissions(&place, fs::Permissions::from_mode(0o040));
        }
        mknod(&place, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, number)?;
        std::os::unix::fs::chown(&place, Some(user), Some(user))
    });
    if let Some(Ok(())) = made {
        return Ok(());
    }
    if !place.exists() {
        File::create(&place)?;
    }
    Ok(bind(&open_again(&shown.file), &place)?)
}

/// Create the folders and files that programs expect in any root folder.
fn furnish(root: &Path, user: Option<u32>) -> io::Result<()> {
    let temporary = below(root, Path::new(TEMPORARY));
    make_folder(&temporary)?;
    in_memory(&temporary, "size=16m,mode=700")?;
    let number = user.unwrap_or(0);
    if user.is_some() {
        std::os::unix::fs::chown(&temporary, user, user)?;
    }
    harden(&temporary, MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC)?;
    make_folder(&root.join("etc"))?;
    fs::write(root.join("etc/passwd"), format!("disk:x:{number}:{number}::{TEMPORARY}:\n"))?;
    fs::set_permissions(root.join("etc/passwd"), fs::Permissions::from_mode(0o644))?;
    let processes = root.join("proc");
    make_folder(&processes)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Since Linux 5.8, this mount shows only the program's processes. If parts of /proc are hidden, as in containers,
    // no new /proc may be mounted, and the program has no /proc.
    let alone = mount(Some("proc"), &processes, Some("proc"), flags, Some("subset=pid"));
    if alone == Err(nix::Error::EINVAL) {
        let _ = mount(Some("proc"), &processes, Some("proc"), flags, NOTHING);
    }
    Ok(())
}

/// Make `root` the root folder, and detach the root folder of the host.
fn change_root(root: &Path) -> nix::Result<()> {
    chdir(root)?;
    match pivot_root(".", ".") {
        Ok(()) => umount2(".", MntFlags::MNT_DETACH)?,
        // The root file system of a guest may be the initial rootfs, which cannot be removed; it is covered
        // instead.
        Err(nix::Error::EINVAL) => {
            mount(Some("."), "/", NOTHING, MsFlags::MS_MOVE, NOTHING)?;
            chroot(".")?;
        }
        Err(errno) => return Err(errno),
    }
    chdir("/")?;
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID,
        NOTHING,
    )?;
    chdir(TEMPORARY)
}
