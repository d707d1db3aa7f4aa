//! What `/proc` tells about processes: when they began, their group, the mark of the agent that started them.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{poll, PollFd, PollFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

/// The environment variable that names, in everything an agent starts, that agent's journal.
pub const MARK: &str = "IOLAB_JOURNAL";

/// Facts of one process from its `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Whether it has ended and only waits to be collected.
    pub ended: bool,
    /// Whether it is stopped (SIGSTOP), or by a debugger.
    pub stopped: bool,
    /// Its group.
    pub group: u32,
    /// When the kernel started it (clock ticks).
    pub start_ticks: u64,
}

/// Look at process `pid`; `None` when there is none.
pub fn stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // Fields from the third on, numbered as in proc_pid_stat(5).
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(ProcessStat {
        stopped: matches!(*fields.first()?, "T" | "t"),
        ended: matches!(*fields.first()?, "Z" | "X"),
        group: fields.get(5 - 3)?.parse().ok()?,
        start_ticks: fields.get(22 - 3)?.parse().ok()?,
    })
}

/// Which processes to kill.
#[derive(Debug, Clone, Copy)]
pub struct Remains<'a> {
    /// The journal of the agent that started them.
    pub journal: &'a str,
    /// Only those of this group.
    pub group: Option<u32>,
    /// Whether that agent was rootless: then their environment may be closed to us, and being in a user namespace of one user tells
    /// members of the group from strangers that got its number later.
    pub rootless: bool,
}

/// Kill what an agent has left running.
pub fn kill_remains(remains: Remains<'_>) {
    for pid in pids() {
        // One that ends meanwhile needs no killing.
        let _ = kill_if_of(pid, remains);
    }
}

fn kill_if_of(pid: u32, remains: Remains<'_>) -> Option<()> {
    // Opened first: the signal goes to the process whose environment is read, never to a later one with its number.
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    if let Some(group) = remains.group {
        stat(pid).filter(|seen| seen.group == group)?;
    }
    let wanted = format!("{MARK}={}", remains.journal);
    let ours = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            remains.rootless && remains.group.is_some() && is_alone_in_user_namespace(pid)
        }
        Err(_) => false,
    };
    ours.then(|| pidfd_send_signal(process, Signal::KILL).ok())?
}

fn is_alone_in_user_namespace(pid: u32) -> bool {
    let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
    map.lines().count() == 1 && map.split_ascii_whitespace().nth(2) == Some("1")
}

/// Kill one process, stopped or not, and wait until it has ended. False: it has not within `limit`.
pub fn end_process(pid: u32, start_ticks: u64, limit: Duration) -> bool {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Opened first: what is looked at next is the process that the signal goes to.
    let Some(process) = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else { return true };
    if stat(pid).is_none_or(|seen| seen.start_ticks != start_ticks) {
        return true;
    }
    // One that has ended meanwhile refuses the signal; its descriptor says so.
    let _ = pidfd_send_signal(&process, Signal::KILL);
    let limit_ms = u16::try_from(limit.as_millis()).unwrap_or(u16::MAX);
    // Readable when its last thread has ended, with all its files closed.
    matches!(poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], limit_ms), Ok(1))
}

/// All processes.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The id of this boot; a journal of another boot has nothing left to undo.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let text = "7 (a) b (c)) S 1 42 42 0 -1 4194304 120 0 0 0 12 90 0 0 20 0 1 0 7712 100";
        assert_eq!(
            parse_stat(text),
            Some(ProcessStat { ended: false, stopped: false, group: 42, start_ticks: 7712 })
        );
    }

    #[test]
    fn this_process_is_alive() {
        assert!(!stat(std::process::id()).unwrap().ended);
    }
}
