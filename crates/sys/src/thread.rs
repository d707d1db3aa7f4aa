//! Where the calling thread runs: its CPU, its priority, its network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::check;

/// nice(2) of a thread that gets a CPU before others of its kind.
const MOST_WEIGHT_NICE: libc::c_int = -20;

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// When there is no such CPU, or it is not allowed to this process.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: a cpu_set_t is an array of integers; zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `cpu` was checked to lie within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: pointer and size describe `set`; 0 means the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })?;
    Ok(())
}

/// Gives the calling thread a real-time priority (`SCHED_FIFO`), 1 to 99.
///
/// # Errors
/// When the priority is none, or real-time threads are not allowed to this process.
pub fn prioritise(priority: u8) -> io::Result<()> {
    let order = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `order` outlives the call, which reads it only; 0 means the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const order) })?;
    Ok(())
}

/// Lets the timers of the calling thread end when they are due, not up to 50 us later.
///
/// # Errors
/// When the kernel refuses.
pub fn exact_timers() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) })?;
    Ok(())
}

/// Whether the calling thread has a real-time priority; false where that cannot be known.
pub fn is_real_time() -> bool {
    // SAFETY: takes a number and changes nothing; 0 means the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// The real-time priority of the calling thread, 1 to 99; none where it has none.
pub fn priority() -> Option<u8> {
    let mut order = libc::sched_param { sched_priority: 0 };
    // SAFETY: `order` outlives the call, which writes it only; 0 means the calling thread.
    let told = unsafe { libc::sched_getparam(0, &raw mut order) };
    u8::try_from(order.sched_priority).ok().filter(|&priority| told == 0 && priority > 0)
}

/// Makes the calling thread one among others (`SCHED_OTHER`), of as much weight as is allowed to it.
///
/// # Errors
/// When the kernel refuses.
pub fn among_others() -> io::Result<()> {
    let order = libc::sched_param { sched_priority: 0 };
    // SAFETY: `order` outlives the call, which reads it only; 0 means the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const order) })?;
    // SAFETY: takes integers only; 0 means the calling thread. Without the right to it the weight stays as it is.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST_WEIGHT_NICE) };
    Ok(())
}

/// Moves the calling thread to a new network namespace.
///
/// # Errors
/// When it has no right to.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: takes a flag and changes nothing but this thread's namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}

/// A new network namespace, which the calling thread is in from now on.
///
/// # Errors
/// When it has no right to.
pub fn new_network() -> io::Result<File> {
    leave_network()?;
    File::open("/proc/thread-self/ns/net")
}

/// Moves the calling thread to a network namespace.
///
/// # Errors
/// When it has no right to, or the file is none.
pub fn enter_network(namespace: &File) -> io::Result<()> {
    // SAFETY: takes a descriptor that is open and a flag, and changes nothing but this thread's namespace.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the right to a priority it has none, before and after.
    #[test]
    fn a_priority_is_given_and_given_up() {
        let seen = std::thread::spawn(|| {
            let given = prioritise(1).is_ok();
            let with = priority();
            among_others().unwrap();
            (given, with, priority())
        });
        let (given, with, without) = seen.join().unwrap();
        assert_eq!((with, without), (given.then_some(1), None));
    }
}
