//! Give an agent without root a small world of its own: user, mount and network namespaces in which it is root, so that
//! `ip netns` and the rest work. Nothing outside is touched; the kernel removes it all with the last process in it.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{bail, Context};
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::unistd::{Gid, Uid};

/// The argument with which this binary tries to enter namespaces and says on standard error why it cannot.
pub const TRIAL: &str = "try-rootless";

/// Enter new namespaces, if another process can do so first: where the kernel lets a user in but gives no rights there, the agent must
/// stay outside as it is. Must be called before the process has a second thread.
pub fn enter_if_possible() -> anyhow::Result<()> {
    let tried = Command::new("/proc/self/exe").arg(TRIAL).stdin(Stdio::null()).output()?;
    if !tried.status.success() {
        bail!("{}", String::from_utf8_lossy(&tried.stderr).trim());
    }
    enter()
}

/// Enter new namespaces, or stop half-way.
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
    // Without it /sys shows the host's interfaces; nothing else depends on it.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), NOTHING);
    Ok(())
}
