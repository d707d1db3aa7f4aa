//! Times of all threads of the supervised processes and their descendants, and of the kernel's and the
//! agent's threads that move packets, from `/proc/PID/task`.
//!
//! A thread that exits during a reading is omitted; its time is added to its process's time once it has been
//! reaped.

mod kernel;
pub(crate) mod status;

use std::collections::HashMap;

use iolab_protocol::observations::ThreadTimes;

use crate::cpu::TICK_NS;
use crate::kernel_file::KernelFile;
use crate::SampleError;
use kernel::{Worker, Workers};
use status::Status;

/// A supervised process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervised {
    /// The controller's name for the process.
    pub name: String,
    /// Process ID.
    pub pid: u32,
}

/// Repeated readings of threads, whose files stay open.
#[derive(Debug, Default)]
pub struct Threads {
    files: HashMap<(u32, u32), ThreadFiles>,
    /// Threads of each process, from the last listing of its folder.
    listed: HashMap<u32, Vec<u32>>,
    workers: Workers,
}

impl Threads {
    /// Read the times of all current threads. The list of kernel and agent threads may be one second old.
    pub fn read(&mut self, supervised: &[Supervised], now_ns: u64) -> Vec<ThreadTimes> {
        let mut round = Round {
            now_ns,
            files: std::mem::take(&mut self.files),
            listed: std::mem::take(&mut self.listed),
            times: Vec::new(),
        };
        for process in supervised {
            self.read_tree(process, &mut round);
        }
        let of_processes = round.times.len();
        for &(tid, worker) in self.workers.at(now_ns) {
            let Some(process) = works_for(worker, &round.times[..of_processes]) else { continue };
            let pid = if worker == Worker::Own { std::process::id() } else { tid };
            let mut own = round.files_of(pid, tid);
            if let Some((read, _)) = own.read(process.as_deref(), pid, tid, now_ns) {
                round.times.push(read);
                keep(&mut self.files, (pid, tid), own);
            }
        }
        round.times
    }

    fn read_tree(&mut self, process: &Supervised, round: &mut Round) {
        let mut pids = vec![process.pid];
        while let Some(pid) = pids.pop() {
            let (times_before, pids_before) = (round.times.len(), pids.len());
            let mut tids = round.listed.remove(&pid).unwrap_or_default();
            if !self.read_threads(process, pid, &tids, round, &mut pids) {
                round.times.truncate(times_before);
                pids.truncate(pids_before);
                tids = thread_ids(pid);
                self.read_threads(process, pid, &tids, round, &mut pids);
            }
            self.listed.insert(pid, tids);
        }
    }

    /// Read the given threads of a process, and add their child processes to `pids`. Return whether these are
    /// all threads of the process: all of them could be read, and each reports the same thread count.
    fn read_threads(
        &mut self,
        process: &Supervised,
        pid: u32,
        tids: &[u32],
        round: &mut Round,
        pids: &mut Vec<u32>,
    ) -> bool {
        let mut whole = !tids.is_empty();
        for &tid in tids {
            let mut own = self.files.remove(&(pid, tid)).unwrap_or_else(|| round.files_of(pid, tid));
            let Some((read, count)) = own.read(Some(&process.name), pid, tid, round.now_ns) else {
                whole = false;
                continue;
            };
            whole &= usize::try_from(count) == Ok(tids.len());
            round.times.push(read);
            pids.extend(own.children());
            keep(&mut self.files, (pid, tid), own);
        }
        whole
    }
}

/// One reading of all threads, with the files that the previous reading left open.
struct Round {
    now_ns: u64,
    files: HashMap<(u32, u32), ThreadFiles>,
    listed: HashMap<u32, Vec<u32>>,
    times: Vec<ThreadTimes>,
}

impl Round {
    fn files_of(&mut self, pid: u32, tid: u32) -> ThreadFiles {
        self.files.remove(&(pid, tid)).unwrap_or_else(|| ThreadFiles::new(pid, tid))
    }
}

/// Return the process for which a thread works: inner `None` for all processes; outer `None` for a process
/// that is not supervised.
#[allow(clippy::option_option)] // The two values have different meanings, as documented above.
fn works_for(worker: Worker, supervised: &[ThreadTimes]) -> Option<Option<String>> {
    match worker {
        Worker::ForAll | Worker::Own => Some(None),
        Worker::For(owner) => supervised
            .iter()
            .find(|thread| thread.tid == owner || thread.pid == owner)?
            .process
            .clone()
            .map(Some),
    }
}

/// Keep the files of a thread open, unless too many are open: the number of open files of a process is
/// limited.
fn keep(files: &mut HashMap<(u32, u32), ThreadFiles>, thread: (u32, u32), own: ThreadFiles) {
    if files.len() < MOST_KEPT {
        files.insert(thread, own);
    }
}

/// Maximum number of threads whose files stay open, four files each.
const MOST_KEPT: usize = 64;
/// Maximum age of `status` in ns. The kernel needs as much time for `status` as for the other files together, and the
/// CPU list in `status` rarely changes.
const STATUS_NS: u64 = 1_000_000_000;

/// The files of one thread in `/proc`.
#[derive(Debug)]
struct ThreadFiles {
    stat: KernelFile,
    schedstat: KernelFile,
    status: KernelFile,
    said: Option<(u64, Status)>,
    children: KernelFile,
}

impl ThreadFiles {
    fn new(pid: u32, tid: u32) -> Self {
        let path = |name| format!("/proc/{pid}/task/{tid}/{name}");
        Self {
            stat: KernelFile::of_one_record(path("stat")),
            schedstat: KernelFile::of_one_record(path("schedstat")),
            status: KernelFile::of_one_record(path("status")),
            said: None,
            children: KernelFile::new(path("children")),
        }
    }

    /// Return the times of the thread and the thread count of its process; `None` if the thread has exited.
    fn read(&mut self, process: Option<&str>, pid: u32, tid: u32, now_ns: u64) -> Option<(ThreadTimes, u64)> {
        let stat = self.stat.read().ok()?;
        let schedstat = self.schedstat.read().unwrap_or_default();
        if self.said.as_ref().is_none_or(|(read_ns, _)| now_ns.saturating_sub(*read_ns) >= STATUS_NS) {
            self.said = Some((now_ns, Status::parse(&self.status.read().ok()?)));
        }
        let (_, status) = self.said.as_ref()?;
        parse(process, pid, tid, &stat, &schedstat, status).ok()
    }

    /// Return the child processes of the thread; empty if the kernel was built without the file.
    fn children(&mut self) -> Vec<u32> {
        let text = self.children.read().unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    }
}

fn thread_ids(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Parse the times of one thread and the thread count of its process from the texts of `stat` and `schedstat`
/// (empty if the kernel lacks it) and from its status.
///
/// # Errors
/// Returns an error if a text does not have the format of proc(5).
pub fn parse(
    process: Option<&str>,
    pid: u32,
    tid: u32,
    stat: &str,
    schedstat: &str,
    status: &Status,
) -> Result<(ThreadTimes, u64), SampleError> {
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
    let times = ThreadTimes {
        process: process.map(str::to_owned),
        pid,
        tid,
        name: name.to_owned(),
        run_ns: run_and_wait.next().unwrap_or_else(|| user_ns.saturating_add(system_ns)),
        wait_ns: run_and_wait.next().unwrap_or(0),
        user_ns,
        system_ns,
        last_cpu: u32::try_from(number(PROCESSOR_FIELD)?).map_err(|_| wrong("stat", "a CPU number", stat))?,
        voluntary_switches: status.voluntary_switches,
        involuntary_switches: status.involuntary_switches,
        state: fields.first().copied().unwrap_or_default().to_owned(),
        allowed_cpus: status.allowed_cpus.clone(),
    };
    Ok((times, number(THREADS_FIELD)?))
}

// Field numbers of proc_pid_stat(5).
const FIRST_FIELD_AFTER_NAME: usize = 3;
const UTIME_FIELD: usize = 14;
const STIME_FIELD: usize = 15;
const THREADS_FIELD: usize = 20;
const PROCESSOR_FIELD: usize = 39;

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "5151 (ip (erf) 3) R 1 5151 5151 0 -1 4194304 120 0 0 0 12 90 0 0 20 0 1 0 7712 100 200 \
        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";
    fn status() -> Status {
        Status::parse("Name:\tiperf3\nCpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t17\n")
    }

    #[test]
    fn thread_has_its_times_and_context_switches() {
        let times = parse(Some("server-1"), 5151, 5152, STAT, "1020304050 2000 77\n", &status()).unwrap();
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
        assert_eq!(times, (expected, 1));
    }

    #[test]
    fn without_schedstat_the_run_time_is_computed_from_ticks() {
        assert_eq!(parse(None, 1, 1, STAT, "", &status()).unwrap().0.run_ns, 1_020_000_000);
    }

    #[test]
    fn truncated_stat_file_is_an_error() {
        assert!(parse(None, 1, 1, "1 (x) R 1", "", &status()).is_err());
        assert!(parse(None, 1, 1, "", "", &status()).is_err());
    }

    #[test]
    fn threads_of_the_current_process_are_found() {
        let me = Supervised { name: "me".to_owned(), pid: std::process::id() };
        let threads = Threads::default().read(&[me], 0);
        assert!(threads.iter().any(|thread| thread.tid == std::process::id()));
    }

    #[test]
    fn ended_process_has_no_threads() {
        let gone = Supervised { name: "gone".to_owned(), pid: u32::MAX };
        assert!(Threads::default().read(&[gone], 0).iter().all(|thread| thread.process.is_none()));
    }

    #[test]
    fn ksoftirqd_threads_are_read_if_visible() {
        let names: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok())
            .filter(|name| name.starts_with("ksoftirqd/"))
            .collect();
        let threads = Threads::default().read(&[], 0);
        assert_eq!(
            threads.iter().filter(|thread| thread.name.starts_with("ksoftirqd/")).count(),
            names.len()
        );
        let of_kernel = |thread: &&ThreadTimes| thread.pid != std::process::id();
        assert!(threads
            .iter()
            .filter(of_kernel)
            .all(|thread| thread.process.is_none() && thread.pid == thread.tid));
    }

    /// The CPU time of an emulated link's thread counts as work of the trial and not of foreign programs.
    #[test]
    fn frame_carrying_threads_of_the_agent_are_read_by_name() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let carry = move || {
            tell.send(()).unwrap();
            ended.recv().unwrap_err();
        };
        let wire = std::thread::Builder::new().name("iolab-wire".to_owned()).spawn(carry).unwrap();
        told.recv().unwrap();
        let read = Threads::default().read(&[], 0);
        let found: Vec<_> = read.iter().filter(|thread| thread.name == "iolab-wire").collect();
        let [found] = found[..] else { panic!("one wire: {read:?}") };
        assert_eq!((found.process.as_deref(), found.pid), (None, std::process::id()));
        assert_ne!(found.tid, found.pid);
        drop(end);
        wire.join().unwrap();
    }

    #[test]
    fn vhost_thread_belongs_to_its_process() {
        let mine = [parse(Some("dut"), 5151, 5152, STAT, "", &status()).unwrap().0];
        assert_eq!(works_for(Worker::For(5151), &mine), Some(Some("dut".to_owned())));
        assert_eq!(works_for(Worker::For(5152), &mine), Some(Some("dut".to_owned())));
        assert_eq!(works_for(Worker::For(5153), &mine), None);
        assert_eq!(works_for(Worker::ForAll, &mine), Some(None));
    }

    #[test]
    fn started_and_ended_threads_are_detected_between_readings() {
        let me = [Supervised { name: "me".to_owned(), pid: std::process::id() }];
        let mut threads = Threads::default();
        let mut read = || threads.read(&me, 0).into_iter().map(|thread| thread.tid).collect::<Vec<_>>();
        read();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            ended.recv().unwrap_err();
        });
        let name = told.recv().unwrap();
        let tid: u32 = name.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(read().contains(&tid) && read().contains(&tid));
        drop(end);
        other.join().unwrap();
        // Joining does not wait for the end of the thread's entry in /proc.
        while read().contains(&tid) {
            std::thread::yield_now();
        }
    }
}
