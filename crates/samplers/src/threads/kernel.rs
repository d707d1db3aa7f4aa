//! Threads that move packets and belong to no supervised process: the kernel's vhost workers, `ksoftirqd` and NAPI, and the agent's
//! own wires, devices and watches. Which there are is remembered, because a machine has hundreds of threads of the kernel and few
//! of these.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A thread that is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// It works for the process or thread of that number.
    For(u32),
    /// It works for whoever comes.
    ForAll,
    /// It is one of the calling process, as is who measures.
    Own,
}

/// What a thread of the kernel does, by its name; `None` where that does not concern us.
pub fn judge(name: &str) -> Option<Worker> {
    if let Some(owner) = name.strip_prefix("vhost-") {
        return owner.parse().ok().map(Worker::For);
    }
    (name.starts_with("ksoftirqd/") || name.starts_with("napi/")).then_some(Worker::ForAll)
}

/// The threads of interest, looked for once a second: they come and go with cards and guests.
#[derive(Debug, Default)]
pub struct Workers {
    found: Vec<(u32, Worker)>,
    looked_ns: Option<u64>,
}

impl Workers {
    /// Those there were at most a second before `now_ns`.
    pub fn at(&mut self, now_ns: u64) -> &[(u32, Worker)] {
        if self.looked_ns.is_none_or(|looked_ns| now_ns.saturating_sub(looked_ns) >= LOOK_NS) {
            self.found = find();
            self.looked_ns = Some(now_ns);
        }
        &self.found
    }
}

/// The threads of interest there are now.
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

/// The threads of the calling process that carry or look at frames.
fn own_threads() -> impl Iterator<Item = u32> {
    let named = |tid: &u32| {
        std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"))
            .is_ok_and(|name| name.starts_with(OWN_NAMES))
    };
    super::thread_ids(std::process::id()).into_iter().filter(named)
}

/// The children of the thread that starts the others.
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
        // In a container the kernel's threads are not to be seen.
        _ => Vec::new(),
    }
}

/// What was found out about the threads seen before.
#[derive(Default)]
struct Known {
    workers: HashMap<u32, Option<Worker>>,
    readings: u32,
}

impl Known {
    /// Forget what has ended and look at what is new with `look`. Now and then everything is looked at again: a number may have been
    /// given to another thread in between.
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
/// `kthreadd` is the second process of every kernel.
const STARTER: u32 = 2;
const LOOK_AGAIN: u32 = 100;
/// How the threads of wires, devices, watches and captures are called.
const OWN_NAMES: &str = "iolab-";
const LOOK_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_threads_that_move_packets_are_told_by_their_names() {
        assert_eq!(judge("vhost-5151"), Some(Worker::For(5151)));
        assert_eq!(judge("ksoftirqd/1"), Some(Worker::ForAll));
        assert_eq!(judge("napi/eth0-8193"), Some(Worker::ForAll));
        for other in ["kworker/0:1", "vhost_task", "vhost-", "rcu_preempt", ""] {
            assert_eq!(judge(other), None);
        }
    }

    #[test]
    fn the_threads_are_looked_for_once_a_second() {
        let gone = vec![(u32::MAX, Worker::ForAll)];
        let mut workers = Workers { found: gone.clone(), looked_ns: Some(LOOK_NS) };
        assert_eq!(workers.at(2 * LOOK_NS - 1), gone);
        assert_ne!(workers.at(2 * LOOK_NS), gone);
        assert_ne!(workers.at(2 * LOOK_NS + 1), gone);
    }

    #[test]
    fn a_thread_of_no_interest_is_looked_at_once_in_a_while() {
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
