//! New user, mount and network namespaces for an agent without root, in which it is root, so that `ip netns` and
//! similar commands work. Nothing outside the namespaces is changed. The kernel removes the namespaces with their last
//! process.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{bail, Context};
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::unistd::{Gid, Uid};

/// Command-line argument with which this program tries to enter namespaces, and prints the reason for a failure to
/// standard error.
pub const TRIAL: &str = "try-rootless";

/// Enter new namespaces, if a test process can do so first: some kernels permit the namespaces but grant no
/// privileges in them, and then the agent must stay outside. Call this before the process starts a second
/// thread.
pub fn enter_if_possible() -> anyhow::Result<()> {
    let tried = Command::new("/proc/self/exe").arg(TRIAL).stdin(Stdio::null()).output()?;
    if !tried.status.success() {
        bail!("{}", String::from_utf8_lossy(&tried.stderr).trim());
    }
    enter()
}

/// Enter new namespaces; after an error some namespaces may already be entered.
pub fn enter() -> anyhow::Result<()> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
        .context("making a user namespace")?;
    fs::write("/proc/self/setgroups", "deny").context("giving up setgroups")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).context("mapping the user")?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).context("mapping the group")?;
    arrange_mounts().context("mounting a /run of its own")
}

fn arrange_mounts() -> anyhow::Result<()> {
    const NOTHING: Option<&str> = None;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_SLAVE | MsFlags::MS_REC, NOTHING)?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=755"))?;
    fs::create_dir("/run/netns")?;
    // Ignore a failure: without this mount, /sys shows the host's interfaces, which has no other effect.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), NOTHING);
    Ok(())
}
