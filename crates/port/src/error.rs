//! Errors of opening and using ports, one variant per cause with the relevant values.

use std::io;

use iolab_sys::bpf::BpfError;

/// The reason why a port could not be opened or used. The interface was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The name is not a valid interface name.
    #[error("opening a port: {name:?} cannot be an interface's name; allowed are 1 to 15 bytes without '/' and blanks")]
    BadName {
        /// Requested name.
        name: String,
    },
    /// The network namespace has no interface with this name.
    #[error("opening a port: interface {name} does not exist in this network namespace; `ip link` lists those that do")]
    NoInterface {
        /// Requested name.
        name: String,
    },
    /// The interface is down.
    #[error("opening a port: interface {name} is down; bring it up first: ip link set dev {name} up")]
    Down {
        /// Interface name.
        name: String,
    },
    /// The frame exceeds the MTU of the interface.
    #[error(
        "opening a port: frames of {frame_bytes} B (without FCS) do not fit interface {name} with MTU {mtu_bytes} B; \
         at most {most_bytes} B; send smaller frames or set a larger MTU: ip link set dev {name} mtu N"
    )]
    FrameOverMtu {
        /// Interface name.
        name: String,
        /// Requested frame length (bytes, without FCS).
        frame_bytes: usize,
        /// MTU of the interface (bytes).
        mtu_bytes: usize,
        /// Maximum frame length (bytes, without FCS).
        most_bytes: usize,
    },
    /// The frame exceeds the buffers of this path.
    #[error("opening a port on {name}: {path} carries frames of at most {most_bytes} B, asked were {frame_bytes} B; use AF_PACKET")]
    FrameOverPath {
        /// Interface name.
        name: String,
        /// Name of the path.
        path: &'static str,
        /// Requested frame length (bytes, without FCS).
        frame_bytes: usize,
        /// Maximum frame length of the path (bytes).
        most_bytes: usize,
    },
    /// The interface has fewer transmit queues than the requested senders.
    #[error("opening a port on {name}: {senders} senders need a transmit queue each; the interface uses {queues} (ethtool -L)")]
    SendQueues {
        /// Interface name.
        name: String,
        /// Requested number of senders.
        senders: u32,
        /// Number of transmit queues in use.
        queues: u32,
    },
    /// Several senders were requested for a path that supports one.
    #[error("opening a port on {name}: {path} has one sender, {senders} were asked for; choose AF_XDP")]
    OneSender {
        /// Interface name.
        name: String,
        /// Name of the path.
        path: &'static str,
        /// Requested number of senders.
        senders: u32,
    },
    /// The queue does not exist.
    #[error("opening a port on {name}: queue {queue} does not exist; the interface has {queues}: 0 to {last}", last = queues.saturating_sub(1))]
    NoQueue {
        /// Interface name.
        name: String,
        /// Requested queue.
        queue: u32,
        /// Number of queues.
        queues: u32,
    },
    /// The interface has an XDP program of a different owner.
    #[error(
        "opening a port: interface {name} already carries XDP program {program_id} ({mode}); it is left in place. \
         Remove it (ip link set dev {name} xdp off), or ask to replace it while the port is open (force)"
    )]
    ProgramPresent {
        /// Interface name.
        name: String,
        /// BPF program id.
        program_id: u32,
        /// Attach mode: native, generic or offloaded.
        mode: &'static str,
    },
    /// A program or qdisc on the interface conflicts with an emulated link on the interface.
    #[error("carrying frames of interface {name}: it has {conflict}; remove it, or put the emulated link on a different port")]
    Conflict {
        /// Interface name.
        name: String,
        /// The program or qdisc, and the reason for the conflict.
        conflict: String,
    },
    /// A different `AF_XDP` socket uses the queue.
    #[error("opening a port on {name}: queue {queue} is used by another AF_XDP socket (waited {waited_ms} ms); close it or use another queue")]
    QueueBusy {
        /// Interface name.
        name: String,
        /// Queue index.
        queue: u32,
        /// Time for which the bind was retried (ms).
        waited_ms: u64,
    },
    /// A capability or permission is missing.
    #[error("{doing}: not permitted ({errno}); needed: {needed}")]
    NotPermitted {
        /// Failed operation.
        doing: &'static str,
        /// Required capability.
        needed: &'static str,
        /// Error of the system call.
        errno: io::Error,
    },
    /// The kernel's verifier refused a program.
    #[error("loading the XDP program {program}: refused by the kernel ({errno}): {log}")]
    ProgramRefused {
        /// Name of the program.
        program: &'static str,
        /// Error of the system call.
        errno: io::Error,
        /// Last lines of the verifier log.
        log: String,
    },
    /// A value is out of range.
    #[error("opening a port: {what} is {seen}; allowed: {allowed}")]
    BadValue {
        /// Name of the setting.
        what: &'static str,
        /// Invalid value.
        seen: u64,
        /// Description of the allowed values.
        allowed: &'static str,
    },
    /// Any other failure of a system call.
    #[error("{doing}: {syscall} failed: {errno}")]
    System {
        /// Failed operation.
        doing: &'static str,
        /// Name of the system call.
        syscall: &'static str,
        /// Error of the system call.
        errno: io::Error,
    },
}

impl PortError {
    /// Convert an error of a system call to a port error that names the failed operation.
    pub(crate) fn of(doing: &'static str, syscall: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |errno| match errno.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Self::NotPermitted { doing, needed: right_for(syscall), errno }
            }
            _ => Self::System { doing, syscall, errno },
        }
    }

    /// Whether a retry of the operation may succeed: a buffer was full, or a signal interrupted the call.
    pub(crate) fn is_busy(&self) -> bool {
        let Self::System { errno, .. } = self else { return false };
        matches!(errno.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOSPC | libc::ENOMEM))
    }

    /// Whether a different path may succeed: the cause is a missing permission or feature, not the interface.
    pub fn may_fall_back(&self) -> bool {
        match self {
            Self::NotPermitted { .. } | Self::FrameOverPath { .. } | Self::ProgramRefused { .. } => true,
            Self::System { errno, .. } => matches!(
                errno.raw_os_error(),
                Some(
                    libc::EOPNOTSUPP
                        | libc::EAFNOSUPPORT
                        | libc::ENOSYS
                        | libc::EINVAL
                        | libc::ENOMEM
                        | libc::ENOBUFS
                )
            ),
            _ => false,
        }
    }
}

impl From<BpfError> for PortError {
    fn from(error: BpfError) -> Self {
        match error {
            BpfError::ProgramRefused { program, errno, log } => Self::ProgramRefused { program, errno, log },
            BpfError::System { doing, syscall, errno } => Self::of(doing, syscall)(errno),
            other => Self::of("using BPF", "bpf")(io::Error::other(other)),
        }
    }
}

fn right_for(syscall: &str) -> &'static str {
    match syscall {
        "bpf" => "root (CAP_BPF and CAP_NET_ADMIN) in the initial user namespace",
        "setsockopt" => "CAP_NET_RAW, and enough locked memory (ulimit -l)",
        _ => "CAP_NET_RAW in the network namespace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full queue may have room later; an invalid request stays invalid.
    #[test]
    fn full_kernel_queue_gives_a_busy_error() {
        let seen = |errno| PortError::of("sending", "bpf")(io::Error::from_raw_os_error(errno)).is_busy();
        let (full, wrong) =
            ([libc::EAGAIN, libc::ENOSPC, libc::ENOMEM], [libc::ENETDOWN, libc::ENXIO, libc::EPERM]);
        assert_eq!((full.map(seen), wrong.map(seen)), ([true; 3], [false; 3]));
    }
}
