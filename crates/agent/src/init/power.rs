//! The machine's end: everything is killed, written out and unmounted, then the power goes.

use std::fs;
use std::time::Duration;

use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sys::signal::{kill, Signal};
use nix::unistd::{sync, Pid};
use rustix::system::{reboot, RebootCommand};

use crate::log;

/// Switch the machine off.
pub fn power_off() -> ! {
    // Everything but this process; there may be nothing.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    sync();
    release_devices();
    sync();
    if let Err(errno) = reboot(RebootCommand::PowerOff) {
        log(&format!("powering off: {errno}"));
    }
    // The first process must not end, and there is nothing more it could do.
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Unmount what lies on devices, the last first; what is in use becomes read-only.
fn release_devices() {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in text.lines().rev().filter(|line| line.starts_with("/dev/")) {
        let Some(place) = line.split(' ').nth(1) else { continue };
        if umount2(place, MntFlags::empty()).is_err() {
            const NOTHING: Option<&str> = None;
            // A file system that is read-only by nature refuses, and needs nothing.
            let _ = mount(NOTHING, place, NOTHING, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, NOTHING);
        }
    }
}
