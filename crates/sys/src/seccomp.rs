//! Seccomp filter of a confined program: it rejects some system calls, and a different process can execute
//! BLKFLSBUF on the program's behalf.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_long, sock_filter};

use crate::check;
use crate::page_cache::BLKFLSBUF;

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine number with the flags for 64 bits and little-endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// Bit of x32 system calls on x86-64, whose numbers start at this value; they have the same effects as the
/// native calls.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Frequent system calls of disk programs. The filter allows them first, because kernels before Linux 5.11 do
/// not cache seccomp results.
const WORK: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_io_uring_enter,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
];

/// System calls that no disk program needs: they affect other programs, processes, sockets, mounts,
/// namespaces or the kernel.
const REFUSED: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_mknodat,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_fanotify_init,
    libc::SYS_landlock_restrict_self,
    libc::SYS_seccomp,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Flags of clone(2) that create namespaces.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Offsets in struct `seccomp_data`; the lower half of an argument comes first.
mod at {
    pub const NUMBER: u32 = 0;
    pub const ARCHITECTURE: u32 = 4;
    pub const ARGUMENTS: u32 = 16;
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
#[cfg(target_arch = "x86_64")]
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;

/// Whether the filter applies to the calling thread.
#[derive(Debug)]
pub enum Filtered {
    /// The filter applies. The descriptor is the listener, if a different process executes the flushes of
    /// block devices.
    Yes(Option<OwnedFd>),
    /// The kernel does not support seccomp filters.
    NotSupported,
}

/// Install a seccomp filter on the calling thread that rejects system calls which no disk program needs. With
/// `flushes`, BLKFLSBUF waits for the process that holds the listener. The process must have set
/// `no_new_privs` before.
///
/// # Errors
/// Returns the kernel's error if the kernel refuses the filter.
pub fn filter(flushes: bool) -> io::Result<Filtered> {
    let mut program = program(flushes);
    let described = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(u16::MAX),
        filter: program.as_mut_ptr(),
    };
    // Without this flag, kernels before Linux 5.16 disabled speculative store bypass, which slowed the
    // program down.
    let listener = if flushes { libc::SECCOMP_FILTER_FLAG_NEW_LISTENER } else { 0 };
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW | listener;
    // SAFETY: the description and the instructions that it points to outlive the call, which only reads them.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, ptr::from_ref(&described))
    };
    let answer = i32::try_from(answer).unwrap_or(-1);
    match check(answer) {
        // SAFETY: the kernel has just opened this descriptor for this process.
        Ok(number) if flushes => Ok(Filtered::Yes(Some(unsafe { OwnedFd::from_raw_fd(number) }))),
        Ok(_) => Ok(Filtered::Yes(None)),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(Filtered::NotSupported),
        // Kernels before Linux 5.0 lack notifications but support filters.
        Err(error) if flushes && error.raw_os_error() == Some(libc::EINVAL) => filter(false),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Filtered::NotSupported),
        Err(error) => Err(error),
    }
}

/// Answer the system calls that wait at `listener` with the result of `flush`, as long as the filtered
/// program runs.
///
/// # Errors
/// Returns an error when no filtered process is left.
pub fn serve_flushes(
    listener: &OwnedFd,
    mut flush: impl FnMut() -> io::Result<()>,
) -> io::Result<std::convert::Infallible> {
    loop {
        // SAFETY: the structure consists of integers; the kernel requires zeros.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the structure has the kernel's layout and outlives the call, which writes to it.
        let got = check(unsafe {
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, ptr::from_mut(&mut asked))
        });
        match got {
            // The process that made the call has exited in the meantime.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => continue,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let error = flush().err().map_or(0, |error| -error.raw_os_error().unwrap_or(libc::EIO));
        let answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags: 0 };
        // SAFETY: the structure has the kernel's layout and outlives the call, which reads it. The call fails
        // if the process has exited.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, ptr::from_ref(&answer)) };
    }
}

fn program(flushes: bool) -> Vec<sock_filter> {
    let refuse = |errno: i32| step(RETURN, libc::SECCOMP_RET_ERRNO | errno.unsigned_abs());
    let allow = step(RETURN, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![
        step(LOAD, at::ARCHITECTURE),
        jump(IF_EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, at::NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    program.extend([jump(IF_AT_LEAST, X32, 0, 1), refuse(libc::ENOSYS)]);
    for &call in WORK {
        program.extend([is_call(call), allow]);
    }
    for &call in REFUSED {
        program.extend([is_call(call), refuse(libc::EPERM)]);
    }
    // The flags of clone3(2) are in memory, which a filter cannot read; on ENOSYS, C libraries fall back to
    // clone(2).
    program.extend([is_call(libc::SYS_clone3), refuse(libc::ENOSYS)]);
    // For some system calls, an argument determines the result. If the system call's number differs, jump to the next
    // check.
    program.extend([
        jump(IF_EQUAL, number(libc::SYS_clone), 0, 4),
        step(LOAD, at::ARGUMENTS),
        jump(IF_ANY_BIT, NAMESPACES, 0, 1),
        refuse(libc::EPERM),
        allow,
    ]);
    if flushes {
        program.extend([
            jump(IF_EQUAL, number(libc::SYS_ioctl), 0, 4),
            step(LOAD, at::ARGUMENTS + 8),
            jump(IF_EQUAL, u32::try_from(BLKFLSBUF).unwrap_or(0), 0, 1),
            step(RETURN, libc::SECCOMP_RET_USER_NOTIF),
            allow,
        ]);
    }
    program.push(allow);
    program
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Return a jump that skips the next instruction unless the system call has the number of `call`.
fn is_call(call: c_long) -> sock_filter {
    jump(IF_EQUAL, number(call), 0, 1)
}

fn step(code: u32, value: u32) -> sock_filter {
    jump(code, value, 0, 0)
}

/// Return a jump that skips `holds` instructions if the comparison is true, else `fails` instructions.
fn jump(code: u32, value: u32, holds: u8, fails: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: holds, jf: fails, k: value }
}
