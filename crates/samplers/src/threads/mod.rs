//! Times of every thread of the supervised processes and their descendants, and of the kernel's threads that move packets, from
//! `/proc/PID/task`.
//!
//! A thread that ends while it is being read is left out; its time is in its process's once it was waited for.

mod kernel;

use std::path::Path;

use iolab_protocol::observations::ThreadTimes;

use crate::cpu::TICK_NS;
use crate::SampleError;
use kernel::Worker;

/// A supervised process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervised {
    /// The controller's name for it.
    pub name: String,
    /// The process.
    pub pid: u32,
}

/// Read the times of all threads there are now.
pub fn read(supervised: &[Supervised]) -> Vec<ThreadTimes> {
    let mut times: Vec<ThreadTimes> =
        supervised.iter().flat_map(|process| read_tree(&process.name, process.pid)).collect();
    let of_kernel: Vec<ThreadTimes> =
        kernel::find().into_iter().filter_map(|(tid, worker)| read_worker(tid, worker, &times)).collect();
    times.extend(of_kernel);
    times
}

/// The times of a thread of the kernel, unless it works for a process that is not supervised.
fn read_worker(tid: u32, worker: Worker, supervised: &[ThreadTimes]) -> Option<ThreadTimes> {
    let process = match worker {
        Worker::ForAll => None,
        Worker::For(owner) => Some(
            supervised.iter().find(|thread| thread.tid == owner || thread.pid == owner)?.process.clone()?,
        ),
    };
    read_thread(process.as_deref(), tid, tid, Path::new(&format!("/proc/{tid}")))
}

fn read_tree(process: &str, root: u32) -> Vec<ThreadTimes> {
    let mut times = Vec::new();
    let mut pids = vec![root];
    while let Some(pid) = pids.pop() {
        for tid in thread_ids(pid) {
            let folder = format!("/proc/{pid}/task/{tid}");
            times.extend(read_thread(Some(process), pid, tid, Path::new(&folder)));
            // The file is absent where the kernel was built without it; then descendants are not seen.
            let children = std::fs::read_to_string(format!("{folder}/children")).unwrap_or_default();
            pids.extend(children.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    times
}

fn thread_ids(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn read_thread(process: Option<&str>, pid: u32, tid: u32, folder: &Path) -> Option<ThreadTimes> {
    let text = |name| {
        std::fs::read(folder.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let schedstat = text("schedstat").unwrap_or_default();
    parse(process, pid, tid, &text("stat")?, &schedstat, &text("status")?).ok()
}

/// The times of one thread from the texts of its `stat`, `schedstat` (empty where the kernel has none) and `status`.
///
/// # Errors
/// When a text is not as proc(5) says.
pub fn parse(
    process: Option<&str>,
    pid: u32,
    tid: u32,
    stat: &str,
    schedstat: &str,
    status: &str,
) -> Result<ThreadTimes, SampleError> {
    let wrong = |what, expected, seen: &str| SampleError::format(what, expected, seen);
    let (head, tail) = stat.rsplit_once(')').ok_or_else(|| wrong("stat", "a name in parentheses", stat))?;
    let (_, name) = head.split_once('(').ok_or_else(|| wrong("stat", "a name in parentheses", stat))?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |field: usize| {
        let word = fields.get(field - FIRST_FIELD_AFTER_NAME).copied();
        word.and_then(|word| word.parse::<u64>().ok()).ok_or_else(|| wrong("stat", "52 fields", stat))
    };
    let mut run_and_wait = schedstat.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
    let user_ns = number(UTIME_FIELD)?.saturating_mul(TICK_NS);
    let system_ns = number(STIME_FIELD)?.saturating_mul(TICK_NS);
    Ok(ThreadTimes {
        process: process.map(str::to_owned),
        pid,
        tid,
        name: name.to_owned(),
        run_ns: run_and_wait.next().unwrap_or(user_ns + system_ns),
        wait_ns: run_and_wait.next().unwrap_or(0),
        user_ns,
        system_ns,
        last_cpu: u32::try_from(number(PROCESSOR_FIELD)?).map_err(|_| wrong("stat", "a CPU number", stat))?,
        voluntary_switches: switches(status, "voluntary_ctxt_switches:"),
        involuntary_switches: switches(status, "nonvoluntary_ctxt_switches:"),
        state: fields.first().copied().unwrap_or_default().to_owned(),
        allowed_cpus: labelled(status, "Cpus_allowed_list:").unwrap_or_default().to_owned(),
    })
}

fn switches(status: &str, label: &str) -> u64 {
    labelled(status, label).and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn labelled<'a>(status: &'a str, label: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(label)).map(str::trim)
}

// Numbers of the fields in proc_pid_stat(5).
const FIRST_FIELD_AFTER_NAME: usize = 3;
const UTIME_FIELD: usize = 14;
const STIME_FIELD: usize = 15;
const PROCESSOR_FIELD: usize = 39;

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "5151 (ip (erf) 3) R 1 5151 5151 0 -1 4194304 120 0 0 0 12 90 0 0 20 0 1 0 7712 100 200 \
        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";
    const STATUS: &str = "Name:\tiperf3\nCpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t17\n";

    #[test]
    fn a_thread_has_its_times_and_switches() {
        let times = parse(Some("server-1"), 5151, 5152, STAT, "1020304050 2000 77\n", STATUS).unwrap();
        let expected = ThreadTimes {
            process: Some("server-1".to_owned()),
            pid: 5151,
            tid: 5152,
            name: "ip (erf) 3".to_owned(),
            run_ns: 1_020_304_050,
            wait_ns: 2000,
            user_ns: 120_000_000,
            system_ns: 900_000_000,
            last_cpu: 1,
            voluntary_switches: 4,
            involuntary_switches: 17,
            state: "R".to_owned(),
            allowed_cpus: "0-1".to_owned(),
        };
        assert_eq!(times, expected);
    }

    #[test]
    fn without_schedstat_the_run_time_is_that_of_the_ticks() {
        assert_eq!(parse(None, 1, 1, STAT, "", STATUS).unwrap().run_ns, 1_020_000_000);
    }

    #[test]
    fn a_short_stat_is_an_error() {
        assert!(parse(None, 1, 1, "1 (x) R 1", "", "").is_err());
        assert!(parse(None, 1, 1, "", "", "").is_err());
    }

    #[test]
    fn the_threads_of_this_process_are_found() {
        let me = Supervised { name: "me".to_owned(), pid: std::process::id() };
        let threads = read(&[me]);
        assert!(threads.iter().any(|thread| thread.tid == std::process::id()));
    }

    #[test]
    fn a_process_that_is_gone_has_no_threads() {
        let gone = Supervised { name: "gone".to_owned(), pid: u32::MAX };
        assert!(read(&[gone]).iter().all(|thread| thread.process.is_none()));
    }

    #[test]
    fn the_kernels_soft_interrupt_threads_are_read_where_they_can_be_seen() {
        let names: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok())
            .filter(|name| name.starts_with("ksoftirqd/"))
            .collect();
        let threads = read(&[]);
        assert_eq!(
            threads.iter().filter(|thread| thread.name.starts_with("ksoftirqd/")).count(),
            names.len()
        );
        assert!(threads.iter().all(|thread| thread.process.is_none() && thread.pid == thread.tid));
    }

    #[test]
    fn a_vhost_thread_is_its_processes_and_no_other_ones() {
        let mine = parse(Some("dut"), 5151, 5152, STAT, "", STATUS).unwrap();
        let me = std::process::id();
        let read = |owner| read_worker(me, Worker::For(owner), std::slice::from_ref(&mine));
        assert_eq!(read(5151).unwrap().process.as_deref(), Some("dut"));
        assert_eq!(read(5152).unwrap().tid, me);
        assert_eq!(read(5153), None);
    }
}
