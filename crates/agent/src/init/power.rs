//! Shutdown of the machine: all processes are killed, all data are written out, file systems are unmounted,
//! and the power is switched off.

use std::fs;
use std::time::Duration;

use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sys::signal::{kill, Signal};
use nix::unistd::{sync, Pid};
use rustix::system::{reboot, RebootCommand};

use crate::log;

/// Power the machine off.
pub fn power_off() -> ! {
    // The signal is sent to all processes except this one; the call fails if there are no other processes.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    sync();
    release_devices();
    sync();
    if let Err(errno) = reboot(RebootCommand::PowerOff) {
        log(&format!("powering off: {errno}"));
    }
    // The first process must not exit, and has no other work.
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Unmount the file systems on devices in reverse order; remount busy ones read-only.
fn release_devices() {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in text.lines().rev().filter(|line| line.starts_with("/dev/")) {
        let Some(place) = line.split(' ').nth(1) else { continue };
        if umount2(place, MntFlags::empty()).is_err() {
            const NOTHING: Option<&str> = None;
            // The remount fails for file systems that are always read-only, but these need no remount.
            let _ = mount(NOTHING, place, NOTHING, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, NOTHING);
        }
    }
}
