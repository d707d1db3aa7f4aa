//! Processes in `/proc`: their start times, their process groups, and the variable that identifies the agent
//! that started them.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{poll, PollFd, PollFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

/// Environment variable that contains the ID of the agent's journal; all programs of the agent have it.
pub const MARK: &str = "IOLAB_JOURNAL";

/// Facts about a process from its `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Whether the process has exited (zombie or dead).
    pub ended: bool,
    /// Whether the process is stopped by a signal such as SIGSTOP, or by a debugger.
    pub stopped: bool,
    /// Process group.
    pub group: u32,
    /// Start time as reported by the kernel, in clock ticks.
    pub start_ticks: u64,
}

/// Return the facts about the process `pid`; `None` if it does not exist.
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

/// The processes to kill.
#[derive(Debug, Clone, Copy)]
pub struct Remains<'a> {
    /// Journal ID of the agent that started the processes.
    pub journal: &'a str,
    /// Process group to which the kill is limited.
    pub group: Option<u32>,
    /// Whether that agent was rootless. The environment of a rootless agent's processes may be unreadable. If the
    /// environment is unreadable, a user namespace with a single user identifies members of the group, even if the
    /// group's ID was reused.
    pub rootless: bool,
}

/// Kill the remaining processes of an agent.
pub fn kill_remains(remains: Remains<'_>) {
    for pid in pids() {
        // It is no failure if a process has exited in the meantime.
        let _ = kill_if_of(pid, remains);
    }
}

fn kill_if_of(pid: u32, remains: Remains<'_>) -> Option<()> {
    // The descriptor is opened first, so that the signal reaches the process whose environment was read, even
    // if its ID is reused.
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

/// Kill a process, even if it is stopped, and wait until it has exited. Return false if it has not exited
/// within `limit`.
pub fn end_process(pid: u32, start_ticks: u64, limit: Duration) -> bool {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // The descriptor is opened first, so that the signal reaches the process that is checked next.
    let Some(process) = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else { return true };
    if stat(pid).is_none_or(|seen| seen.start_ticks != start_ticks) {
        return true;
    }
    // A process that has exited in the meantime rejects the signal, and its descriptor is readable.
    let _ = pidfd_send_signal(&process, Signal::KILL);
    let limit_ms = u16::try_from(limit.as_millis()).unwrap_or(u16::MAX);
    // The descriptor is readable when the last thread has exited and all files are closed.
    matches!(poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], limit_ms), Ok(1))
}

/// Return the IDs of all processes.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Return the ID of this boot; the journal of a different boot has nothing left to undo.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_parentheses_is_parsed() {
        let text = "7 (a) b (c)) S 1 42 42 0 -1 4194304 120 0 0 0 12 90 0 0 20 0 1 0 7712 100";
        assert_eq!(
            parse_stat(text),
            Some(ProcessStat { ended: false, stopped: false, group: 42, start_ticks: 7712 })
        );
    }

    #[test]
    fn current_process_counts_as_running() {
        assert!(!stat(std::process::id()).unwrap().ended);
    }
}
