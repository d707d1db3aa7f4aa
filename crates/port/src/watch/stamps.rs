//! The kernel's stamps of packets that come in: it sets them before it gives a packet to another CPU (receive packet steering,
//! Documentation/networking/scaling.rst), which may look at many at once, later.

use std::os::fd::OwnedFd;

use iolab_sys::clock::RealtimeOffset;
use iolab_sys::socket;

use crate::error::PortError;

/// Measured twice, the offset between the clocks differs by less, unless somebody sets one. (ns)
const UNCERTAIN_NS: u64 = 1_000;

/// Has the kernel stamp packets as they come in, for as long as it lives.
#[derive(Debug)]
pub(super) struct Stamps {
    _asks: OwnedFd,
    offset: RealtimeOffset,
}

impl Stamps {
    /// The kernel stamps all packets while one socket asks for it.
    pub(super) fn ask() -> Result<Self, PortError> {
        const DOING: &str = "asking the kernel for stamps";
        let asks =
            socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(PortError::of(DOING, "socket"))?;
        socket::set_option(&asks, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
            .map_err(PortError::of(DOING, "setsockopt"))?;
        Ok(Self { _asks: asks, offset: RealtimeOffset::measure() })
    }

    /// What stamps are ahead of the clock of bins, as a program subtracts it. (ns)
    pub(super) const fn ahead_ns(&self) -> u64 {
        u64::from_ne_bytes(self.offset.offset_ns.to_ne_bytes())
    }

    /// Whether somebody has set the clock of the stamps.
    pub(super) fn look(&mut self) -> bool {
        let found = RealtimeOffset::measure();
        let set = found.offset_ns.abs_diff(self.offset.offset_ns) > UNCERTAIN_NS + found.error_ns;
        if set {
            self.offset = found;
        }
        set
    }
}

/// Whether packets of an interface are given to other CPUs than the one on which they came; so where `/sys` does not tell.
pub(super) fn hands_over(name: &str) -> bool {
    let Ok(queues) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else { return true };
    queues.flatten().any(|queue| {
        ["rps_cpus", "rps_flow_cnt"]
            .iter()
            .any(|file| std::fs::read_to_string(queue.path().join(file)).is_ok_and(|text| is_set(&text)))
    })
}

/// Whether a mask or a number is another than none.
fn is_set(text: &str) -> bool {
    text.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_with_any_cpu_hands_over() {
        assert_eq!(
            ["0", "00000000,00000000\n", "2\n", "00000001,00000000\n"].map(is_set),
            [false, false, true, true]
        );
    }
}
