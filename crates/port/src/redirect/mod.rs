//! Redirection of selected frames of a port to two taps, and from there back to the port: programs at the network
//! stack's hooks of the port and of the taps. Addresses, routes and sockets stay on the port, and all other frames pass
//! untouched.
//!
//! | hook | program |
//! |---|---|
//! | egress of the port | selected frames go to the first tap |
//! | ingress of the first tap | every frame goes to the egress of the port |
//! | ingress of the port | selected frames go to the second tap |
//! | ingress of the second tap | every frame goes to the ingress of the port |
//!
//! The reader of the taps must call [`PortRedirect::beat`] more often than every [`PortRedirect::MAX_BEAT_AGE_NS`]:
//! without it, selected frames pass untouched, too. So a reader that hangs or dies does not cut off the host.

mod conflicts;
mod program;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_sys::bpf::{Map, Program};
use iolab_sys::{socket, tap, Mapping};

pub use self::program::{Network, Selection};
use crate::error::PortError;
use crate::hook::clsact::removal;
use crate::hook::{Attachment, Hook, Mechanism, Order};
use crate::interface::Interface;

const DOING: &str = "redirecting the frames of an interface";
/// Size of the shared memory: a page (bytes).
const MEMORY_BYTES: usize = 4096;

/// A redirection of the frames of a port, until drop.
#[derive(Debug)]
pub struct PortRedirect {
    // The programs of the port must be detached before those of the taps.
    on_port: Vec<Attachment>,
    _on_taps: Vec<Attachment>,
    of_port: Vec<(Program, Hook)>,
    mechanism: Mechanism,
    had_clsact: bool,
    port: Interface,
    /// names and indexes of the taps
    taps: Vec<(String, u32)>,
    socket: OwnedFd,
    memory: Mapping,
    _map: Map,
    _of_taps: Vec<Program>,
}

impl PortRedirect {
    /// Maximum age of a heartbeat, after which frames are not redirected (ns).
    pub const MAX_BEAT_AGE_NS: u64 = program::MAX_BEAT_AGE_NS.unsigned_abs() as u64;

    /// Prepare to redirect frames of `port` through two taps, all in the calling thread's namespace: frames that the
    /// port sends through the first one, and frames that it receives through the second one. The taps are brought up.
    /// Without a mechanism, the best one that the kernel supports is used.
    ///
    /// # Errors
    /// Fails if an interface does not exist, if a program or qdisc on the port conflicts with the redirection, or if the
    /// kernel refuses.
    pub fn prepare(
        port: &str,
        taps: [&str; 2],
        selection: &Selection,
        mechanism: Option<Mechanism>,
    ) -> Result<Self, PortError> {
        let port = Interface::find(port)?;
        let had_clsact = conflicts::check(&port)?;
        let map = Map::shared_with_us(u32::try_from(MEMORY_BYTES).unwrap_or(u32::MAX))?;
        let memory = map.map_memory(MEMORY_BYTES)?;
        let (mut of_taps, mut on_taps, mut of_port) = (Vec::new(), Vec::new(), Vec::new());
        let mut indexes = Vec::new();
        for (tap, hook) in taps.into_iter().zip([Hook::Egress, Hook::Ingress]) {
            let index = Interface::find(tap)?.index;
            let program = Program::load_classifier("iolab_return", &program::at_tap(hook, port.index))?;
            on_taps.push(Attachment::new(&program, index, Hook::Ingress, Order::First, mechanism)?);
            of_taps.push(program);
            let code = program::at_port(hook, index, selection, map.fd());
            of_port.push((Program::load_classifier("iolab_redirect", &code)?, hook));
            bring_up(tap)?;
            indexes.push((tap.to_owned(), index));
        }
        let mechanism = on_taps[0].mechanism();
        let socket =
            socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(PortError::of(DOING, "socket"))?;
        Ok(Self {
            on_port: Vec::new(),
            _on_taps: on_taps,
            of_port,
            mechanism,
            had_clsact,
            port,
            taps: indexes,
            socket,
            memory,
            _map: map,
            _of_taps: of_taps,
        })
    }

    /// Return the attachment mechanism of the programs.
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Return a shell command that removes the programs from the port after this process has died; none if the kernel
    /// removes the programs.
    pub fn undo(&self) -> Option<String> {
        (self.mechanism == Mechanism::Clsact).then(|| removal(&self.port.name, self.had_clsact))
    }

    /// Attach the programs to the port. The first heartbeat starts the redirection.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn attach(&mut self) -> Result<(), PortError> {
        for (program, hook) in &self.of_port {
            let attached =
                Attachment::new(program, self.port.index, *hook, Order::First, Some(self.mechanism))?;
            self.on_port.push(attached);
        }
        Ok(())
    }

    /// Whether the port and both taps are still in their namespace, and the taps are up: otherwise redirected frames
    /// would be lost.
    pub fn is_intact(&self) -> bool {
        let state = |name: &str| tap::interface_state(&self.socket, name);
        state(&self.port.name).is_ok_and(|state| state.index == self.port.index)
            && self
                .taps
                .iter()
                .all(|(name, index)| state(name).is_ok_and(|state| state.index == *index && state.running))
    }

    /// Redirect selected frames for the next [`Self::MAX_BEAT_AGE_NS`] from `now_ns` on (`CLOCK_MONOTONIC`).
    pub fn beat(&self, now_ns: u64) {
        // Relaxed: the programs read only this word, and any recent value serves.
        self.word(program::BEAT_AT).store(now_ns, Ordering::Relaxed);
    }

    /// Return the number of selected packets that were not redirected since the first heartbeat, sent and received; a
    /// super-frame counts once.
    pub fn passed_packets(&self) -> [u64; 2] {
        [program::PASSED_OUT_AT, program::PASSED_IN_AT].map(|at| self.word(at).load(Ordering::Relaxed))
    }

    fn word(&self, at: i16) -> &AtomicU64 {
        let index = usize::try_from(at).unwrap_or(0) / 8;
        assert!(index < MEMORY_BYTES / 8, "a word of the memory");
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and contains this word; the kernel's programs
        // also access it as one word.
        unsafe { &*self.memory.start().cast::<AtomicU64>().add(index) }
    }
}

/// Bring a tap up without IPv6, so that the tap sends no frames of its own.
fn bring_up(tap: &str) -> Result<(), PortError> {
    // A kernel without IPv6 has no such file.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{tap}/disable_ipv6"), "1");
    tap::bring_up(tap).map_err(PortError::of(DOING, "SIOCSIFFLAGS"))
}
