//! File systems of a machine: the kernel's file systems, and a root file system with a read-only lower layer and an
//! upper layer in memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::mount::{mount, MsFlags};
use nix::sys::statfs::{statfs, FsType, TMPFS_MAGIC};
use nix::unistd::{chdir, chroot};

use crate::log;

/// A file system of the kernel.
struct Own {
    kind: &'static str,
    place: &'static str,
    options: &'static str,
    /// Whether the agent needs the file system.
    needed: bool,
}

/// Mount the file systems of the kernel. A failure is an error only for file systems that the agent needs.
pub fn mount_own() -> Result<()> {
    for own in &OWN {
        let mounted = mount_one(own.kind, own.place, own.kind, MsFlags::empty(), own.options);
        match mounted {
            Err(error) if own.needed => return Err(error),
            Err(error) if error.downcast_ref() != Some(&Errno::ENODEV) => log(&format!("{error:#}")),
            _ => {}
        }
    }
    Ok(())
}

/// Mount the file systems of loaded kernel modules, if they exist.
pub fn mount_late() {
    for (kind, place) in [("configfs", "/sys/kernel/config"), ("xenfs", "/proc/xen")] {
        if Path::new(place).exists() {
            if let Err(error) = mount_one(kind, place, kind, MsFlags::empty(), "") {
                log(&format!("{error:#}"));
            }
        }
    }
}

/// Mount the file systems that the first stage of the boot needs.
pub fn mount_first() -> Result<()> {
    for own in OWN.iter().filter(|own| ["/proc", "/sys", "/dev"].contains(&own.place)) {
        mount_one(own.kind, own.place, own.kind, MsFlags::empty(), own.options)?;
    }
    Ok(())
}

/// Whether the root file system is the initramfs.
pub fn is_in_initramfs() -> bool {
    let kind = statfs("/").map(|seen| seen.filesystem_type());
    kind.is_ok_and(|kind| kind == TMPFS_MAGIC || kind == FsType(RAMFS_MAGIC))
}

/// Mount the squashfs on `device` with a writable layer in memory above it, and make it the root file system
/// instead of the initramfs. `modules` is mounted on `/lib/modules`.
pub fn switch_root(device: &str, modules: Option<&str>) -> Result<()> {
    mount_device(device, "/r/below")?;
    mount_one("tmpfs", "/r/memory", "tmpfs", MsFlags::empty(), "mode=755")?;
    for folder in ["/r/memory/above", "/r/memory/work"] {
        fs::create_dir(folder).with_context(|| format!("making '{folder}'"))?;
    }
    let layers = "lowerdir=/r/below,upperdir=/r/memory/above,workdir=/r/memory/work";
    mount_one("overlay", "/r/root", "overlay", MsFlags::empty(), layers)?;
    if let Some(modules) = modules {
        // Without kernel modules the machine still answers requests and can report missing features.
        if let Err(error) = mount_device(modules, "/r/root/lib/modules") {
            log(&format!("{error:#}"));
        }
    }
    chdir("/r/root").context("entering the new root")?;
    mount(Some("."), "/", NOTHING, MsFlags::MS_MOVE, NOTHING).context("moving the new root to '/'")?;
    chroot(".").context("changing the root")?;
    chdir("/").context("entering '/'")
}

/// Mount the squashfs on a block device as soon as the device exists.
fn mount_device(device: &str, place: &str) -> Result<()> {
    let deadline = Instant::now() + DEVICE_LIMIT;
    loop {
        let mounted = mount_one(device, place, "squashfs", MsFlags::MS_RDONLY, "");
        let absent = mounted.as_ref().is_err_and(|error| {
            matches!(error.downcast_ref(), Some(Errno::ENOENT | Errno::ENXIO | Errno::ENOTBLK))
        });
        if !absent {
            return mounted;
        }
        if Instant::now() > deadline {
            let there = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
            let there: Vec<String> =
                there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            return mounted.with_context(|| {
                format!(
                    "waiting {} s for the device (there are: {})",
                    DEVICE_LIMIT.as_secs(),
                    there.join(", ")
                )
            });
        }
        // Drivers probe devices asynchronously in a kernel thread; a short polling interval keeps the boot time low.
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn mount_one(source: &str, place: &str, kind: &str, flags: MsFlags, options: &str) -> Result<()> {
    // On a read-only file system the mount point either exists or the mount fails.
    let _ = fs::create_dir_all(place);
    mount(Some(source), place, Some(kind), flags, Some(options))
        .with_context(|| format!("mounting {kind} '{source}' on '{place}'"))
}

const fn own(kind: &'static str, place: &'static str, options: &'static str, needed: bool) -> Own {
    Own { kind, place, options, needed }
}

const OWN: [Own; 10] = [
    own("proc", "/proc", "", true),
    own("sysfs", "/sys", "", true),
    own("devtmpfs", "/dev", "mode=755", true),
    own("devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666", false),
    own("tmpfs", "/dev/shm", "mode=1777", false),
    own("tmpfs", "/run", "mode=755", true),
    own("tmpfs", "/tmp", "mode=1777", false),
    own("cgroup2", "/sys/fs/cgroup", "", false),
    own("debugfs", "/sys/kernel/debug", "", false),
    own("tracefs", "/sys/kernel/tracing", "", false),
];
const NOTHING: Option<&str> = None;
const RAMFS_MAGIC: nix::libc::c_long = 0x8584_58f6;
const DEVICE_LIMIT: Duration = Duration::from_secs(10);
