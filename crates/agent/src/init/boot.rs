//! Boot of a machine, from the start of its first process until the agent can serve requests.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use rustix::stdio::dup2_stderr;

use super::command_line::CommandLine;
use super::{modules, mounts};
use crate::log;

/// Boot the machine. Failures of optional steps are only logged.
pub fn bring_up() -> Result<()> {
    if mounts::is_in_initramfs() {
        mounts::mount_first()?;
        modules::load_listed();
        let line = CommandLine::read().context("reading /proc/cmdline")?;
        if let Some(root) = &line.root {
            mounts::switch_root(root, line.modules.as_deref()).context("changing to the root file system")?;
        }
    }
    mounts::mount_own()?;
    let line = CommandLine::read().context("reading /proc/cmdline")?;
    tell("opening the console", open_console());
    tell("protecting the agent from the lack of memory", fs::write("/proc/self/oom_score_adj", "-1000"));
    tell("linking /dev/fd", link_standard_files());
    if let Some(name) = &line.name {
        tell("setting the host name", rustix::system::sethostname(name.as_bytes()).map_err(Into::into));
    }
    tell("bringing up the loopback", iolab_sys::tap::bring_up("lo"));
    modules::load_for_hardware(&["configfs"]);
    mounts::mount_late();
    Ok(())
}

/// Open the console as standard error. The console of the initramfs is a different device file, which is
/// removed with the initramfs.
fn open_console() -> std::io::Result<()> {
    let console = File::options().read(true).write(true).open("/dev/console")?;
    Ok(dup2_stderr(console)?)
}

fn link_standard_files() -> std::io::Result<()> {
    let links = [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")];
    links.into_iter().try_for_each(|(name, number)| {
        match symlink(format!("/proc/self/fd{number}"), format!("/dev/{name}")) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })
}

fn tell(doing: &str, outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        log(&format!("{doing}: {error}"));
    }
}
