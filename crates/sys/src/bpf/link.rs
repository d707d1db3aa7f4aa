//! Hangs programs on interfaces by links, which end with the process that holds them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{call, own, Program};
use crate::plain::plain;
use crate::unsigned;

const LINK_CREATE: u32 = 28;
const LINK_DETACH: u32 = 34;

/// Where on an interface a program hangs (enum `bpf_attach_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before the stack.
    Xdp = 37,
    /// Where packets enter the stack, since Linux 6.6.
    StackIn = 46,
    /// Where packets leave the stack, before they are queued, since Linux 6.6.
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

/// A program on an interface of the namespace of the thread that hung it there, until dropped.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Hangs a program on an interface, by its number.
    ///
    /// # Errors
    /// When the kernel refuses.
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
        // Closing is not enough at once: a process being started holds a copy of the descriptor for a moment.
        // SAFETY: the attributes hold no addresses. A failure leaves what closing does.
        let _ = unsafe { call(LINK_DETACH, &mut spec) };
    }
}
