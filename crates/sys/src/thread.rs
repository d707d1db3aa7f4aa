//! Scheduling and network namespace of the calling thread: CPU affinity, priority, timers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::check;

/// The nice(2) value with the maximum weight among threads of the normal scheduling class.
const MOST_WEIGHT_NICE: libc::c_int = -20;

/// Pin the calling thread to one CPU.
///
/// # Errors
/// Returns an error if the CPU does not exist or is not permitted to this process.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: a cpu_set_t is an array of integers; zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `cpu` was checked to be within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: pointer and size describe `set`; 0 means the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })?;
    Ok(())
}

/// Set a real-time priority (`SCHED_FIFO`) of 1 to 99 for the calling thread.
///
/// # Errors
/// Returns an error if the priority is out of range or this process is not permitted to use real-time
/// scheduling.
pub fn prioritise(priority: u8) -> io::Result<()> {
    let order = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `order` outlives the call, which only reads it; 0 means the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const order) })?;
    Ok(())
}

/// Set the timer slack of the calling thread to 1 ns, instead of the default of 50 us.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn exact_timers() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: the call takes only integers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) })?;
    Ok(())
}

/// Whether the calling thread has a real-time priority; false if the scheduling policy cannot be read.
pub fn is_real_time() -> bool {
    // SAFETY: the call takes a number and changes nothing; 0 means the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// Return the real-time priority of the calling thread, 1 to 99; `None` if the thread has none.
pub fn priority() -> Option<u8> {
    let mut order = libc::sched_param { sched_priority: 0 };
    // SAFETY: `order` outlives the call, which only writes to it; 0 means the calling thread.
    let told = unsafe { libc::sched_getparam(0, &raw mut order) };
    u8::try_from(order.sched_priority).ok().filter(|&priority| told == 0 && priority > 0)
}

/// Set the normal scheduling policy (`SCHED_OTHER`) for the calling thread, with the maximum permitted
/// weight.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses.
pub fn among_others() -> io::Result<()> {
    let order = libc::sched_param { sched_priority: 0 };
    // SAFETY: `order` outlives the call, which only reads it; 0 means the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const order) })?;
    // SAFETY: the call takes only integers; 0 means the calling thread. Without permission, the weight stays
    // unchanged.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST_WEIGHT_NICE) };
    Ok(())
}

/// Move the calling thread to a new network namespace.
///
/// # Errors
/// Returns an error if the thread lacks permission.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: the call takes a flag and changes only this thread's namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Move the calling thread to a new network namespace, and return the namespace as an open file.
///
/// # Errors
/// Returns an error if the thread lacks permission.
pub fn new_network() -> io::Result<File> {
    leave_network()?;
    File::open("/proc/thread-self/ns/net")
}

/// Move the calling thread to the given network namespace.
///
/// # Errors
/// Returns an error if the thread lacks permission or the file is not a network namespace.
pub fn enter_network(namespace: &File) -> io::Result<()> {
    // SAFETY: the call takes an open descriptor and a flag, and changes only this thread's namespace.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that is not permitted to set a real-time priority has none before and after the attempt.
    #[test]
    fn thread_priority_is_set_and_removed() {
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
