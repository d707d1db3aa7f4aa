//! BPF links, which attach programs to interfaces. The kernel detaches the program when the process that
//! holds the link exits.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{call, own, Program};
use crate::plain::plain;
use crate::unsigned;

const LINK_CREATE: u32 = 28;
const LINK_DETACH: u32 = 34;

/// Attachment point of a program on an interface (enum `bpf_attach_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The XDP hook, before the network stack.
    Xdp = 37,
    /// Ingress of the network stack (tcx), since Linux 6.6.
    StackIn = 46,
    /// Egress of the network stack (tcx), before the qdisc, since Linux 6.6.
    StackOut = 47,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct LinkSpec {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct LinkId {
    link: u32,
}

plain!(LinkSpec, LinkId);

/// A program attached to an interface until the value is dropped. The interface belongs to the network
/// namespace of the thread that attached the program.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Attach a program to the interface with the given index.
    ///
    /// # Errors
    /// Returns the kernel's error if the kernel refuses to attach the program.
    pub fn new(program: &Program, interface: u32, place: Place, flags: u32) -> io::Result<Self> {
        let program = unsigned(program.as_raw_fd());
        let mut spec = LinkSpec { program, interface, attach_type: place as u32, flags };
        // SAFETY: the attributes hold no addresses.
        let fd = unsafe { call(LINK_CREATE, &mut spec) }?;
        // SAFETY: the call returned a new descriptor.
        Ok(Self(unsafe { own(fd) }))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut spec = LinkId { link: unsigned(self.0.as_raw_fd()) };
        // Closing the descriptor may detach the program too late: a process that is being started briefly
        // holds a copy of the descriptor. SAFETY: the attributes hold no addresses. If the call fails,
        // closing the descriptor still detaches the program.
        let _ = unsafe { call(LINK_DETACH, &mut spec) };
    }
}
