//! Threads outside the supervised processes that move packets: the kernel's vhost, `ksoftirqd` and NAPI threads, and
//! the agent's threads of emulated links, devices and watches. The classification of each thread is cached, because a
//! machine has hundreds of kernel threads and few of these.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Relation of a thread to the supervised processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// The thread works for the process or thread with this ID.
    For(u32),
    /// The thread works for all processes.
    ForAll,
    /// The thread belongs to the calling process, the agent.
    Own,
}

/// Classify a kernel thread by its name; `None` if the thread does not move packets.
pub fn judge(name: &str) -> Option<Worker> {
    if let Some(owner) = name.strip_prefix("vhost-") {
        return owner.parse().ok().map(Worker::For);
    }
    (name.starts_with("ksoftirqd/") || name.starts_with("napi/")).then_some(Worker::ForAll)
}

/// The threads that move packets. The list is refreshed once a second, because threads start and exit with
/// NICs and guests.
#[derive(Debug, Default)]
pub struct Workers {
    found: Vec<(u32, Worker)>,
    looked_ns: Option<u64>,
}

impl Workers {
    /// Return the threads from a list that is at most one second older than `now_ns`.
    pub fn at(&mut self, now_ns: u64) -> &[(u32, Worker)] {
        if self.looked_ns.is_none_or(|looked_ns| now_ns.saturating_sub(looked_ns) >= LOOK_NS) {
            self.found = find();
            self.looked_ns = Some(now_ns);
        }
        &self.found
    }
}

/// Return the current threads that move packets.
fn find() -> Vec<(u32, Worker)> {
    let ids = thread_ids();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.update(&ids, |tid| {
        let name = std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        judge(name.trim_end())
    });
    let of_kernel = ids.into_iter().filter_map(|tid| Some((tid, (*known.workers.get(&tid)?)?)));
    of_kernel.chain(own_threads().map(|tid| (tid, Worker::Own))).collect()
}

/// Return the threads of the calling process that forward or inspect frames.
fn own_threads() -> impl Iterator<Item = u32> {
    let named = |tid: &u32| {
        std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"))
            .is_ok_and(|name| name.starts_with(OWN_NAMES))
    };
    super::thread_ids(std::process::id()).into_iter().filter(named)
}

/// Return the children of `kthreadd`, which are the kernel threads.
fn thread_ids() -> Vec<u32> {
    let children = format!("/proc/{STARTER}/task/{STARTER}/children");
    let is_starter = || {
        std::fs::read_to_string(format!("/proc/{STARTER}/comm"))
            .is_ok_and(|name| name.trim_end() == "kthreadd")
    };
    match std::fs::read_to_string(children) {
        Ok(text) if is_starter() => {
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
        }
        // Kernel threads are invisible in a container.
        _ => Vec::new(),
    }
}

/// Cached classification of kernel threads.
#[derive(Default)]
struct Known {
    workers: HashMap<u32, Option<Worker>>,
    readings: u32,
}

impl Known {
    /// Drop threads that have exited, and classify new threads and known workers with `look`. All other
    /// threads are classified again only every [`LOOK_AGAIN`] calls, in case a thread ID was reused.
    fn update(&mut self, ids: &[u32], look: impl Fn(u32) -> Option<Worker>) {
        self.readings = (self.readings + 1) % LOOK_AGAIN;
        let mut workers = HashMap::with_capacity(ids.len());
        for &tid in ids {
            let known =
                self.workers.get(&tid).copied().filter(|worker| self.readings != 0 && worker.is_none());
            workers.insert(tid, known.unwrap_or_else(|| look(tid)));
        }
        self.workers = workers;
    }
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
/// Process ID of `kthreadd`, which is 2 in every kernel.
const STARTER: u32 = 2;
const LOOK_AGAIN: u32 = 100;
/// Prefix of the names of the agent's threads for emulated links, devices, watches and captures.
const OWN_NAMES: &str = "iolab-";
const LOOK_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn packet_processing_kernel_threads_are_recognised_by_name() {
        assert_eq!(judge("vhost-5151"), Some(Worker::For(5151)));
        assert_eq!(judge("ksoftirqd/1"), Some(Worker::ForAll));
        assert_eq!(judge("napi/eth0-8193"), Some(Worker::ForAll));
        for other in ["kworker/0:1", "vhost_task", "vhost-", "rcu_preempt", ""] {
            assert_eq!(judge(other), None);
        }
    }

    #[test]
    fn kernel_threads_are_searched_once_per_second() {
        let gone = vec![(u32::MAX, Worker::ForAll)];
        let mut workers = Workers { found: gone.clone(), looked_ns: Some(LOOK_NS) };
        assert_eq!(workers.at(2 * LOOK_NS - 1), gone);
        assert_ne!(workers.at(2 * LOOK_NS), gone);
        assert_ne!(workers.at(2 * LOOK_NS + 1), gone);
    }

    #[test]
    fn irrelevant_thread_is_examined_only_occasionally() {
        let (mut known, looked) = (Known::default(), RefCell::new(Vec::new()));
        let look = |tid| {
            looked.borrow_mut().push(tid);
            (tid == 7).then_some(Worker::ForAll)
        };
        known.update(&[7, 8], look);
        known.update(&[7, 8, 9], look);
        assert_eq!(looked.take(), [7, 8, 7, 9]);
        assert_eq!(known.workers[&7], Some(Worker::ForAll));
        known.update(&[9], look);
        assert_eq!((looked.take(), known.workers.len()), (vec![], 1));
        (0..LOOK_AGAIN).for_each(|_| known.update(&[9], look));
        assert_eq!(looked.take(), [9]);
    }
}
