//! What can go wrong when a port is opened or used, one variant per cause with the values seen.

use std::io;

use iolab_sys::bpf::BpfError;

/// Why a port could not be opened or used. Nothing was changed on the interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The name is not one an interface can have.
    #[error("opening a port: {name:?} cannot be an interface's name; allowed are 1 to 15 bytes without '/' and blanks")]
    BadName {
        /// what was given
        name: String,
    },
    /// There is no such interface in this network namespace.
    #[error("opening a port: interface {name} does not exist in this network namespace; `ip link` lists those that do")]
    NoInterface {
        /// what was given
        name: String,
    },
    /// The interface is not up.
    #[error("opening a port: interface {name} is down; bring it up first: ip link set dev {name} up")]
    Down {
        /// the interface
        name: String,
    },
    /// The frame does not fit the interface.
    #[error(
        "opening a port: frames of {frame_bytes} B (without FCS) do not fit interface {name} with MTU {mtu_bytes} B; \
         at most {most_bytes} B; send smaller frames or set a larger MTU: ip link set dev {name} mtu N"
    )]
    FrameOverMtu {
        /// the interface
        name: String,
        /// what was asked (bytes, without FCS)
        frame_bytes: usize,
        /// the interface's MTU (bytes)
        mtu_bytes: usize,
        /// the largest frame that fits (bytes, without FCS)
        most_bytes: usize,
    },
    /// The frame does not fit this path's buffers.
    #[error("opening a port on {name}: {path} carries frames of at most {most_bytes} B, asked were {frame_bytes} B; use AF_PACKET")]
    FrameOverPath {
        /// the interface
        name: String,
        /// the path
        path: &'static str,
        /// what was asked (bytes, without FCS)
        frame_bytes: usize,
        /// the largest frame of the path (bytes)
        most_bytes: usize,
    },
    /// More senders than the interface has transmit queues.
    #[error("opening a port on {name}: {senders} senders need a transmit queue each; the interface uses {queues} (ethtool -L)")]
    SendQueues {
        /// the interface
        name: String,
        /// how many senders were asked for
        senders: u32,
        /// how many transmit queues it uses
        queues: u32,
    },
    /// Several senders by a path that has one.
    #[error("opening a port on {name}: {path} has one sender, {senders} were asked for; choose AF_XDP")]
    OneSender {
        /// the interface
        name: String,
        /// the path
        path: &'static str,
        /// how many senders were asked for
        senders: u32,
    },
    /// The queue does not exist.
    #[error("opening a port on {name}: queue {queue} does not exist; the interface has {queues}: 0 to {last}", last = queues.saturating_sub(1))]
    NoQueue {
        /// the interface
        name: String,
        /// what was asked
        queue: u32,
        /// how many it has
        queues: u32,
    },
    /// The interface carries somebody else's XDP program.
    #[error(
        "opening a port: interface {name} already carries XDP program {program_id} ({mode}); it is left in place. \
         Remove it (ip link set dev {name} xdp off), or ask to replace it while the port is open (force)"
    )]
    ProgramPresent {
        /// the interface
        name: String,
        /// the kernel's number of the program
        program_id: u32,
        /// how it is attached: native, generic or offloaded
        mode: &'static str,
    },
    /// The queue is used by another `AF_XDP` socket.
    #[error("opening a port on {name}: queue {queue} is used by another AF_XDP socket (waited {waited_ms} ms); close it or use another queue")]
    QueueBusy {
        /// the interface
        name: String,
        /// the queue
        queue: u32,
        /// how long binding was retried (ms)
        waited_ms: u64,
    },
    /// A right is missing.
    #[error("{doing}: not permitted ({errno}); needed: {needed}")]
    NotPermitted {
        /// what was being done
        doing: &'static str,
        /// the right that would allow it
        needed: &'static str,
        /// what the kernel said
        errno: io::Error,
    },
    /// The kernel's verifier refused a program.
    #[error("loading the XDP program {program}: refused by the kernel ({errno}): {log}")]
    ProgramRefused {
        /// which program
        program: &'static str,
        /// what the kernel said
        errno: io::Error,
        /// the verifier's last lines
        log: String,
    },
    /// A value is outside of what is possible.
    #[error("opening a port: {what} is {seen}; allowed: {allowed}")]
    BadValue {
        /// the setting
        what: &'static str,
        /// its value
        seen: u64,
        /// what it may be
        allowed: &'static str,
    },
    /// Any other refusal of the kernel.
    #[error("{doing}: {syscall} failed: {errno}")]
    System {
        /// what was being done
        doing: &'static str,
        /// the call
        syscall: &'static str,
        /// what the kernel said
        errno: io::Error,
    },
}

impl PortError {
    /// Turns the kernel's answer into an error that says what was being done.
    pub(crate) fn of(doing: &'static str, syscall: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |errno| match errno.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Self::NotPermitted { doing, needed: right_for(syscall), errno }
            }
            _ => Self::System { doing, syscall, errno },
        }
    }

    /// True when the same may work a little later: something was full, or a signal came.
    pub(crate) fn is_busy(&self) -> bool {
        let Self::System { errno, .. } = self else { return false };
        matches!(errno.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOSPC | libc::ENOMEM))
    }

    /// True when another path may work where this one did not: rights or features are missing, not the interface.
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

    /// What was full may have room later; what is wrong stays wrong.
    #[test]
    fn a_full_kernel_is_busy() {
        let seen = |errno| PortError::of("sending", "bpf")(io::Error::from_raw_os_error(errno)).is_busy();
        let (full, wrong) =
            ([libc::EAGAIN, libc::ENOSPC, libc::ENOMEM], [libc::ENETDOWN, libc::ENXIO, libc::EPERM]);
        assert_eq!((full.map(seen), wrong.map(seen)), ([true; 3], [false; 3]));
    }
}
