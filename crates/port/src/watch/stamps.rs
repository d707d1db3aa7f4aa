//! Kernel timestamps of received packets: the kernel sets them before it steers a packet to a different CPU (receive
//! packet steering, Documentation/networking/scaling.rst), which may process many packets at once, later.

use std::os::fd::OwnedFd;

use iolab_sys::clock::RealtimeOffset;
use iolab_sys::socket;

use crate::error::PortError;

/// Maximum difference between two measurements of the clock offset, unless a clock was set (ns).
const UNCERTAIN_NS: u64 = 1_000;

/// Enables kernel timestamps of received packets until drop.
#[derive(Debug)]
pub(super) struct Stamps {
    _asks: OwnedFd,
    offset: RealtimeOffset,
}

impl Stamps {
    /// Enable timestamps with a socket option: the kernel stamps all packets while at least one socket requests it.
    pub(super) fn ask() -> Result<Self, PortError> {
        const DOING: &str = "asking the kernel for stamps";
        let asks =
            socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(PortError::of(DOING, "socket"))?;
        socket::set_option(&asks, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
            .map_err(PortError::of(DOING, "setsockopt"))?;
        Ok(Self { _asks: asks, offset: RealtimeOffset::measure() })
    }

    /// Return the offset of timestamps to the clock of the bins, in the form that a program subtracts (ns).
    pub(super) const fn ahead_ns(&self) -> u64 {
        u64::from_ne_bytes(self.offset.offset_ns.to_ne_bytes())
    }

    /// Whether the clock of the timestamps has been set since the last measurement; if so, store the new offset.
    pub(super) fn look(&mut self) -> bool {
        let found = RealtimeOffset::measure();
        let set = found.offset_ns.abs_diff(self.offset.offset_ns) > UNCERTAIN_NS + found.error_ns;
        if set {
            self.offset = found;
        }
        set
    }
}

/// Whether the kernel may steer packets of an interface to CPUs other than the receiving one; true if `/sys` has no
/// information.
pub(super) fn hands_over(name: &str) -> bool {
    let Ok(queues) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else { return true };
    queues.flatten().any(|queue| {
        ["rps_cpus", "rps_flow_cnt"]
            .iter()
            .any(|file| std::fs::read_to_string(queue.path().join(file)).is_ok_and(|text| is_set(&text)))
    })
}

/// Whether a mask or a number is nonzero.
fn is_set(text: &str) -> bool {
    text.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steering_mask_with_any_cpu_is_active() {
        assert_eq!(
            ["0", "00000000,00000000\n", "2\n", "00000001,00000000\n"].map(is_set),
            [false, false, true, true]
        );
    }
}
