//! Undo changes, newest first, and mark them as undone in their journal.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use iolab_protocol::results::{JournalEntry, UndoFailure, UndoReport};
use iolab_protocol::Undo;

use crate::changes::folders;
use crate::changes::setting;
use crate::changes::supervise::kill_in;
use crate::host::journal::{Author, Journal};
use crate::host::state::outlives;
use crate::host::Host;
use crate::kernel::netns;
use crate::kernel::procfs::{kill_remains, stat, Remains};
use crate::kernel::sync::lock;
use crate::programs::launch::Place;
use crate::programs::spawn::Program;

/// Undo the changes in `journal` with keys in `keys` (all if absent), newest first. Then retry failed undos once: a
/// process that waits for a disk exits only after the disk's server, which was started before the process, has been
/// stopped.
pub fn undo_changes(host: &Host, journal: &Mutex<Journal>, keys: Option<&[String]>) -> UndoReport {
    let _alone = lock(&host.undoing);
    let (author, changes) = {
        let journal = lock(journal);
        (journal.author().clone(), journal.live().to_vec())
    };
    let wanted = |change: &JournalEntry| keys.is_none_or(|keys| keys.contains(&change.undo_key));
    let undo_one = |change: &JournalEntry| {
        undo(host, &author, &change.undo)
            .and_then(|()| lock(journal).mark_undone(change.sequence).map_err(|error| error.to_string()))
    };
    let mut report = UndoReport::default();
    let mut left: Vec<JournalEntry> = changes.into_iter().rev().filter(wanted).collect();
    for _ in 0..PASSES {
        let undone_before = report.undone;
        report.failed.clear();
        for change in left {
            match undo_one(&change) {
                Ok(()) => report.undone += 1,
                Err(reason) => report.failed.push(UndoFailure { entry: change, reason }),
            }
        }
        left = report.failed.iter().map(|failure| failure.entry.clone()).collect();
        if left.is_empty() || report.undone == undone_before {
            break;
        }
    }
    report
}

fn undo(host: &Host, author: &Author, undo: &Undo) -> Result<(), String> {
    let dead = author != &host.author;
    if dead && !outlives(author, undo) {
        return Ok(());
    }
    match undo {
        Undo::Command { argv, netns } => undo_command(host, argv, netns.as_deref()),
        Undo::Write { path, value, netns } => undo_write(path, value, netns.as_deref()),
        Undo::Netns { name } => remove_netns(host, name),
        Undo::Folder { name } => folders::remove(host, name),
        Undo::Process { pid, start_ticks } => undo_process(*pid, *start_ticks, author),
    }
}

fn undo_command(host: &Host, argv: &[String], netns: Option<&str>) -> Result<(), String> {
    if netns.is_some_and(|name| !netns::exists(name)) {
        return Ok(());
    }
    let place = netns.map_or(Place::Here, |name| Place::Named(name.to_owned()));
    let failed = run(host, argv, place)?;
    match failed {
        Some(output) if tells_gone(argv, &output) => Ok(()),
        Some(output) => Err(format!("running '{}': {output}", shown(argv))),
        None => Ok(()),
    }
}

/// Format a command for the user; long words such as scripts are truncated.
fn shown(argv: &[String]) -> String {
    let word = |word: &String| match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.clone(),
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Run a command. Return its output if it failed.
fn run(host: &Host, argv: &[String], place: Place) -> Result<Option<String>, String> {
    let env = [("LC_ALL".to_owned(), "C".to_owned())].into();
    let program =
        Program { argv: argv.to_vec(), env, place, capture_bytes: 4096, undoes: true, ..Program::default() };
    let ran = host.run(program, COMMAND_LIMIT).map_err(|error| error.message)?;
    if ran.end.ending.exit_status == Some(0) {
        return Ok(None);
    }
    let output = ran.child.output_beginning(4096).trim().to_owned();
    Ok(Some(match output.as_str() {
        "" if ran.timed_out => format!("it had not ended after {} s", COMMAND_LIMIT.as_secs()),
        "" => format!("it ended with {}", ran.end.ending),
        _ => output,
    }))
}

fn undo_write(path: &str, value: &str, netns: Option<&str>) -> Result<(), String> {
    let namespace_gone = netns.is_some_and(|name| !netns::exists(name));
    if namespace_gone || (netns.is_none() && !Path::new(path).exists()) {
        return Ok(());
    }
    setting::write_value(path, netns, value).or_else(|error| {
        let errno = error.data.as_ref().and_then(|data| data.errno);
        if is_without_effect(path, errno) {
            Ok(())
        } else {
            Err(error.message)
        }
    })
}

/// Whether `errno`, the error of restoring a setting, shows that the setting no longer has any effect.
fn is_without_effect(path: &str, errno: Option<i32>) -> bool {
    match errno {
        // The device of the setting no longer exists.
        Some(nix::libc::ENOENT | nix::libc::ENODEV) => true,
        // An interface with NAPI disabled has no NAPI thread and rejects writes to this setting.
        Some(nix::libc::EOPNOTSUPP) => path.starts_with("/sys/class/net/") && path.ends_with("/threaded"),
        _ => false,
    }
}

/// Remove a namespace; a missing namespace counts as removed.
pub fn remove_netns(host: &Host, name: &str) -> Result<(), String> {
    if !netns::exists(name) {
        return Ok(());
    }
    kill_in(host, name);
    let argv = ["ip", "netns", "delete", name].map(str::to_owned);
    match run(host, &argv, Place::Here)? {
        Some(_) if !netns::exists(name) => Ok(()),
        Some(output) => Err(format!("running '{}': {output}", shown(&argv))),
        None => Ok(()),
    }
}

fn undo_process(pid: u32, start_ticks: u64, author: &Author) -> Result<(), String> {
    let is_still_there = || stat(pid).is_some_and(|seen| seen.start_ticks == start_ticks && !seen.ended);
    match stat(pid) {
        Some(seen) if seen.start_ticks == start_ticks => {
            let group = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
        // A different process has the process ID now, so the process group is empty.
        Some(_) => {}
        // Members of the exited process's group may still run. The kernel does not reuse the ID while the group exists,
        // but the ID may have been reused before.
        None => {
            kill_remains(Remains { journal: &author.journal(), group: Some(pid), rootless: author.rootless });
        }
    }
    let deadline = Instant::now() + KILL_LIMIT;
    while is_still_there() {
        if Instant::now() > deadline {
            return Err(format!("process {pid} does not end although it was killed"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether the output of a failed undo command shows that the changed object no longer exists.
fn tells_gone(argv: &[String], output: &str) -> bool {
    let program = argv.first().and_then(|path| path.rsplit('/').next());
    let phrases =
        ALREADY_GONE.iter().filter(|(each, _)| program == Some(each)).flat_map(|(_, phrases)| *phrases);
    phrases.into_iter().any(|phrase| output.contains(phrase))
}

/// Error messages of each program (in the C locale) for a device, a namespace or an object that no longer
/// exists. The same messages from a different program may have a different meaning.
const ALREADY_GONE: [(&str, &[&str]); 5] = [
    (
        "ip",
        &[
            "Cannot find device",
            "No such device",
            "does not exist",
            "Cannot open network namespace",
            "No such file or directory",
            "No such process",
            "Cannot assign requested address",
            "Address not found",
        ],
    ),
    (
        "tc",
        &[
            "Cannot find device",
            "No such device",
            "does not exist",
            "Cannot open network namespace",
            "No such file or directory",
            "Cannot delete qdisc with handle of zero",
            "Invalid handle",
            "Cannot find specified qdisc",
            "Failed to find qdisc with specified handle",
            "Parent Qdisc doesn't exist",
            "Specified class not found",
            "Specified filter",
            "Filter with specified priority/protocol not found",
            "Cannot find specified filter",
        ],
    ),
    ("ethtool", &["No such device", "no device matches name"]),
    ("umount", &["not mounted", "no mount point"]),
    (
        "bridge",
        &[
            "Cannot find device",
            "No such device",
            "does not exist",
            "Cannot open network namespace",
            "No such file or directory",
        ],
    ),
];

/// Maximum number of attempts to undo a change.
const PASSES: usize = 2;

/// Timeout of an undo command. Destroying a Xen domain takes two seconds in an emulated Dom0, and over ten on
/// a busy host.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
const LONGEST_WORD: usize = 80;
const KILL_LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_refused_with_eopnotsupp_counts_as_undone_and_one_refused_with_eacces_does_not() {
        use nix::libc::{EACCES, ENOENT, EOPNOTSUPP};
        let threaded = "/sys/class/net/eth0/threaded";
        assert!(is_without_effect(threaded, Some(EOPNOTSUPP)) && is_without_effect(threaded, Some(ENOENT)));
        assert!(!is_without_effect("/sys/class/net/eth0/mtu", Some(EOPNOTSUPP)));
        assert!(!is_without_effect(threaded, Some(EACCES)) && !is_without_effect(threaded, None));
    }

    #[test]
    fn error_message_about_a_missing_object_is_accepted_only_from_the_program_that_prints_it() {
        let tells = |program: &str, output: &str| tells_gone(&[program.to_owned()], output);
        assert!(tells("/usr/sbin/ip", "Cannot find device \"absent0\""));
        assert!(tells("tc", "Error: Invalid handle."));
        assert!(!tells("ip", "Error: Invalid handle."));
        assert!(!tells("sh", "sh: 1: cannot open x: No such file or directory"));
        assert!(!tells("ethtool", "Operation not permitted"));
    }
}
